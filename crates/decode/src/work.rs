//! Work for the workers, and the planner's handle on them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender};
use unsnap_arena::OpenSegment;

use crate::{DecodeError, Position, block::BlockDecoder, output::died};

/// What is wrong, up to which all is decoded, and where.
pub(crate) type Damage = (Position, String);

/// Work for which the planner has opened a segment, or holds a promise.
pub(crate) trait Job: Send {
    fn run(self: Box<Self>, tools: &mut Tools);
}

/// What a worker keeps from job to job.
pub(crate) struct Tools {
    pub decoder: BlockDecoder,
    /// For bytes that straddle two spans.
    pub gathered: Vec<u8>,
}

/// The planner's handle on the workers. They end when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Workers {
    inbox: Sender<Box<dyn Job>>,
    /// Time spent waiting for them, in nanoseconds.
    waited: Arc<AtomicU64>,
}

impl Workers {
    pub fn new(inbox: Sender<Box<dyn Job>>) -> Self {
        Self { inbox, waited: Arc::default() }
    }

    /// Waits for a worker to accept a job.
    pub fn send(&self, job: impl Job + 'static) -> Result<(), DecodeError> {
        let since = Instant::now();
        let sent = self.inbox.send(Box::new(job)).map_err(|_| DecodeError::Cancelled);
        self.count(since);
        sent
    }

    /// Waits for a worker's reply.
    pub fn await_reply<T>(&self, promise: &Receiver<T>) -> Result<T, DecodeError> {
        let since = Instant::now();
        let reply = promise.recv().map_err(|_| died());
        self.count(since);
        reply
    }

    /// Returns the time that all clones of this handle spent waiting.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    fn count(&self, since: Instant) {
        let nanoseconds = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// Something that decodes to an unknown number of bytes, so that its place in the stream is not
/// known. Positions count decoded bytes from its beginning.
pub(crate) trait Unplaced: Send {
    /// Decodes into a segment with room for all. Returns `None` if the segment is lost.
    fn decode(self: Box<Self>, segment: OpenSegment, tools: &mut Tools) -> Option<Outcome>;
}

/// Result of something [`Unplaced`].
pub(crate) struct Outcome {
    pub segment: OpenSegment,
    /// Position at which it begins.
    pub at: Position,
    /// Positions of its zstd frames.
    pub starts: Vec<Position>,
    pub damage: Option<Damage>,
}

/// Job that decodes something unplaced.
pub(crate) struct UnplacedJob {
    pub what: Box<dyn Unplaced>,
    pub segment: OpenSegment,
    pub reply: Sender<Outcome>,
}

impl Job for UnplacedJob {
    fn run(self: Box<Self>, tools: &mut Tools) {
        let Self { what, segment, reply } = *self;
        if let Some(outcome) = what.decode(segment, tools) {
            // Nobody listens if the run is being aborted.
            let _ = reply.send(outcome);
        }
    }
}
