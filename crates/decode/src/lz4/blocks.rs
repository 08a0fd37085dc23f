//! Decoding of a frame of independent blocks by workers.

use std::collections::VecDeque;

use unsnap_arena::{OpenSegment, Segment, Slice};

use super::{
    frame::Frame,
    header::{BLOCK_HEADER_BYTES, BlockHeader, FrameHeader},
    serial,
    writer::Writer,
};
use crate::{
    DecodeError, MemoryPlan, Position,
    cursor::{Cursor, Spans},
    in_order::{InOrder, Sink},
    output::Output,
    work::{Damage, Outcome, Tools, Unplaced, Workers},
};

/// Consecutive blocks for one worker.
struct Blocks {
    frame: FrameHeader,
    /// The blocks with their headers and checksums.
    compressed: Vec<Slice>,
    /// Position of the first block. Its offset in the decoded stream is not known yet.
    at: Position,
}

impl Unplaced for Blocks {
    fn decode(self: Box<Self>, mut segment: OpenSegment, tools: &mut Tools) -> Option<Outcome> {
        let Self { frame, compressed, at } = *self;
        let mut cursor = Cursor::new(VecDeque::from(compressed), at.compressed_offset);
        cursor.lend_scratch(&mut tools.gathered);
        let decoded = Self::decode_all(&frame, &mut cursor, &mut segment);
        cursor.return_scratch(&mut tools.gathered);
        let damage = decoded.err().map(|reason| -> Damage {
            let (compressed_offset, raw_offset) = (cursor.offset(), segment.filled() as u64);
            (Position { compressed_offset, raw_offset, ..at }, reason)
        });
        Some(Outcome { segment, at, starts: Vec::new(), damage })
    }
}

impl Blocks {
    fn decode_all(
        frame: &FrameHeader,
        cursor: &mut Cursor<VecDeque<Slice>>,
        segment: &mut OpenSegment,
    ) -> Result<(), String> {
        let inconsistent = || "the frame's blocks are inconsistent".to_owned();
        loop {
            let length = cursor.take(BLOCK_HEADER_BYTES).map_err(|error| error.to_string())?;
            let Some(&length) = length.and_then(|bytes| bytes.first_chunk()) else { return Ok(()) };
            let block = BlockHeader::parse(length, frame)?.ok_or_else(inconsistent)?;
            let stored =
                cursor.take(block.stored_bytes(frame)).map_err(|error| error.to_string())?;
            let stored = stored.ok_or_else(inconsistent)?;
            let room = segment.spare_mut().get_mut(..block.decoded_bytes_max(frame));
            let count = block.decode(stored, room.ok_or_else(inconsistent)?, &[])?;
            segment.advance(count);
        }
    }
}

/// Engine for frames of independent blocks.
pub(super) struct Parallel {
    in_order: InOrder,
    read_bytes: u64,
    job_bytes: usize,
}

/// What follows the blocks of a job.
enum Next {
    Blocks,
    EndMark,
    /// A damaged or truncated block, or one that is too large for the memory.
    Other,
}

impl Parallel {
    pub fn new(workers: &Workers, plan: &MemoryPlan) -> Self {
        let (read_bytes, job_bytes) = (plan.read_bytes as u64, plan.job_bytes);
        Self { in_order: InOrder::new(workers.clone()), read_bytes, job_bytes }
    }

    /// Decodes the frame whose header has been passed. Returns `false`, with the cursor where it
    /// was, if its blocks are too few to share them out.
    pub fn frame<S: Spans>(
        &mut self,
        frame: &Frame,
        cursor: &mut Cursor<S>,
        writer: &mut Writer<'_>,
        progress: &impl Fn(u64),
    ) -> Result<bool, DecodeError> {
        let mut shared_out = false;
        loop {
            let at = Position { compressed_offset: cursor.offset(), raw_offset: 0, ..frame.at };
            let (bytes_max, next) = self.gather(&frame.header, cursor)?;
            let compressed = cursor.recorded();
            match next {
                Next::EndMark | Next::Other if !shared_out => {
                    cursor.unread(compressed);
                    return Ok(false);
                }
                Next::Other => {
                    cursor.unread(compressed);
                    self.in_order.settle(writer)?;
                    // Finds what is wrong, after the blocks in front of it.
                    serial::blocks(frame, cursor, writer, progress)?;
                    return Ok(true);
                }
                Next::Blocks | Next::EndMark => {}
            }
            if !shared_out {
                writer.flush()?;
                writer.begin(&frame.header, frame.at);
                shared_out = true;
            }
            if !compressed.is_empty() {
                let end = Position { compressed_offset: cursor.offset(), ..at };
                let blocks = Blocks { frame: frame.header, compressed, at };
                self.in_order.submit(blocks, bytes_max, end, writer)?;
            }
            progress(cursor.offset());
            if let Next::EndMark = next {
                cursor.skip(BLOCK_HEADER_BYTES as u64)?;
                self.in_order.settle(writer)?;
                frame.end(cursor, writer)?;
                return Ok(true);
            }
        }
    }

    /// Passes as many blocks as one job may have, while recording them. Returns the most bytes that
    /// they decode to. Half of the read buffer must stay free for further reads, so that the planner
    /// can never starve itself.
    fn gather<S: Spans>(
        &self,
        frame: &FrameHeader,
        cursor: &mut Cursor<S>,
    ) -> Result<(usize, Next), DecodeError> {
        cursor.record()?;
        let start = cursor.offset();
        let mut bytes_max = 0;
        loop {
            let length = cursor.peek(BLOCK_HEADER_BYTES)?.first_chunk().copied();
            let block = match length.map(|length| BlockHeader::parse(length, frame)) {
                None | Some(Err(_)) => return Ok((bytes_max, Next::Other)),
                Some(Ok(None)) => return Ok((bytes_max, Next::EndMark)),
                Some(Ok(Some(block))) => block,
            };
            let bytes = (BLOCK_HEADER_BYTES + block.stored_bytes(frame)) as u64;
            let decoded = block.decoded_bytes_max(frame);
            let fits = bytes_max + decoded <= self.job_bytes
                && cursor.offset() + bytes - start <= self.read_bytes / 2;
            if !fits {
                let any = cursor.offset() > start;
                return Ok((bytes_max, if any { Next::Blocks } else { Next::Other }));
            }
            if !cursor.skip(bytes)? {
                return Ok((bytes_max, Next::Other));
            }
            bytes_max += decoded;
        }
    }
}

impl Sink for Writer<'_> {
    fn output(&mut self) -> &mut Output {
        self.output
    }

    fn passing(&mut self, segment: &Segment) -> Result<(), DecodeError> {
        self.decoded_elsewhere(segment)
    }
}
