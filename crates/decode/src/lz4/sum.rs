//! The checksum of a frame's content. Where there are workers, one of them sums up a segment while
//! the next is decoded.

use std::hash::Hasher;

use crossbeam::channel::{Receiver, Sender, bounded};
use twox_hash::XxHash32;
use unsnap_arena::Slice;

use crate::{
    DecodeError,
    work::{Job, Tools, Workers},
};

/// The checksum of a frame.
pub(super) struct Sum {
    /// `None` while a worker has it.
    hasher: Option<XxHash32>,
    /// Returns the hasher.
    promise: Option<Receiver<XxHash32>>,
}

/// Part of a frame to be summed up by a worker.
struct SumJob {
    hasher: XxHash32,
    part: Slice,
    reply: Sender<XxHash32>,
}

impl Job for SumJob {
    fn run(self: Box<Self>, _: &mut Tools) {
        let Self { mut hasher, part, reply } = *self;
        hasher.write(&part);
        drop(part);
        // Nobody listens if decoding has ended at damage.
        let _ = reply.send(hasher);
    }
}

impl Sum {
    pub fn new() -> Self {
        Self { hasher: None, promise: None }
    }

    /// Adds the next part of the frame. No more than one part is held at a time, so memory that
    /// others wait for always returns.
    pub fn add(&mut self, part: Slice, workers: Option<&Workers>) -> Result<(), DecodeError> {
        let mut hasher = self.hasher(workers)?;
        if let Some(workers) = workers {
            let (reply, promise) = bounded(1);
            self.promise = Some(promise);
            return workers.send(SumJob { hasher, part, reply });
        }
        hasher.write(&part);
        self.hasher = Some(hasher);
        Ok(())
    }

    /// Adds the last part and returns the checksum.
    pub fn finish(mut self, last: &[u8], workers: Option<&Workers>) -> Result<u32, DecodeError> {
        let mut hasher = self.hasher(workers)?;
        hasher.write(last);
        Ok(hasher.finish_32())
    }

    /// Returns the hasher of all parts so far.
    fn hasher(&mut self, workers: Option<&Workers>) -> Result<XxHash32, DecodeError> {
        match (self.promise.take(), workers) {
            (Some(promise), Some(workers)) => workers.await_reply(&promise),
            _ => Ok(self.hasher.take().unwrap_or_else(|| XxHash32::with_seed(0))),
        }
    }
}
