//! The fault-injecting engine: ordinary system calls that fail on purpose, driven by a seed.
//!
//! It injects these faults, all of which callers must survive:
//!
//! * completions in any order, operations interleaved step by step;
//! * short reads and writes;
//! * an errno instead of the n-th step, counted over all users of the plan in a run;
//! * spurious `EINTR` and `EAGAIN`;
//! * operations that seem stuck while others overtake them.

use std::{sync::Arc, time::Duration};

use crossbeam::channel::{Receiver, Sender, bounded};
use rustix::{
    fs::{OFlags, fcntl_getfl},
    io::Errno,
};

use crate::{
    engine::{Completion, Engine, EngineError, EngineKind, Waker},
    execute::execute,
    fault::{FaultPlan, GOLDEN, mix},
    operation::{InFlight, Operation, Step, StepDone},
};

/// Unit of direct I/O in bytes: the block size of ext4 and XFS.
const BLOCK_BYTES: usize = 4096;

/// Byte that overwrites the part of a buffer that a read did not fill, so that nobody takes it for
/// data.
const SCRIBBLE: u8 = 0xdb;

pub(crate) struct Faulty {
    plan: FaultPlan,
    random: u64,
    queue: Vec<InFlight>,
    capacity: usize,
    woken: Receiver<()>,
    wake: Sender<()>,
}

impl Faulty {
    pub(crate) fn open(plan: FaultPlan, capacity: usize) -> Self {
        let (wake, woken) = bounded(1);
        let random = plan.engine_seed();
        Self { plan, random, queue: Vec::new(), capacity: capacity.max(1), woken, wake }
    }

    /// Returns a pseudo-random number below `bound`.
    fn random(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(GOLDEN);
        mix(self.random) % bound.max(1)
    }

    /// Executes one step of one operation, chosen at random.
    fn advance(&mut self, done: &mut Vec<Completion>) {
        let chosen = usize::try_from(self.random(self.queue.len() as u64)).unwrap_or(0);
        let short = self.random(1000) < self.plan.short_per_mille();
        let keep = self.random(u64::MAX);
        let interrupt = self.random(1000) < self.plan.interrupt_per_mille();

        let job = &mut self.queue[chosen];
        let step = job.step();
        let result = match step.call().and_then(|call| self.plan.step(call)) {
            Some(errno) => Err(errno),
            None if interrupt && !matches!(step, Step::Close { .. } | Step::Nothing) => {
                Err(if keep.is_multiple_of(2) { Errno::INTR } else { Errno::AGAIN })
            }
            None => transfer(step, &self.plan, short.then_some(keep)),
        };
        if let Some(result) = job.complete(result) {
            let job = self.queue.swap_remove(chosen);
            done.push(Completion { token: job.token, result });
        }
    }
}

/// Executes a step. A transfer moves fewer bytes than requested if the plan shortens it or `keep`,
/// a random number, is given.
fn transfer(step: Step<'_>, plan: &FaultPlan, keep: Option<u64>) -> Result<StepDone, Errno> {
    let count = |len: usize| {
        plan.transfer(len).or_else(|| {
            // At least one block, never all of them.
            let blocks = (len / BLOCK_BYTES).saturating_sub(1) as u64;
            let kept = keep.filter(|_| blocks > 0)? % blocks;
            Some(BLOCK_BYTES * (1 + usize::try_from(kept).unwrap_or(0)))
        })
    };
    match step {
        Step::Read { file, offset, buffer, copies } => match count(buffer.len()) {
            None => execute(Step::Read { file, offset, buffer, copies }),
            Some(count) => {
                // Direct I/O requires whole blocks, whatever count is reported.
                let len = count.next_multiple_of(BLOCK_BYTES).min(buffer.len());
                let read = Step::Read { file, offset, buffer: &mut buffer[..len], copies };
                let count = execute(read)?.count()?.min(count);
                buffer[count..].fill(SCRIBBLE);
                Ok(StepDone::Count(count))
            }
        },
        Step::Write { file, offset, buffer } => match count(buffer.len()) {
            None => execute(Step::Write { file, offset, buffer }),
            Some(count) => {
                let direct = fcntl_getfl(file)?.contains(OFlags::DIRECT);
                let unit = if direct { BLOCK_BYTES } else { 1 };
                let len = count.next_multiple_of(unit).min(buffer.len());
                let write = Step::Write { file, offset, buffer: &buffer[..len] };
                Ok(StepDone::Count(execute(write)?.count()?.min(count)))
            }
        },
        step => execute(step),
    }
}

impl Engine for Faulty {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn in_flight(&self) -> usize {
        self.queue.len()
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        assert!(self.queue.len() < self.capacity, "more operations than the engine holds");
        self.queue.push(InFlight::new(token, operation));
    }

    fn wait_at_most(
        &mut self,
        limit: Option<Duration>,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError> {
        if self.queue.is_empty() {
            // Nothing can complete; only a wake-up can end the wait. This engine holds a sender, so
            // the channel stays connected.
            let _ = match limit {
                None => self.woken.recv().ok(),
                Some(limit) => self.woken.recv_timeout(limit).ok(),
            };
            return Ok(());
        }
        let before = done.len();
        while done.len() == before && self.woken.try_recv().is_err() {
            self.advance(done);
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if !self.queue.is_empty() {
            self.advance(done);
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        let wake = self.wake.clone();
        Waker(Arc::new(move || {
            // A full channel means that a wake-up is already pending.
            let _ = wake.try_send(());
        }))
    }

    fn kind(&self) -> EngineKind {
        EngineKind::Faulty(self.plan.clone())
    }
}
