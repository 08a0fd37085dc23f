//! Batches: consecutive frames that one worker decodes as a whole, into one segment.

use crossbeam::channel::bounded;
use unsnap_arena::Slice;
use unsnap_zstd::{BLOCK_HEADER_BYTES, FrameHeader};

use crate::{
    DecodeError, MemoryPlan, Position,
    cursor::{Cursor, Spans},
    frame::block_header,
    output::{Output, Piece},
    parallel::{FrameJob, WholeFrame},
    work::Workers,
};

/// Size in decoded bytes below which a frame that follows a streamed frame is streamed as well,
/// since that costs less than passing it to a worker. Firedancer puts a frame of 512 bytes before
/// every file. A guess.
const PARALLEL_BYTES_MIN: usize = 64 << 10;

/// Most frames in one batch. The bookkeeping for each frame lies outside the pool, and an empty
/// frame is only nine bytes long. Genuine frames are no shorter than a tar header, of which a job
/// holds as many.
pub(crate) const JOB_FRAMES_MAX: usize = 8192;

/// Frames to be decoded together, not yet passed to a worker.
pub(crate) struct Batch {
    frames: Vec<WholeFrame>,
    content_bytes: usize,
    /// Offset in the archive at which the last frame ends.
    end: u64,
    /// `None` without workers.
    workers: Option<Workers>,
    read_bytes: usize,
    job_bytes: usize,
    frame_bytes_max: usize,
}

impl Batch {
    pub fn new(plan: &MemoryPlan, workers: Option<Workers>) -> Self {
        Self {
            frames: Vec::new(),
            content_bytes: 0,
            end: 0,
            workers,
            read_bytes: plan.read_bytes,
            job_bytes: plan.job_bytes,
            frame_bytes_max: plan.frame_bytes_max,
        }
    }

    /// Returns the decoded bytes of the frames in the batch.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes as u64
    }

    /// Returns the declared size of a frame that a worker can decode as a whole. `follows` tells
    /// whether the frame before it went to a worker, too.
    pub fn takes(&self, header: &FrameHeader, follows: bool) -> Option<usize> {
        let content_bytes = usize::try_from(header.content_bytes?).ok()?;
        let fits = self.workers.is_some() && content_bytes <= self.frame_bytes_max;
        (fits && (follows || content_bytes >= PARALLEL_BYTES_MIN)).then_some(content_bytes)
    }

    /// Passes one frame by its block headers and returns its bytes. Returns `None`, with the cursor
    /// back at the start of the frame, if they would occupy too much of the read buffer, or if the
    /// frame is truncated or has an invalid block. In the latter case another engine finds the
    /// position and returns the bytes before it.
    pub fn record<S: Spans>(
        &mut self,
        cursor: &mut Cursor<S>,
        header: &FrameHeader,
        output: &mut Output,
    ) -> Result<Option<Vec<Slice>>, DecodeError> {
        let start = cursor.offset();
        cursor.record()?;
        let mut whole = cursor.skip(header.header_bytes as u64)?;
        while whole {
            let block = cursor.take(BLOCK_HEADER_BYTES)?.and_then(|bytes| bytes.first_chunk());
            let Some(block) = block.copied().and_then(block_header) else { break };
            let checksum_bytes = if block.last && header.has_checksum { 4 } else { 0 };
            let bytes = (block.stored_bytes() + checksum_bytes) as u64;
            let end = cursor.offset() + bytes;
            if !self.fits(start, end) {
                break;
            }
            let first = self.frames.first().map(|frame| frame.at.compressed_offset);
            if !self.fits(first.unwrap_or(start), end) {
                // The frame fits, but not together with those before it.
                self.dispatch(output)?;
            }
            whole = cursor.skip(bytes)?;
            if whole && block.last {
                return Ok(Some(cursor.recorded()));
            }
        }
        let recorded = cursor.recorded();
        cursor.unread(recorded);
        Ok(None)
    }

    /// Returns whether the read buffer may hold all bytes from `start` to `end`. Half of it must stay
    /// free for further reads, so that the planner can never starve itself.
    fn fits(&self, start: u64, end: u64) -> bool {
        end - start <= self.read_bytes as u64 / 2
    }

    /// Adds a frame, which declares so many bytes and ends at `end` in the archive.
    pub fn add(
        &mut self,
        frame: WholeFrame,
        content_bytes: usize,
        end: u64,
        output: &mut Output,
    ) -> Result<(), DecodeError> {
        if self.content_bytes + content_bytes > self.job_bytes {
            self.dispatch(output)?;
        }
        self.content_bytes += content_bytes;
        self.frames.push(frame);
        self.end = end;
        let full = self.content_bytes >= self.job_bytes || self.frames.len() >= JOB_FRAMES_MAX;
        if full { self.dispatch(output) } else { Ok(()) }
    }

    /// Passes the batch to a worker. Its segment is allocated here, in stream order.
    pub fn dispatch(&mut self, output: &mut Output) -> Result<(), DecodeError> {
        let frames = std::mem::take(&mut self.frames);
        let content_bytes = std::mem::take(&mut self.content_bytes);
        let (Some(workers), Some(last)) = (&self.workers, frames.last()) else {
            return Ok(());
        };
        let at = Position { compressed_offset: self.end, ..last.at };
        let (reply, promise) = bounded(1);
        // Segments cannot be empty. Frames without content get one byte of room, and are checked
        // like all others.
        let segment = output.open(content_bytes.max(1))?;
        output.count(content_bytes as u64, at)?;
        workers.send(FrameJob { frames, segment, reply })?;
        output.send(Piece::Promised(promise))
    }
}
