//! Output of decoding: segments in stream order, through a bounded queue of promises.

use std::{
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender, bounded};
use unsnap_arena::{OpenSegment, Pool, Segment};

use crate::{DecodeError, Format, Limits, Position};

/// Most pieces that may wait for the tar walk. The pool bounds their bytes; this bounds their
/// number.
const PIECES_MAX: usize = 256;

/// Item in the queue to the tar walk, in stream order.
pub(crate) enum Piece {
    Ready(DecodedSegment),
    /// A worker is decoding the segment.
    Promised(Receiver<Done>),
    End(DecodeSummary),
    Failed(DecodeError),
}

/// Result of a job, which a worker sends for its promise.
pub(crate) struct Done {
    /// Decoded bytes up to the first damage; `None` if there are none.
    pub segment: Option<DecodedSegment>,
    /// First damage.
    pub error: Option<DecodeError>,
}

/// A part of the decoded stream and its position in the archive.
#[derive(Debug)]
pub struct DecodedSegment {
    /// Decoded bytes.
    pub segment: Segment,
    /// Position at which decoding of its first byte began.
    pub at: Position,
}

/// Statistics of a complete decoding.
#[derive(Clone, Debug, Default)]
pub struct DecodeSummary {
    /// Compression format of the archive.
    pub format: Option<Format>,
    /// Size of the archive in bytes.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Number of frames. Skippable frames do not count, except for those before the position at
    /// which decoding began.
    pub frames: u64,
    /// Number of frames before the position at which decoding began, included in `frames`.
    pub frames_before: u64,
    /// Number of skippable frames.
    pub skippable_frames: u64,
    /// Number of frames that workers decoded as a whole.
    pub parallel_frames: u64,
    /// Number of lz4 frames whose blocks workers decoded.
    pub shared_frames: u64,
    /// Number of frames that the own decoder decoded. libzstd decoded the other zstd frames.
    pub own_frames: u64,
    /// Number of frames copied through libzstd's own window, because their window did not fit into
    /// a segment.
    pub copied_frames: u64,
    /// Properties and statistics of the source.
    pub source: unsnap_source::SourceTraits,
}

impl DecodeSummary {
    /// Returns the number of zstd frames decoded.
    pub fn zstd_frames(&self) -> u64 {
        if self.format == Some(Format::Zstd) { self.frames - self.frames_before } else { 0 }
    }
}

/// Running and waiting times of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimes {
    /// Time from its start to its end.
    pub total: Duration,
    /// Time spent waiting for reads of the archive.
    pub waited_for_reads: Duration,
    /// Time spent waiting for work from the planner.
    pub waited_for_input: Duration,
    /// Time spent waiting for a worker to accept a job.
    pub waited_for_workers: Duration,
    /// Time spent waiting for memory or for room in a queue, that is, for later stages.
    pub waited_for_output: Duration,
}

impl ThreadTimes {
    /// Returns the total time without all waiting.
    pub fn busy(&self) -> Duration {
        let waited = self.waited_for_reads
            + self.waited_for_input
            + self.waited_for_workers
            + self.waited_for_output;
        self.total.saturating_sub(waited)
    }
}

pub(crate) fn queue() -> (Sender<Piece>, Receiver<Piece>) {
    bounded(PIECES_MAX)
}

/// The decoded stream as consecutive segments.
pub struct Decoded {
    pieces: Receiver<Piece>,
    threads: Vec<JoinHandle<ThreadTimes>>,
    summary: Option<DecodeSummary>,
    /// Error that follows a segment already returned.
    failed: Option<DecodeError>,
    waited: Duration,
}

impl Decoded {
    pub(crate) fn new(pieces: Receiver<Piece>, threads: Vec<JoinHandle<ThreadTimes>>) -> Self {
        Self { pieces, threads, summary: None, failed: None, waited: Duration::ZERO }
    }

    /// Returns the next segment; `None` at the true end of the archive. Errors come in stream order
    /// too: an error follows all segments before the damage.
    #[allow(clippy::should_implement_trait)] // callers of an Iterator might continue after an error
    pub fn next(&mut self) -> Result<Option<DecodedSegment>, DecodeError> {
        if self.summary.is_some() {
            return Ok(None);
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let since = Instant::now();
        let next = loop {
            match self.pieces.recv() {
                Ok(Piece::Promised(promise)) => match promise.recv() {
                    Ok(Done { segment: None, error: None }) => {}
                    Ok(Done { segment: None, error: Some(error) }) => break Err(error),
                    Ok(Done { segment, error }) => {
                        self.failed = error;
                        break Ok(segment);
                    }
                    Err(_) => break Err(died()),
                },
                Ok(Piece::Ready(segment)) => break Ok(Some(segment)),
                Ok(Piece::End(summary)) => {
                    self.summary = Some(summary);
                    break Ok(None);
                }
                Ok(Piece::Failed(error)) => break Err(error),
                Err(_) => break Err(died()),
            }
        };
        self.waited += since.elapsed();
        next
    }

    /// Returns the statistics, once [`next`](Self::next) has returned `None`.
    pub fn summary(&self) -> Option<&DecodeSummary> {
        self.summary.as_ref()
    }

    /// Returns the time spent in [`next`](Self::next).
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Joins the decoding threads and returns their times, the planner's first, then the workers'.
    /// If decoding is not complete, the pools must have been closed.
    pub fn join(self) -> Vec<ThreadTimes> {
        let Self { pieces, threads, .. } = self;
        drop(pieces);
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

/// Returns the error for a thread that ended without a result, which happens only after a panic.
pub(crate) fn died() -> DecodeError {
    DecodeError::SetUp { reason: "a decoding thread ended unexpectedly (a bug)".to_owned() }
}

/// The planner's end of the queue: allocates segments in stream order and sends pieces.
pub(crate) struct Output {
    pool: Pool,
    pieces: Sender<Piece>,
    limits: Limits,
    pub raw_offset: u64,
    pub waited: Duration,
}

impl Output {
    pub fn new(pool: Pool, pieces: Sender<Piece>, limits: Limits, raw_offset: u64) -> Self {
        Self { pool, pieces, limits, raw_offset, waited: Duration::ZERO }
    }

    /// Allocates a segment that continues the stream at `raw_offset`.
    pub fn open(&mut self, capacity: usize) -> Result<OpenSegment, DecodeError> {
        let (open, waited) = OpenSegment::allocate(&self.pool, self.raw_offset, capacity)
            .map_err(|_| DecodeError::Cancelled)?;
        self.waited += waited;
        Ok(open)
    }

    /// Allocates a segment that will probably be placed at `raw_offset`, unless there is no memory at
    /// the moment.
    pub fn try_open(&self, raw_offset: u64, capacity: usize) -> Option<OpenSegment> {
        OpenSegment::try_allocate(&self.pool, raw_offset, capacity)
    }

    /// Counts decoded bytes. Fails if the limits on decoded bytes are exceeded.
    pub fn count(&mut self, bytes: u64, at: Position) -> Result<(), DecodeError> {
        self.raw_offset = self.raw_offset.saturating_add(bytes);
        self.limits
            .check_output(self.raw_offset, at.compressed_offset)
            .map_err(|exceeded| DecodeError::limit(at, exceeded))
    }

    pub fn send(&mut self, piece: Piece) -> Result<(), DecodeError> {
        let since = Instant::now();
        let sent = self.pieces.send(piece).map_err(|_| DecodeError::Cancelled);
        self.waited += since.elapsed();
        sent
    }
}
