//! Execution of parsed chunks into segments, in stream order.

use std::{hash::Hasher, ops::Range, sync::Arc};

use twox_hash::XxHash64;
use unsnap_arena::{OpenSegment, Slice};
use unsnap_zstd::{BlockDefect, Defect, Repeats, Window};

use crate::{
    DecodeError, DecodedSegment, FrameStarts, Position,
    chunk::{Chunk, Ending, Part},
    output::{Output, Piece},
};

/// Executes chunks. Segments serve as the window: the one being filled, and the one before it.
pub(crate) struct Execution {
    current: Option<OpenSegment>,
    /// The segment filled before the current one, while the frame can refer to it.
    previous: Option<Slice>,
    /// Position at which the current segment begins.
    opened_at: Position,
    segment_bytes: usize,
    frame_starts: Arc<FrameStarts>,
    /// Repeat offsets at the start of the chunk, or of a frame that begins in it.
    repeats: Repeats,
    /// Decoded bytes of the frame.
    frame_bytes: u64,
    /// For the checksum of the frame, if it has one.
    hasher: Option<XxHash64>,
}

impl Execution {
    pub fn new(segment_bytes: usize, frame_starts: Arc<FrameStarts>) -> Self {
        Self {
            current: None,
            previous: None,
            opened_at: Position::default(),
            segment_bytes,
            frame_starts,
            repeats: Repeats::new(),
            frame_bytes: 0,
            hasher: None,
        }
    }

    /// Executes the next chunk in stream order. What precedes damage is decoded.
    pub fn chunk(&mut self, chunk: &Chunk, output: &mut Output) -> Result<(), DecodeError> {
        let ends = chunk.parts.iter().skip(1).map(|next| next.first);
        let ends = ends.chain([chunk.slot.blocks()]);
        for (part, end) in chunk.parts.iter().zip(ends) {
            if part.begins {
                self.begin(part, output);
            }
            let parsed = chunk.slot.parsed_blocks();
            self.blocks(chunk, part, part.first.min(parsed)..end.min(parsed), output)?;
            if let Err(damage) = chunk.parsed
                && damage.index < end
            {
                return Err(corrupt(chunk, part, damage, output));
            }
            if let Some(ending) = &part.ends {
                self.end(part, ending, output)?;
            }
        }
        self.repeats.pass(&chunk.slot);
        Ok(())
    }

    fn begin(&mut self, part: &Part, output: &Output) {
        self.frame_starts.note(Position { raw_offset: output.raw_offset, ..part.frame_at });
        self.repeats = Repeats::new();
        self.frame_bytes = 0;
        self.hasher = part.header.has_checksum.then(|| XxHash64::with_seed(0));
        // The frame cannot refer to it.
        self.previous = None;
    }

    /// Executes blocks of one frame, as many at a time as the segment has room for.
    fn blocks(
        &mut self,
        chunk: &Chunk,
        part: &Part,
        mut blocks: Range<usize>,
        output: &mut Output,
    ) -> Result<(), DecodeError> {
        while !blocks.is_empty() {
            let room = self.current.as_ref().map_or(0, OpenSegment::spare);
            let (count, bytes) = chunk.slot.blocks_within(blocks.clone(), room);
            let after = blocks.start + count;
            if bytes > 0 {
                self.execute(chunk, part, blocks.start..after, output)?;
            } else if count == 0 {
                self.roll(chunk, part, blocks.start, output)?;
            }
            blocks.start = after;
        }
        Ok(())
    }

    /// Executes blocks that fit into the open segment.
    fn execute(
        &mut self,
        chunk: &Chunk,
        part: &Part,
        blocks: Range<usize>,
        output: &mut Output,
    ) -> Result<(), DecodeError> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let previous: &[u8] = self.previous.as_deref().unwrap_or_default();
        let filled = current.filled();
        let held = (previous.len() + filled) as u64;
        let history = usize::try_from(self.frame_bytes.min(held)).unwrap_or(usize::MAX);
        let window = Window { previous, current: current.window_mut(), filled, history };
        let executed = chunk.slot.execute_blocks(blocks.clone(), self.repeats, window);
        let (good, damage) = match executed {
            Ok(count) => (count, None),
            Err(damage) => {
                let before = chunk.slot.blocks_within(blocks.start..damage.index, usize::MAX);
                (before.1, Some(damage))
            }
        };
        if let Some(hasher) = &mut self.hasher {
            hasher.write(&current.window_mut()[filled..filled + good]);
        }
        current.advance(good);
        self.frame_bytes += good as u64;
        let compressed_offset = chunk.offset(part, blocks.end);
        let at = Position { compressed_offset, raw_offset: output.raw_offset, ..part.frame_at };
        output.count(good as u64, at)?;
        damage.map_or(Ok(()), |damage| Err(corrupt(chunk, part, damage, output)))
    }

    fn end(&self, part: &Part, ending: &Ending, output: &Output) -> Result<(), DecodeError> {
        let at = |compressed_offset| Position {
            compressed_offset,
            raw_offset: output.raw_offset,
            ..part.frame_at
        };
        let wrong =
            |at, defect: Defect| Err(DecodeError::Corrupt { at, reason: defect.to_string() });
        let decoded = self.frame_bytes;
        if let Some(declared) = part.header.content_bytes.filter(|&bytes| bytes != decoded) {
            return wrong(at(ending.offset), Defect::ContentSize { declared, decoded });
        }
        let sum = self.hasher.as_ref().map(|hasher| hasher.finish().to_le_bytes());
        match (sum, ending.checksum) {
            (Some(sum), Some(expected)) if sum[..4] != expected => {
                wrong(at(ending.offset - expected.len() as u64), Defect::Checksum)
            }
            _ => Ok(()),
        }
    }

    /// Continues in a new segment. The filled one is sent before the new one is allocated: a thread
    /// that waits for memory must not hold any that others could use up and return.
    fn roll(
        &mut self,
        chunk: &Chunk,
        part: &Part,
        block: usize,
        output: &mut Output,
    ) -> Result<(), DecodeError> {
        self.flush(output)?;
        let compressed_offset = chunk.offset(part, block);
        self.opened_at =
            Position { compressed_offset, raw_offset: output.raw_offset, ..part.frame_at };
        self.current = Some(output.open(self.segment_bytes)?);
        Ok(())
    }

    /// Sends the bytes of the open segment. A frame cannot continue afterwards.
    pub fn finish(&mut self, output: &mut Output) -> Result<(), DecodeError> {
        let sent = self.flush(output);
        self.previous = None;
        sent
    }

    fn flush(&mut self, output: &mut Output) -> Result<(), DecodeError> {
        let Some(filled) = self.current.take().filter(|open| open.filled() > 0) else {
            return Ok(());
        };
        let segment = filled.seal();
        self.previous = Some(segment.share());
        output.send(Piece::Ready(DecodedSegment { segment, at: self.opened_at }))
    }
}

/// Returns the error for a damaged block, up to which all is decoded.
fn corrupt(chunk: &Chunk, part: &Part, damage: BlockDefect, output: &Output) -> DecodeError {
    let BlockDefect { index, defect } = damage;
    let block = part.block + (index - part.first) as u64;
    let compressed_offset = chunk.content_offset(part, index);
    let at = Position { compressed_offset, raw_offset: output.raw_offset, ..part.frame_at };
    DecodeError::Corrupt { at, reason: format!("{defect} (block {block})") }
}
