//! Reading of parts of an export's files: those in a directory, and those on a server.

use std::{ops::Range, os::fd::OwnedFd};

use bytes::Bytes;
use unsnap_fetch::RemoteParts;
use unsnap_pass::{CancelToken, PassError};
use unsnap_table::{Parts, TableError};

use crate::{ExportError, directory::Directory, passes::CANCELLED};

/// Distance between two parts of a file up to which both are read at once: by then the bytes between
/// them cost less than another read. A guess for disks, and what object stores advise.
const FILE_GAP_BYTES: u64 = 48 << 10;
const SERVER_GAP_BYTES: u64 = 1 << 20;

/// Largest span of several parts, so that what is read at once stays bounded. A single part may be
/// larger.
const SPAN_BYTES_MAX: u64 = 32 << 20;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadCounts {
    /// Reads of files, or requests to a server.
    pub requests: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes of these that were needed.
    pub needed_bytes: u64,
}

impl ReadCounts {
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.needed_bytes += other.needed_bytes;
    }
}

/// Why a part could not be read.
pub(crate) enum PartError {
    /// What was read makes no sense.
    Table(TableError),
    /// It could not be read.
    Export(ExportError),
}

impl From<TableError> for PartError {
    fn from(error: TableError) -> Self {
        Self::Table(error)
    }
}

/// A file of which parts are read.
pub(crate) struct FileParts<'a> {
    pub source: PartSource<'a>,
    pub file_bytes: u64,
    /// Distance up to which two parts are read at once; `None` for a default.
    pub gap_bytes: Option<u64>,
    pub cancel: &'a CancelToken,
    pub counts: ReadCounts,
}

/// Where a file is.
pub(crate) enum PartSource<'a> {
    File { directory: &'a Directory<'a>, name: &'a str, file: OwnedFd },
    Server(Box<RemoteParts>),
}

impl Parts for FileParts<'_> {
    type Error = PartError;

    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<(u64, Bytes)>, PartError> {
        let default = match &self.source {
            PartSource::File { .. } => FILE_GAP_BYTES,
            PartSource::Server(_) => SERVER_GAP_BYTES,
        };
        let spans = together(ranges, self.gap_bytes.unwrap_or(default));
        self.counts.needed_bytes += length(&together(ranges, 0));
        self.counts.bytes += length(&spans);
        let mut read = Vec::new();
        for span in spans {
            let offset = span.start;
            let bytes = self.span(span).map_err(PartError::Export)?;
            read.push((offset, Bytes::from(bytes)));
        }
        Ok(read)
    }
}

impl FileParts<'_> {
    fn span(&mut self, span: Range<u64>) -> Result<Vec<u8>, ExportError> {
        let cancelled = || self.cancel.is_cancelled();
        match &mut self.source {
            PartSource::Server(parts) => {
                let before = parts.requests();
                let read = parts.read(span, &cancelled);
                self.counts.requests += parts.requests() - before;
                Ok(read.map_err(PassError::from)?)
            }
            PartSource::File { directory, name, file } => {
                let length = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
                let (mut bytes, mut filled) = (vec![0; length], 0);
                while filled < length {
                    if cancelled() {
                        return Err(CANCELLED);
                    }
                    let at = span.start + filled as u64;
                    let count = directory.calls.pread(&*file, &mut bytes[filled..], at);
                    match count.map_err(directory.failed("read", name))? {
                        0 => return Err(directory.failed("read", name)(rustix::io::Errno::IO)),
                        count => filled += count,
                    }
                    self.counts.requests += 1;
                }
                Ok(bytes)
            }
        }
    }
}

fn length(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Returns spans that cover ranges: two ranges are in one span if no more than `gap` bytes are between
/// them and the span stays within its bound, or if they overlap.
fn together(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> =
        ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut spans: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match spans.last_mut() {
            Some(last)
                if range.start < last.end
                    || (range.start - last.end <= gap
                        && range.end - last.start <= SPAN_BYTES_MAX) =>
            {
                last.end = last.end.max(range.end);
            }
            _ => spans.push(range),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First bytes and ends.
    type Pairs = Vec<(u64, u64)>;

    fn spans(ranges: &[(u64, u64)], gap: u64) -> Pairs {
        let ranges: Vec<Range<u64>> = ranges.iter().map(|(begin, end)| *begin..*end).collect();
        together(&ranges, gap).into_iter().map(|span| (span.start, span.end)).collect()
    }

    #[test]
    fn near_ranges_are_read_together() {
        assert_eq!(spans(&[], 10), []);
        assert_eq!(spans(&[(0, 10), (20, 30)], 10), [(0, 30)]);
        assert_eq!(spans(&[(0, 10), (20, 30)], 9), [(0, 10), (20, 30)]);
        assert_eq!(spans(&[(20, 30), (0, 10), (5, 5)], 9), [(0, 10), (20, 30)]);
        let touching = [(0, 10), (10, 20), (15, 18), (40, 41)];
        assert_eq!(spans(&touching, 0), [(0, 20), (40, 41)]);
        assert_eq!(spans(&[(0, 20), (5, 8)], 0), [(0, 20)]);
        let most = SPAN_BYTES_MAX;
        // Only what overlaps may exceed the bound.
        assert_eq!(spans(&[(0, most), (most, most + 1)], 5), [(0, most), (most, most + 1)]);
        assert_eq!(spans(&[(0, most), (most - 1, most + 1)], 5), [(0, most + 1)]);
        assert_eq!(spans(&[(0, most + 9)], 5), [(0, most + 9)]);
    }
}
