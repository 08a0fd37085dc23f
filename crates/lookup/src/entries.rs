//! Entries that an index names: their frames, decoded, as events of the tar walk.

use unsnap_index::{Entry, Index, IndexError, RangeReader, ReadCounts, ReadOptions};
use unsnap_pass::{Anywhere, Handles, PassError};
use unsnap_source::ArchiveFile;
use unsnap_tarstream::{Event, Limits, Walker};

use crate::LookupError;

/// Reads entries that an index names.
pub(crate) struct EntryReader<'a> {
    /// Name of the archive in messages.
    pub archive: &'a str,
    pub file: &'a ArchiveFile,
    pub index: &'a Index,
    pub options: ReadOptions,
    pub limits: Limits,
    pub handles: &'a Handles,
}

impl EntryReader<'_> {
    /// Shows `see` the walk over each of these entries, which are in the archive's order: its member,
    /// which is the one of the index or an error, and its payload. Nothing else is read and decoded than
    /// the frames that hold them.
    pub fn entries(
        &self,
        entries: &[&Entry],
        mut see: impl FnMut(Event<'_>, &[u8]) -> Result<(), LookupError>,
    ) -> Result<ReadCounts, LookupError> {
        let ranges: Vec<_> = entries.iter().map(|entry| entry.raw_extent()).collect();
        self.handles
            .progress
            .expect_bytes(ranges.iter().map(|range| range.end - range.start).sum());
        let archive = Anywhere(self.file);
        let is_cancelled = || self.handles.cancel.is_cancelled();
        let reader = RangeReader::new(&archive, &self.index.frames, self.options);
        let reader = reader.cancelled_by(&is_cancelled);
        let mut rest = entries.iter();
        let mut current = rest.next().map(|entry| self.walk(entry));
        let counts = reader.read::<Failed>(&ranges, |mut offset, mut bytes| {
            // Entries without padding between them come as one range.
            while let Some(walk) = current.as_mut().filter(|_| !bytes.is_empty()) {
                let end = walk.entry.raw_extent().end;
                let count = usize::try_from(end - offset).unwrap_or(usize::MAX).min(bytes.len());
                walk.feed(&bytes[..count], &mut see)?;
                self.handles.progress.count_read(count as u64);
                (offset, bytes) = (offset + count as u64, &bytes[count..]);
                if offset == end {
                    if !walk.seen {
                        return Err(Failed::Index(OTHER_HEADER));
                    }
                    current = rest.next().map(|entry| self.walk(entry));
                }
            }
            Ok(())
        });
        counts.map_err(|failed| match failed {
            Failed::Index(error) => PassError::index(self.archive, error).into(),
            Failed::Other(error) => error,
        })
    }

    fn walk<'e>(&self, entry: &'e Entry) -> Walk<'e> {
        let walker = Walker::resume(self.limits, entry.header_offset, 0);
        Walk { entry, walker, seen: false }
    }
}

/// Where the index says that an entry is, there is none, or another.
const OTHER_HEADER: IndexError = IndexError::Stale("where an entry should be is another");

/// The walk over one entry.
struct Walk<'e> {
    entry: &'e Entry,
    walker: Walker,
    /// Its header has been.
    seen: bool,
}

impl Walk<'_> {
    fn feed(
        &mut self,
        mut bytes: &[u8],
        see: &mut impl FnMut(Event<'_>, &[u8]) -> Result<(), LookupError>,
    ) -> Result<(), Failed> {
        while !bytes.is_empty() {
            let step = self.walker.step(bytes).map_err(|_| Failed::Index(OTHER_HEADER))?;
            let (passed, rest) = bytes.split_at(step.consumed);
            bytes = rest;
            match step.event {
                Event::Member(member) => {
                    if self.seen || Entry::of(&member) != *self.entry {
                        return Err(Failed::Index(OTHER_HEADER));
                    }
                    self.seen = true;
                }
                Event::End => return Err(Failed::Index(OTHER_HEADER)),
                Event::Skipped | Event::Payload { .. } => {}
            }
            see(step.event, passed).map_err(Failed::Other)?;
        }
        Ok(())
    }
}

/// What ends the reading.
enum Failed {
    Index(IndexError),
    Other(LookupError),
}

impl From<IndexError> for Failed {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}
