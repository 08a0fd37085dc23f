//! The way out: segments in raw order, through a bounded queue of promises.

use std::{
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender, bounded};
use unsnap_arena::{OpenSegment, Pool, Segment};

use crate::{DecodeError, Format, Limits, Position, parallel::Done};

/// Pieces that may wait for the tar walk. The pool bounds their bytes; this bounds their number.
const PIECES_MAX: usize = 256;

/// What travels to the tar walk, in raw order.
pub(crate) enum Piece {
    Ready(DecodedSegment),
    /// A worker is at it.
    Promised(Receiver<Done>),
    End(DecodeSummary),
    Failed(DecodeError),
}

/// A stretch of the decoded stream, and where in the archive it came from.
#[derive(Debug)]
pub struct DecodedSegment {
    /// Its bytes.
    pub segment: Segment,
    /// Where the decoding of its first byte began.
    pub at: Position,
}

/// What was decoded, told at the end.
#[derive(Clone, Debug, Default)]
pub struct DecodeSummary {
    /// How the archive is compressed.
    pub format: Option<Format>,
    /// Compressed bytes, all there are.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Frames, skippable ones not counted, but for those before the place where decoding began.
    pub frames: u64,
    /// Frames before the place where decoding began; counted among the others.
    pub frames_before: u64,
    /// Skippable frames.
    pub skippable_frames: u64,
    /// Frames that workers decoded as a whole.
    pub parallel_frames: u64,
    /// Frames that went through libzstd's own window, since theirs is larger than a segment.
    pub copied_frames: u64,
    /// What the source turned out to be able to do.
    pub source: unsnap_source::SourceTraits,
}

/// Where a thread's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimes {
    /// From its start to its end.
    pub total: Duration,
    /// Waiting for the archive to be read.
    pub waited_for_reads: Duration,
    /// Waiting for work from the thread that reads.
    pub waited_for_input: Duration,
    /// Waiting for a thread that decodes to take a frame.
    pub waited_for_workers: Duration,
    /// Waiting for memory, or for room in a queue: for those who come after.
    pub waited_for_output: Duration,
}

impl ThreadTimes {
    /// What is left when all waiting is taken off.
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

/// The decoded stream, as consecutive segments.
pub struct Decoded {
    pieces: Receiver<Piece>,
    threads: Vec<JoinHandle<ThreadTimes>>,
    summary: Option<DecodeSummary>,
    /// An error that follows on a segment which was handed out.
    failed: Option<DecodeError>,
    waited: Duration,
}

impl Decoded {
    pub(crate) fn new(pieces: Receiver<Piece>, threads: Vec<JoinHandle<ThreadTimes>>) -> Self {
        Self { pieces, threads, summary: None, failed: None, waited: Duration::ZERO }
    }

    /// The next segment; `None` at the true end of the archive. Errors come in raw order too:
    /// everything before the damage has been handed out.
    #[allow(clippy::should_implement_trait)] // an Iterator of Results invites going on after one
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

    /// What was decoded; known once [`next`](Self::next) has given `None`.
    pub fn summary(&self) -> Option<&DecodeSummary> {
        self.summary.as_ref()
    }

    /// Time spent in [`next`](Self::next).
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Ends the decoding threads and tells where their time went: the planner's first, then the
    /// workers'. The pools must have been closed if decoding has not come to its end.
    pub fn join(self) -> Vec<ThreadTimes> {
        let Self { pieces, threads, .. } = self;
        drop(pieces);
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

/// A thread ended without saying why, which it does only by a panic.
fn died() -> DecodeError {
    DecodeError::SetUp { reason: "a decoding thread ended unexpectedly (a bug)".to_owned() }
}

/// The planner's side: borrows segments in raw order and sends them off.
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

    /// Borrows a segment that continues the stream at `raw_offset`.
    pub fn open(&mut self, capacity: usize) -> Result<OpenSegment, DecodeError> {
        let (open, waited) = OpenSegment::allocate(&self.pool, self.raw_offset, capacity)
            .map_err(|_| DecodeError::Cancelled)?;
        self.waited += waited;
        Ok(open)
    }

    /// Counts decoded bytes, and stops a stream that decodes into too many.
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
