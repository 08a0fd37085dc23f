//! The engine of ill luck: ordinary system calls, spoilt on purpose, from a seed.
//!
//! Faults it injects, all of which the callers must survive:
//!
//! * completions in any order, operations interleaved step by step;
//! * reads and writes that transfer only a part (aligned under direct I/O, as the kernel does);
//! * an errno instead of the n-th step, counted over every engine made from one plan;
//! * `EINTR` and `EAGAIN` for no reason;
//! * operations that seem stuck while others overtake them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crossbeam::channel::{Receiver, Sender, bounded};
use rustix::io::Errno;

use crate::{
    engine::{Completion, Engine, EngineError, EngineKind, Waker},
    execute::execute,
    operation::{InFlight, Operation, Step},
};

/// Which faults to inject. Clones share one count of steps, so that a plan given to several
/// engines fails exactly one step of the whole run.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    seed: u64,
    short_per_mille: u64,
    interrupt_per_mille: u64,
    fail: Option<Fault>,
    steps: Arc<AtomicU64>,
}

/// An errno instead of one step.
#[derive(Clone, Copy, Debug)]
struct Fault {
    step: u64,
    errno: Errno,
}

impl FaultPlan {
    /// A plan that only reorders; everything random follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Cuts transfers short, with this chance in thousandths.
    #[must_use]
    pub fn short(mut self, per_mille: u64) -> Self {
        self.short_per_mille = per_mille;
        self
    }

    /// Answers steps by `EINTR` or `EAGAIN` first, with this chance in thousandths.
    #[must_use]
    pub fn interrupt(mut self, per_mille: u64) -> Self {
        self.interrupt_per_mille = per_mille;
        self
    }

    /// Answers step number `step` (from 0, over all engines of the plan) by `errno`.
    #[must_use]
    pub fn fail(mut self, step: u64, errno: Errno) -> Self {
        self.fail = Some(Fault { step, errno });
        self
    }

    /// The seed it was made from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Steps carried out so far by all engines of this plan.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

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
        let random = plan.seed ^ 0x9e37_79b9_7f4a_7c15;
        Self { plan, random, queue: Vec::new(), capacity: capacity.max(1), woken, wake }
    }

    /// A pseudo-random number below `bound` (splitmix64).
    fn random(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }

    /// Carries one step of one operation, chosen at random.
    fn advance(&mut self, done: &mut Vec<Completion>) {
        let chosen = usize::try_from(self.random(self.queue.len() as u64)).unwrap_or(0);
        let short = self.random(1000) < self.plan.short_per_mille;
        let keep = self.random(u64::MAX);
        let interrupt = self.random(1000) < self.plan.interrupt_per_mille;
        let number = self.plan.steps.fetch_add(1, Ordering::Relaxed);
        let fault = self.plan.fail.filter(|fault| fault.step == number);

        let job = &mut self.queue[chosen];
        let step = job.step();
        let result = match fault {
            Some(fault) => Err(fault.errno),
            None if interrupt && !matches!(step, Step::Close { .. } | Step::Nothing) => {
                Err(if keep.is_multiple_of(2) { Errno::INTR } else { Errno::AGAIN })
            }
            None if short => execute(shorten(step, keep)),
            None => execute(step),
        };
        if let Some(result) = job.complete(result) {
            let job = self.queue.swap_remove(chosen);
            done.push(Completion { token: job.token, result });
        }
    }
}

/// Lets a transfer do less than it was asked to: at least one block, never the whole.
fn shorten(step: Step<'_>, keep: u64) -> Step<'_> {
    let cut = |len: usize| {
        // Whole sectors, so that a direct transfer stays one the kernel could have made.
        let sectors = (len / 4096).saturating_sub(1) as u64;
        if sectors == 0 { len } else { 4096 * (1 + usize::try_from(keep % sectors).unwrap_or(0)) }
    };
    match step {
        Step::Read { file, offset, buffer, copies } => {
            let len = cut(buffer.len());
            Step::Read { file, offset, buffer: &mut buffer[..len], copies }
        }
        Step::Write { file, offset, buffer } => {
            let len = cut(buffer.len());
            Step::Write { file, offset, buffer: &buffer[..len] }
        }
        other => other,
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

    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if self.queue.is_empty() {
            // Nothing can complete; only a wake-up can end this. The sender is our own.
            let _ = self.woken.recv();
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
            // A full channel means that a wake-up is on its way already.
            let _ = wake.try_send(());
        }))
    }

    fn kind(&self) -> EngineKind {
        EngineKind::Faulty(self.plan.clone())
    }
}
