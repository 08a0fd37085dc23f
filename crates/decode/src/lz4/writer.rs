//! Decoding of blocks to their final place, in segments, and the bytes that later blocks may refer
//! to.

use unsnap_arena::{OpenSegment, Segment};

use super::{
    header::{BLOCK_HEADER_BYTES, BlockHeader, FrameHeader},
    sum::Sum,
};
use crate::{
    DecodeError, DecodedSegment, Position,
    output::{Output, Piece},
    work::Workers,
};

/// Number of bytes that a block of linked blocks may refer back to.
const WINDOW_BYTES: usize = 64 << 10;

/// Writes decoded blocks to segments. Nothing is allocated or cleared for a frame or a block.
pub(super) struct Writer<'a> {
    pub output: &'a mut Output,
    pub workers: Option<&'a Workers>,
    open: Option<OpenSegment>,
    /// Position at which the open segment begins.
    opened_at: Position,
    segment_bytes: usize,
    /// Offset in the archive at which the frame begins.
    frame_offset: u64,
    /// Decoded bytes of the frame.
    pub frame_bytes: u64,
    history: History,
    /// For blocks that no segment has room for.
    buffer: Vec<u8>,
    sum: Option<Sum>,
    /// Bytes of the open segment that are in the sum, or in front of the frame.
    summed: usize,
}

impl<'a> Writer<'a> {
    pub fn new(output: &'a mut Output, workers: Option<&'a Workers>, segment_bytes: usize) -> Self {
        Self {
            output,
            workers,
            open: None,
            opened_at: Position::default(),
            segment_bytes,
            frame_offset: 0,
            frame_bytes: 0,
            history: History::default(),
            buffer: Vec::new(),
            sum: None,
            summed: 0,
        }
    }

    /// Begins a frame, which cannot refer to anything before it and begins at `at`.
    pub fn begin(&mut self, header: &FrameHeader, at: Position) {
        self.frame_offset = at.compressed_offset;
        self.frame_bytes = 0;
        self.history.clear();
        self.sum = header.content_checksum.then(Sum::new);
        self.summed = self.filled();
    }

    /// Decodes a block of the frame, which begins at `from`, from its bytes in the archive.
    pub fn block(
        &mut self,
        frame: &FrameHeader,
        block: &BlockHeader,
        stored: &[u8],
        from: Position,
    ) -> Result<(), DecodeError> {
        let bytes_max = block.decoded_bytes_max(frame);
        if bytes_max > self.segment_bytes {
            return self.block_copied(frame, block, stored, from);
        }
        if self.open.as_ref().is_none_or(|open| open.spare() < bytes_max) {
            self.keep_history(frame);
            self.flush()?;
            self.open(from)?;
        }
        let at = end_of(from, stored);
        let held = self.held();
        let Some(open) = &mut self.open else { return Ok(()) };
        let filled = open.filled();
        let (before, rest) = open.window_mut().split_at_mut(filled);
        let dictionary = match held {
            _ if frame.independent => &[],
            Some(held) => &before[filled - held..],
            None => self.history.last(),
        };
        let decoded = block.decode(stored, &mut rest[..bytes_max], dictionary);
        let count = decoded.map_err(|reason| DecodeError::Corrupt { at, reason })?;
        if held.is_none() && !frame.independent {
            self.history.append(&rest[..count]);
        }
        open.advance(count);
        self.count(count, at)
    }

    /// Decodes a block that no segment has room for, and copies it to as many as it takes.
    fn block_copied(
        &mut self,
        frame: &FrameHeader,
        block: &BlockHeader,
        stored: &[u8],
        from: Position,
    ) -> Result<(), DecodeError> {
        let at = end_of(from, stored);
        self.keep_history(frame);
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.len() < frame.block_bytes_max {
            buffer.resize(frame.block_bytes_max, 0);
        }
        let dictionary = if frame.independent { &[] } else { self.history.last() };
        let decoded = block.decode(stored, &mut buffer, dictionary);
        let count = decoded.map_err(|reason| DecodeError::Corrupt { at, reason })?;
        let mut rest = &buffer[..count];
        if !frame.independent {
            self.history.append(rest);
        }
        while !rest.is_empty() {
            if self.open.as_ref().is_none_or(|open| open.spare() == 0) {
                self.flush()?;
                self.open(from)?;
            }
            let Some(open) = &mut self.open else { break };
            let part = rest.len().min(open.spare());
            open.spare_mut()[..part].copy_from_slice(&rest[..part]);
            open.advance(part);
            rest = &rest[part..];
            self.count(part, at)?;
        }
        self.buffer = buffer;
        Ok(())
    }

    /// Counts a segment of the frame that somebody else has decoded and will send. The open segment
    /// must be empty.
    pub fn decoded_elsewhere(&mut self, segment: &Segment) -> Result<(), DecodeError> {
        self.frame_bytes += segment.len() as u64;
        match &mut self.sum {
            Some(sum) => sum.add(segment.share(), self.workers),
            None => Ok(()),
        }
    }

