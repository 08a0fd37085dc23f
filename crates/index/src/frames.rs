//! The frames of an archive: a map from compressed to decoded bytes.

use std::ops::Range;

use unsnap_decode::{FrameMark, Limits};

use crate::IndexError;

/// Limit on frames in a table: the decoder's default limit, skippable frames included.
pub const FRAMES_MAX: u64 = 20_000_000;

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its offset in the archive.
    pub offset: u64,
    /// Its length in the archive.
    pub bytes: u64,
    /// Offset of its content in the decoded stream.
    pub raw_offset: u64,
    /// Length of its content; 0 for a frame that decoders skip.
    pub raw_bytes: u64,
    /// Whether decoders skip it.
    pub skippable: bool,
}

impl Frame {
    /// Returns its range in the archive.
    pub fn extent(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }

    /// Returns its range in the decoded stream.
    pub fn raw_extent(&self) -> Range<u64> {
        self.raw_offset..self.raw_offset + self.raw_bytes
    }
}

/// Encoding of a frame's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// zstd frames.
    Zstd,
    /// lz4 frames.
    Lz4,
    /// No encoding: a plain tar is one frame, and any part of it can be read by itself.
    Plain,
}

/// All frames of an archive. They are adjacent in the archive and in the decoded stream, both of
/// which begin at 0. So the table maps between the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTable {
    encoding: Encoding,
    frames: Vec<Frame>,
    archive_bytes: u64,
    raw_bytes: u64,
}

impl FrameTable {
    /// Creates a table without frames, to be filled by [`push`](Self::push).
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding, frames: Vec::new(), archive_bytes: 0, raw_bytes: 0 }
    }

    /// Creates the table of a plain tar.
    pub fn plain(archive_bytes: u64) -> Self {
        let frame = Frame {
            offset: 0,
            bytes: archive_bytes,
            raw_offset: 0,
            raw_bytes: archive_bytes,
            skippable: false,
        };
        let (raw_bytes, frames) = (archive_bytes, vec![frame]);
        Self { encoding: Encoding::Plain, frames, archive_bytes, raw_bytes }
    }

    /// Appends the next frame: its size in the archive, and its decoded size, which is `None` for a
    /// skippable frame. Enforces the limits of decoding.
    pub fn push(&mut self, bytes: u64, raw_bytes: Option<u64>) -> Result<(), IndexError> {
        let bad = IndexError::Inconsistent;
        if self.frames.len() as u64 >= FRAMES_MAX {
            return Err(bad("it has too many frames"));
        }
        let (offset, raw_offset) = (self.archive_bytes, self.raw_bytes);
        let content = raw_bytes.unwrap_or(0);
        let limit = Limits::default().raw_bytes_max;
        let end = offset.checked_add(bytes).filter(|_| bytes > 0);
        let raw_end = raw_offset.checked_add(content).filter(|end| *end <= limit);
        self.archive_bytes = end.ok_or(bad("a frame is empty or its end is out of range"))?;
        self.raw_bytes = raw_end.ok_or(bad("its frames exceed the limit on decoded bytes"))?;
        let skippable = raw_bytes.is_none();
        self.frames.push(Frame { offset, bytes, raw_offset, raw_bytes: content, skippable });
        Ok(())
    }

    /// Creates the table of an archive that was decoded to its end, from the frames that were
    /// passed and the total sizes.
    pub fn of_marks(
        encoding: Encoding,
        marks: &[FrameMark],
        archive_bytes: u64,
        raw_bytes: u64,
    ) -> Result<Self, IndexError> {
        let mut table = Self::new(encoding);
        for (index, mark) in marks.iter().enumerate() {
            let next = marks.get(index + 1).map(|next| next.at);
            let end = next.map_or(archive_bytes, |at| at.compressed_offset);
            let raw_end = next.map_or(raw_bytes, |at| at.raw_offset);
            let gap = IndexError::Inconsistent("its frames are not contiguous");
            let adjoins = mark.at.compressed_offset == table.archive_bytes
                && mark.at.raw_offset == table.raw_bytes;
            let (bytes, content) = match end
                .checked_sub(mark.at.compressed_offset)
                .zip(raw_end.checked_sub(mark.at.raw_offset))
            {
                Some(sizes) if adjoins => sizes,
                _ => return Err(gap),
            };
            table.push(bytes, (!mark.skippable).then_some(content))?;
        }
        if table.archive_bytes == archive_bytes && table.raw_bytes == raw_bytes {
            return Ok(table);
        }
        Err(IndexError::Inconsistent("its frames do not add up to the size of the archive"))
    }

    /// Returns the encoding of the frames.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the frames, in order.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Returns the size of the archive in bytes.
    pub fn archive_bytes(&self) -> u64 {
        self.archive_bytes
    }

    /// Returns the size of the decoded stream in bytes.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Returns the indices of all frames that hold part of a range of the decoded stream, in order.
    /// Empty if the range is empty. Frames without content may be among them.
    pub fn holding(&self, raw: &Range<u64>) -> Range<usize> {
        if raw.is_empty() {
            return 0..0;
        }
        let from = self.frames.partition_point(|frame| frame.raw_extent().end <= raw.start);
        let to = self.frames.partition_point(|frame| frame.raw_offset < raw.end);
        from..to.max(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> FrameTable {
        let mut table = FrameTable::new(Encoding::Zstd);
        for (bytes, raw) in [(10, Some(100)), (5, None), (7, Some(0)), (20, Some(50))] {
            table.push(bytes, raw).unwrap();
        }
        table
    }

    #[test]
    fn frames_are_found_by_what_they_hold() {
        let table = table();
        assert_eq!((table.archive_bytes(), table.raw_bytes()), (42, 150));
        let holding = |raw: Range<u64>| {
            let numbers = table.holding(&raw);
            numbers.filter(|n| table.frames()[*n].raw_bytes > 0).collect::<Vec<_>>()
        };
        assert_eq!(holding(0..1), [0]);
        assert_eq!(holding(99..100), [0]);
        assert_eq!(holding(99..101), [0, 3]);
        assert_eq!(holding(100..150), [3]);
        assert_eq!(holding(40..40), [] as [usize; 0]);
        assert_eq!(holding(150..160), [] as [usize; 0]);
    }

    #[test]
    fn overflows_are_refused() {
        let mut table = table();
        assert!(table.push(0, Some(1)).is_err());
        assert!(table.push(u64::MAX, Some(1)).is_err());
        assert!(table.push(1, Some(u64::MAX)).is_err());
        assert!(table.push(1, Some(65 << 40)).is_err());
    }
}
