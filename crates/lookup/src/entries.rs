//! Reading of single entries by an index: their frames are decoded into events of the tar walk.

use unsnap_index::{Entry, Index, IndexError, RangeReader, ReadCounts, ReadOptions};
use unsnap_pass::{Anywhere, Handles, PassError};
use unsnap_source::ArchiveFile;
use unsnap_tarstream::{Event, Limits, Walker};

use crate::LookupError;

/// Reader of entries that an index names.
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
    /// Shows the walk over each of these entries to `see`: its member, which must equal the index's
    /// entry, and its payload. The entries are in the archive's order. Only the frames that hold
    /// them are read and decoded.
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
            // Adjacent entries come as one range.
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

/// Error for a header that differs from the index's entry.
const OTHER_HEADER: IndexError = IndexError::Stale("another entry is at the place that it names");

/// Walk over one entry.
struct Walk<'e> {
    entry: &'e Entry,
    walker: Walker,
    /// Whether its header was seen.
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

/// Reason for the end of reading.
enum Failed {
    Index(IndexError),
    Other(LookupError),
}

impl From<IndexError> for Failed {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}