    /// Returns the checksum of the frame's content, if the frame has one.
    pub fn finish(&mut self) -> Result<Option<u32>, DecodeError> {
        let Some(sum) = self.sum.take() else { return Ok(None) };
        let last = self.open.as_ref().map_or(&[][..], OpenSegment::decoded);
        sum.finish(&last[self.summed.min(last.len())..], self.workers).map(Some)
    }

    /// Sends the bytes of the open segment.
    pub fn flush(&mut self) -> Result<(), DecodeError> {
        let from = std::mem::take(&mut self.summed);
        let Some(filled) = self.open.take().filter(|open| open.filled() > 0) else {
            return Ok(());
        };
        let (segment, at) = (filled.seal(), self.opened_at);
        if let Some(sum) = &mut self.sum
            && from < segment.len()
        {
            sum.add(segment.share().slice(from..), self.workers)?;
        }
        self.output.send(Piece::Ready(DecodedSegment { segment, at }))
    }

    fn filled(&self) -> usize {
        self.open.as_ref().map_or(0, OpenSegment::filled)
    }

    /// Returns how many bytes at the end of the open segment the frame's next block may refer to;
    /// `None` if it may refer to bytes before the segment, which are in the history.
    fn held(&self) -> Option<usize> {
        let filled = self.filled();
        match usize::try_from(self.frame_bytes) {
            Ok(bytes) if bytes <= filled => Some(bytes.min(WINDOW_BYTES)),
            _ => (filled >= WINDOW_BYTES).then_some(WINDOW_BYTES),
        }
    }

    /// Keeps what the next block may refer to when the segment is gone.
    fn keep_history(&mut self, frame: &FrameHeader) {
        if frame.independent {
            return;
        }
        if let (Some(held), Some(open)) = (self.held(), &self.open) {
            let decoded = open.decoded();
            self.history.clear();
            self.history.append(&decoded[decoded.len() - held..]);
        }
    }

    fn open(&mut self, at: Position) -> Result<(), DecodeError> {
        // What a frame begins with comes from its header on, as in other formats.
        let is_first = self.frame_bytes == 0;
        let compressed_offset = if is_first { self.frame_offset } else { at.compressed_offset };
        self.opened_at = Position { compressed_offset, raw_offset: self.output.raw_offset, ..at };
        self.open = Some(self.output.open(self.segment_bytes)?);
        Ok(())
    }

    fn count(&mut self, bytes: usize, at: Position) -> Result<(), DecodeError> {
        self.frame_bytes += bytes as u64;
        self.output.count(bytes as u64, at)
    }
}

/// Returns the position behind a block that begins at `from`.
fn end_of(from: Position, stored: &[u8]) -> Position {
    let bytes = BLOCK_HEADER_BYTES + stored.len();
    Position { compressed_offset: from.compressed_offset + bytes as u64, ..from }
}

/// The last decoded bytes of a frame, for blocks that refer to an earlier segment.
#[derive(Default)]
struct History {
    bytes: Vec<u8>,
    /// Bytes copied so far.
    #[cfg(test)]
    copied: usize,
}

impl History {
    fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds decoded bytes. What has been passed is dropped when it is a whole window, so that a byte is
    /// copied twice at most.
    fn append(&mut self, decoded: &[u8]) {
        let decoded = &decoded[decoded.len().saturating_sub(WINDOW_BYTES)..];
        if self.bytes.len() > 2 * WINDOW_BYTES {
            let passed = self.bytes.len() - WINDOW_BYTES;
            self.bytes.drain(..passed);
            #[cfg(test)]
            {
                self.copied += self.bytes.len();
            }
        }
        self.bytes.extend_from_slice(decoded);
        #[cfg(test)]
        {
            self.copied += decoded.len();
        }
    }

    fn last(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(WINDOW_BYTES)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_holds_the_last_window_and_copies_every_byte_twice_at_most() {
        for lengths in [&[1][..], &[70_000], &[65_536], &[1, 65_535, 3], &[40_000, 131_072, 0]] {
            let mut history = History::default();
            let mut all = Vec::new();
            for (turn, &length) in lengths.iter().cycle().take(60).enumerate() {
                let decoded = vec![turn.to_le_bytes()[0]; length];
                history.append(&decoded);
                all.extend_from_slice(&decoded);
                let expected = &all[all.len().saturating_sub(WINDOW_BYTES)..];
                assert!(history.last() == expected, "{lengths:?} {turn}");
            }
            assert!(history.copied <= 2 * all.len() + WINDOW_BYTES, "{}", history.copied);
            assert!(history.bytes.capacity() <= 4 * WINDOW_BYTES);
            history.clear();
            assert!(history.last().is_empty());
        }
    }
}
