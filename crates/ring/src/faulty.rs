//! The fault-injecting engine: ordinary system calls that fail on purpose, driven by a seed.
//!
//! It injects these faults, all of which callers must survive:
//!
//! * completions in any order, operations interleaved step by step;
//! * short reads and writes;
//! * an errno instead of the n-th step, counted over all users of the plan in a run;
//! * spurious `EINTR` and `EAGAIN`;
//! * operations that seem stuck while others overtake them.
//!
//! On a modelled [`Machine`] a step takes effect when it begins, and its result arrives at the time
//! that follows from the model.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, Sender, bounded};
use rustix::{
    fs::{Mode, OFlags, fcntl_getfl},
    io::Errno,
};

use crate::{
    Machine,
    engine::{Completion, Engine, EngineConfig, EngineError, EngineKind, Waker},
    execute::execute,
    fault::{FaultPlan, GOLDEN, mix},
    machine::Way,
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
    queue: Vec<Job>,
    capacity: usize,
    /// Number of steps that a modelled machine executes at once.
    workers: usize,
    device: u64,
    /// When the engine was opened, and the time on the modelled machine then.
    opened: (Instant, Duration),
    woken: Receiver<()>,
    wake: Sender<()>,
}

struct Job {
    operation: InFlight,
    /// On a modelled machine, the result of the step that it executes, and when the step ends.
    ends: Option<(Duration, Result<StepDone, Errno>)>,
}

/// What a modelled machine has to do for a step.
#[derive(Clone, Copy)]
enum Work {
    Nothing,
    Create,
    Transfer(u64),
}

impl Work {
    fn of(step: &Step<'_>) -> Self {
        match step {
            Step::Open { .. } => Self::Create,
            Step::Read { buffer, .. } => Self::Transfer(buffer.len() as u64),
            Step::Write { buffer, .. } => Self::Transfer(buffer.len() as u64),
            _ => Self::Nothing,
        }
    }

    fn creates(self) -> bool {
        matches!(self, Self::Create)
    }
}

impl Faulty {
    pub(crate) fn open(plan: FaultPlan, config: &EngineConfig) -> Self {
        let (wake, woken) = bounded(1);
        let random = plan.engine_seed();
        let (capacity, workers) = (config.capacity.max(1), config.workers.max(1));
        let opened = (Instant::now(), plan.machine().map_or(Duration::ZERO, Machine::now));
        let (queue, device) = (Vec::new(), config.device);
        Self { plan, random, queue, capacity, workers, device, opened, woken, wake }
    }

    /// Returns a pseudo-random number below `bound`.
    fn random(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(GOLDEN);
        mix(self.random) % bound.max(1)
    }

    /// Executes one step of one operation, chosen at random.
    fn advance(&mut self, done: &mut Vec<Completion>) {
        let chosen = usize::try_from(self.random(self.queue.len() as u64)).unwrap_or(0);
        let (_, result) = self.execute(chosen);
        self.complete(chosen, result, done);
    }

    /// Executes the next step of an operation, or fails it.
    fn execute(&mut self, index: usize) -> (Work, Result<StepDone, Errno>) {
        let short = self.random(1000) < self.plan.short_per_mille();
        let keep = self.random(u64::MAX);
        let interrupt = self.random(1000) < self.plan.interrupt_per_mille();
        let step = self.queue[index].operation.step();
        let work = Work::of(&step);
        let result = match step.call().and_then(|call| self.plan.step(call)) {
            Some(errno) => Err(errno),
            None if interrupt && !matches!(step, Step::Close { .. } | Step::Nothing) => {
                Err(if keep.is_multiple_of(2) { Errno::INTR } else { Errno::AGAIN })
            }
            None if work.creates() && self.plan.machine().is_some() => nowhere(),
            None => transfer(step, &self.plan, short.then_some(keep)),
        };
        (work, result)
    }

    /// Passes a step's result to its operation, and returns the operation if it has ended.
    fn complete(
        &mut self,
        index: usize,
        result: Result<StepDone, Errno>,
        done: &mut Vec<Completion>,
    ) {
        if let Some(result) = self.queue[index].operation.complete(result) {
            let job = self.queue.remove(index);
            done.push(Completion { token: job.operation.token, result });
        }
    }

    /// Waits on a modelled machine until an operation completes, for at most `limit` by its clock.
    fn wait_on(&mut self, machine: &Machine, limit: Option<Duration>, done: &mut Vec<Completion>) {
        let (before, until) = (done.len(), limit.map(|limit| machine.now() + limit));
        while done.len() == before && self.woken.try_recv().is_err() {
            self.begin_steps(machine);
            let ends = self.queue.iter().filter_map(|job| job.ends.as_ref());
            let Some(next) = ends.map(|(time, _)| *time).min() else { return };
            let time = until.map_or(next, |until| until.min(next));
            if let Some(left) = machine.to_sleep(time)
                && self.woken.recv_timeout(left).is_ok()
            {
                return;
            }
            self.end_steps(machine.now(), done);
            if time < next {
                return;
            }
        }
    }

    /// Begins the next step of every operation that has a worker. The first ones have, and keep it
    /// until they end.
    fn begin_steps(&mut self, machine: &Machine) {
        for index in 0..self.queue.len().min(self.workers) {
            if self.queue[index].ends.is_some() {
                continue;
            }
            let direct = self.queue[index].operation.is_direct();
            let (work, result) = self.execute(index);
            let way = if direct { Way::Direct } else { Way::Cached };
            let time = match work {
                Work::Nothing => machine.now(),
                Work::Create => machine.create(self.device),
                Work::Transfer(bytes) => machine.step(self.device, bytes, way),
            };
            self.queue[index].ends = Some((time, result));
        }
    }

    /// Ends the steps that have ended by now.
    fn end_steps(&mut self, now: Duration, done: &mut Vec<Completion>) {
        for index in (0..self.queue.len()).rev() {
            if let Some((_, result)) = self.queue[index].ends.take_if(|(time, _)| *time <= now) {
                self.complete(index, result, done);
            }
        }
    }
}

/// Opens the file that takes the place of every file created on a modelled machine.
fn nowhere() -> Result<StepDone, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/null", flags, Mode::empty()).map(StepDone::File)
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
        self.queue.push(Job { operation: InFlight::new(token, operation), ends: None });
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
        if let Some(machine) = self.plan.machine().cloned() {
            self.wait_on(&machine, limit, done);
            return Ok(());
        }
        let before = done.len();
        while done.len() == before && self.woken.try_recv().is_err() {
            self.advance(done);
        }
        Ok(())
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if let Some(machine) = self.plan.machine().cloned() {
            self.begin_steps(&machine);
            self.end_steps(machine.now(), done);
        } else if !self.queue.is_empty() {
            self.advance(done);
        }
        Ok(())
    }

    fn limit_workers(&mut self, workers: usize) {
        self.workers = workers.max(1);
    }

    fn now(&self) -> Instant {
        let (opened, by_machine) = self.opened;
        let machine = self.plan.machine();
        machine
            .map_or_else(Instant::now, |machine| opened + machine.now().saturating_sub(by_machine))
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
