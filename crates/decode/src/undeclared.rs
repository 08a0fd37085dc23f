//! Engine for frames that do not declare their size, and small ones among them: Firedancer's.
//! Workers decode them as a whole. Their block headers bound what they decode to.

use std::sync::Arc;

use unsnap_arena::Slice;
use unsnap_zstd::{BLOCK_HEADER_BYTES, FrameHeader};

use crate::{
    DecodeError, FrameStarts, MemoryPlan, Position,
    batch::JOB_FRAMES_MAX,
    cursor::{Cursor, Spans},
    frame::{block_header, block_raw_bytes},
    in_order::InOrder,
    output::Output,
    parallel::{UnplacedFrames, WholeFrame},
    work::Workers,
};

pub(crate) struct Undeclared {
    in_order: InOrder,
    /// Frames of the next job.
    frames: Vec<WholeFrame>,
    /// Most bytes that they decode to.
    bytes_max: usize,
    /// Position at which the last of them ends.
    end: Position,
    read_bytes: u64,
    job_bytes: usize,
    frame_bytes_max: usize,
}

/// A frame that was passed, and the most bytes that it decodes to.
struct Recorded {
    compressed: Vec<Slice>,
    bytes_max: usize,
}

impl Undeclared {
    pub fn new(plan: &MemoryPlan, workers: Workers, frame_starts: Arc<FrameStarts>) -> Self {
        Self {
            in_order: InOrder::new(workers).note(frame_starts),
            frames: Vec::new(),
            bytes_max: 0,
            end: Position::default(),
            read_bytes: plan.read_bytes as u64,
            job_bytes: plan.job_bytes,
            frame_bytes_max: plan.frame_bytes_max,
        }
    }

    /// Returns whether a frame after one of these should be decoded here, too, although it declares
    /// its size.
    pub fn continues(&self, header: &FrameHeader) -> bool {
        header.content_bytes.is_none_or(|bytes| bytes <= self.job_bytes as u64)
    }

    /// Returns whether offsets in the decoded stream are not known, because frames are in flight.
    pub fn is_pending(&self) -> bool {
        self.in_order.is_pending() || !self.frames.is_empty()
    }

    /// Passes the frame at the cursor, whose position is `at`. Returns `false`, with the cursor back
    /// at its start, if it could decode to too much or would occupy too much of the read buffer, or
    /// if it is truncated or has an invalid block.
    pub fn frame<S: Spans>(
        &mut self,
        cursor: &mut Cursor<S>,
        header: &FrameHeader,
        at: Position,
        output: &mut Output,
    ) -> Result<bool, DecodeError> {
        let Some(Recorded { compressed, bytes_max }) = self.record(cursor, header, output)? else {
            return Ok(false);
        };
        if !self.frames.is_empty() && self.bytes_max + bytes_max > self.job_bytes {
            self.dispatch(output)?;
        }
        self.bytes_max += bytes_max;
        self.end = Position { compressed_offset: cursor.offset(), ..at };
        self.frames.push(WholeFrame { at, compressed, content_bytes: header.content_bytes });
        if self.bytes_max >= self.job_bytes || self.frames.len() >= JOB_FRAMES_MAX {
            self.dispatch(output)?;
        }
        Ok(true)
    }

    fn record<S: Spans>(
        &mut self,
        cursor: &mut Cursor<S>,
        header: &FrameHeader,
        output: &mut Output,
    ) -> Result<Option<Recorded>, DecodeError> {
        let start = cursor.offset();
        cursor.record()?;
        let mut whole = cursor.skip(header.header_bytes as u64)?;
        let mut bytes_max = 0_u64;
        while whole {
            let block = cursor.take(BLOCK_HEADER_BYTES)?.and_then(|bytes| bytes.first_chunk());
            let Some(block) = block.copied().and_then(block_header) else { break };
            let checksum_bytes = if block.last && header.has_checksum { 4 } else { 0 };
            let bytes = (block.stored_bytes() + checksum_bytes) as u64;
            let end = cursor.offset() + bytes;
            bytes_max += block_raw_bytes(&block).unwrap_or(header.block_bytes_max() as u64);
            let declared = header.content_bytes.unwrap_or(u64::MAX);
            if !self.fits(start, end) || bytes_max.min(declared) > self.frame_bytes_max as u64 {
                break;
            }
            let first = self.frames.first().map(|frame| frame.at.compressed_offset);
            if !self.fits(first.unwrap_or(start), end) {
                // The frame fits, but not together with those before it.
                self.dispatch(output)?;
            }
            whole = cursor.skip(bytes)?;
            if whole && block.last {
                let bytes_max = usize::try_from(bytes_max.min(declared)).unwrap_or(usize::MAX);
                return Ok(Some(Recorded { compressed: cursor.recorded(), bytes_max }));
            }
        }
        let recorded = cursor.recorded();
        cursor.unread(recorded);
        Ok(None)
    }

    /// Returns whether the read buffer may hold all bytes from `start` to `end`. Half of it must stay
    /// free for further reads, so that the planner can never starve itself.
    fn fits(&self, start: u64, end: u64) -> bool {
        end - start <= self.read_bytes / 2
    }

    fn dispatch(&mut self, output: &mut Output) -> Result<(), DecodeError> {
        let frames = std::mem::take(&mut self.frames);
        let bytes_max = std::mem::take(&mut self.bytes_max);
        if frames.is_empty() {
            return Ok(());
        }
        self.in_order.submit(UnplacedFrames(frames), bytes_max, self.end, output)
    }

    /// Sends all that has been passed.
    pub fn settle(&mut self, output: &mut Output) -> Result<(), DecodeError> {
        self.dispatch(output)?;
        self.in_order.settle(output)
    }
}
