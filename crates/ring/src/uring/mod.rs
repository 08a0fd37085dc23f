//! The io_uring engine: one ring, owned and waited on by one thread.
//!
//! Every operation in flight occupies a slot of a slab that never moves. The slot's index and
//! generation travel through the kernel as `user_data`, so a completion can only release its own
//! operation, in whatever order completions arrive. The slot owns everything that the kernel refers
//! to (buffers, paths, descriptors) until its completion has been read. If the ring breaks so badly
//! that completions cannot be awaited, the slab is leaked rather than freed.
//!
//! Before its first use a ring is restricted (Linux 5.10): an attacker who gains access to it can
//! submit only the operations used here, and can register nothing but the number of workers.

mod setup;
#[cfg(test)]
mod tests;

use std::{
    io,
    os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd},
    sync::Arc,
    time::{Duration, Instant},
};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno,
};
use unsnap_arena::ArenaRanges;

use self::setup::REGISTERED_PIECE_BYTES;
pub(crate) use self::setup::{OPERATIONS, build_ring, register, restrict};
use crate::{
    IoPriority,
    engine::{Completion, Engine, EngineConfig, EngineError, EngineKind, Waker},
    execute::{RESOLVE, execute, open_flags},
    operation::{InFlight, NewFile, Operation, Step, StepDone},
};

/// `user_data` of the read that waits for wake-ups. No slot has this index.
const WAKE: u64 = u64::MAX;

/// Number of failed waits after which a dropped ring leaks its operations. A guess: about a second
/// of `EAGAIN` or `EBUSY`.
const DROP_RETRIES_MAX: u32 = 1000;

/// Most kernel workers of a ring.
const WORKERS_MAX: usize = 64;

/// Polling interval for completions where the kernel cannot wait with a timeout. A guess.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

#[allow(clippy::struct_excessive_bools)] // facts about the kernel, not states
pub(crate) struct Uring {
    ring: IoUring,
    /// Fixed in size and place for as long as the ring lives. `None` after a leak.
    slots: Option<Box<[Slot]>>,
    free: Vec<u32>,
    in_flight: usize,
    reaped: Vec<(u64, i32)>,
    /// Operations that ended during submission, because their first step is no ring operation on
    /// this kernel and ran at once. Returned with the next completions.
    early: Vec<Completion>,
    state: State,
    workers: u32,
    arena: Option<ArenaRanges>,
    registered: bool,
    restricted: bool,
    /// I/O priority of reads and writes; 0 for the priority of the submitting thread.
    priority: u16,
    event: Arc<OwnedFd>,
    /// Buffer into which the kernel reads the event counter. Boxed, so that it does not move with
    /// the engine.
    event_count: Box<[u8; 8]>,
    wake_armed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Set up, but not yet bound to the thread that will use it.
    Disabled,
    Running,
    /// Being dropped: operations end at their next completion.
    Closing,
}

struct Slot {
    job: Option<InFlight>,
    how: types::OpenHow,
    generation: u32,
}

impl Uring {
    pub(crate) fn open(config: &EngineConfig) -> Result<Self, EngineError> {
        let capacity = u32::try_from(config.capacity.clamp(1, 4096)).unwrap_or(4096);
        // One entry for the next step of each operation and one for the wake-up: the queue never
        // overflows.
        let ring = build_ring((capacity + 1).next_power_of_two(), config.attach)?;
        let restricted = restrict(&ring);
        if let Err(error) = &restricted {
            tracing::debug!(%error, "cannot restrict the ring's operations");
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|errno| EngineError::Ring { call: "eventfd", source: errno.into() })?;
        let slots = (0..capacity)
            .map(|_| Slot { job: None, how: types::OpenHow::new(), generation: 0 })
            .collect();
        Ok(Self {
            ring,
            slots: Some(slots),
            free: (0..capacity).rev().collect(),
            in_flight: 0,
            reaped: Vec::with_capacity(capacity as usize + 1),
            early: Vec::new(),
            state: State::Disabled,
            workers: kernel_workers(config.workers),
            arena: config.register.clone(),
            registered: false,
            restricted: restricted.is_ok(),
            priority: config.priority.map_or(0, IoPriority::bits),
            event: Arc::new(event),
            event_count: Box::new([0; 8]),
            wake_armed: false,
        })
    }

    /// Binds the ring to the calling thread, its only user from here on.
    fn start(&mut self) -> Result<(), EngineError> {
        if self.state != State::Disabled {
            return Ok(());
        }
        self.cap_workers();
        let submitter = self.ring.submitter();
        if let Some(arena) = &self.arena {
            // SAFETY: `self.arena` keeps the mapping alive longer than the ring: nothing replaces it
            // while the ring lives, and `ring` is the first field, so it is dropped first.
            match unsafe { register(&self.ring, arena) } {
                Ok(()) => self.registered = true,
                Err(error) => tracing::debug!(%error, "cannot register buffers with the ring"),
            }
        }
        // From here on the restrictions apply.
        submitter
            .register_enable_rings()
            .map_err(|source| EngineError::Ring { call: "io_uring_register (enable)", source })?;
        self.state = State::Running;
        Ok(())
    }

    /// Without a cap, blocking operations get hundreds of kernel workers. Kernels before 5.15 do not
    /// know the call and keep their own limit.
    fn cap_workers(&self) {
        let both = &mut [self.workers, self.workers];
        if let Err(error) = self.ring.submitter().register_iowq_max_workers(both) {
            tracing::debug!(%error, "cannot cap the ring's kernel workers");
        }
    }

    /// Issues the next step of the operation in slot `index`. Steps without a ring operation are
    /// executed at once. Returns the completion if the operation ended that way.
    fn issue(&mut self, index: u32) -> Option<Completion> {
        let priority = self.priority;
        loop {
            let slot = &mut self.slots.as_mut()?[index as usize];
            let user_data = u64::from(slot.generation) << 32 | u64::from(index);
            let job = slot.job.as_mut()?;
            let force_async = job.force_async;
            let step = job.step();
            // Direct writes that extend a file are synchronous in ext4 and XFS, and a read that
            // finds its bytes in the page cache copies them. Executed by the submitting call, they
            // would stall every other operation and every thread that waits for the submitter.
            let stalls = matches!(step, Step::Write { .. } | Step::Read { copies: true, .. });
            let entry = match step {
                step @ (Step::SetMode { .. } | Step::LeaveDirect { .. } | Step::Nothing) => {
                    let result = execute(step);
                    match self.complete(index, result) {
                        None => continue,
                        completion => return completion,
                    }
                }
                Step::Open { new } => open_entry(new, &mut slot.how),
                Step::Read { file, offset, buffer, .. } => {
                    let fd = types::Fd(file.as_raw_fd());
                    let (start, len) = (buffer.as_mut_ptr(), transfer_len(buffer.len()));
                    match piece_of(self.registered, self.arena.as_ref(), start, len) {
                        Some(piece) => opcode::ReadFixed::new(fd, start, len, piece)
                            .offset(offset)
                            .ioprio(priority)
                            .build(),
                        None => opcode::Read::new(fd, start, len)
                            .offset(offset)
                            .ioprio(priority)
                            .build(),
                    }
                }
                Step::Write { file, offset, buffer } => {
                    let fd = types::Fd(file.as_raw_fd());
                    let (start, len) = (buffer.as_ptr(), transfer_len(buffer.len()));
                    match piece_of(self.registered, self.arena.as_ref(), start, len) {
                        Some(piece) => opcode::WriteFixed::new(fd, start, len, piece)
                            .offset(offset)
                            .ioprio(priority)
                            .build(),
                        None => opcode::Write::new(fd, start, len)
                            .offset(offset)
                            .ioprio(priority)
                            .build(),
                    }
                }
                // From here on the kernel owns the descriptor.
                Step::Close { file } => opcode::Close::new(types::Fd(file.into_raw_fd())).build(),
            };
            let flags =
                if stalls || force_async { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
            self.push(&entry.flags(flags).user_data(user_data));
            return None;
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: every address and descriptor in the entry belongs to the slot's operation, to the
        // slot's `how` or to `event_count`. Slots are boxed and never move; `complete` frees an
        // operation only after its completion, and `drop` awaits all of them or leaks them.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // The queue has an entry for each slot and one for the wake-up, and each has at most one
        // entry waiting to be submitted.
        assert!(pushed.is_ok(), "the submission queue is larger than the slab");
    }

    /// Passes a step's result to the operation in slot `index`. Frees the slot if the operation has
    /// ended.
    fn complete(&mut self, index: u32, result: Result<StepDone, Errno>) -> Option<Completion> {
        let closing = self.state == State::Closing;
        let slot = &mut self.slots.as_mut()?[index as usize];
        let job = slot.job.as_mut()?;
        let token = job.token;
        let outcome = match job.complete(result) {
            Some(outcome) => outcome,
            None if closing => Err(crate::OpError { step: "cancel", errno: Errno::CANCELED }),
            None => return None,
        };
        slot.job = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        self.in_flight -= 1;
        Some(Completion { token, result: outcome })
    }

    /// Reads all available completions. Returns whether the wake-up was among them.
    fn reap(&mut self, done: &mut Vec<Completion>) -> bool {
        // Completions are copied out first, since completing an operation may push its next step.
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(
            self.ring.completion().map(|entry: cqueue::Entry| (entry.user_data(), entry.result())),
        );
        self.in_flight -= self.early.len();
        done.append(&mut self.early);
        let mut woken = false;
        for (user_data, result) in reaped.drain(..) {
            if user_data == WAKE {
                self.wake_armed = false;
                woken = true;
                continue;
            }
            #[allow(clippy::cast_possible_truncation)] // the two halves that `issue` combined
            let (index, generation) = (user_data as u32, (user_data >> 32) as u32);
            let Some(slot) = self.slots.as_mut().and_then(|slots| slots.get_mut(index as usize))
            else {
                continue;
            };
            assert_eq!(slot.generation, generation, "a completion for an operation that has ended");
            let opening = slot.job.as_ref().is_some_and(InFlight::is_opening);
            let completion = self.complete(index, step_result(result, opening));
            if let Some(completion) = completion.or_else(|| self.issue(index)) {
                done.push(completion);
            }
        }
        self.reaped = reaped;
        woken
    }

    /// Keeps one read of the event counter in flight, which completes when the [`Waker`] is used.
    fn arm_wake(&mut self) {
        if !self.wake_armed {
            let fd = types::Fd(self.event.as_raw_fd());
            let read = opcode::Read::new(fd, self.event_count.as_mut_ptr(), 8).build();
            self.push(&read.user_data(WAKE));
            self.wake_armed = true;
        }
    }

    fn enter(&self, want: usize) -> Result<(), EngineError> {
        Self::entered(self.ring.submit_and_wait(want))
    }

    /// Submits, and waits for one completion for at most `left`. Kernels before 5.11 have no timed
    /// wait; on these it sleeps for at most [`POLL_INTERVAL`].
    fn enter_at_most(&self, left: Duration) -> Result<(), EngineError> {
        if !self.ring.params().is_feature_ext_arg() {
            self.enter(0)?;
            std::thread::sleep(left.min(POLL_INTERVAL));
            return Ok(());
        }
        let left = types::Timespec::from(left);
        let arguments = types::SubmitArgs::new().timespec(&left);
        Self::entered(self.ring.submitter().submit_with_args(1, &arguments))
    }

    fn entered(result: io::Result<usize>) -> Result<(), EngineError> {
        match result {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // Interrupted or timed out: the caller reads completions and waits again.
                Some(Errno::INTR | Errno::TIME) => Ok(()),
                // The kernel is short of memory, or the completion queue is full: reap and retry.
                Some(Errno::AGAIN | Errno::BUSY) => {
                    std::thread::sleep(Duration::from_millis(1));
                    Ok(())
                }
                _ => Err(EngineError::Ring { call: "io_uring_enter", source: error }),
            },
        }
    }
}

impl Engine for Uring {
    fn capacity(&self) -> usize {
        self.slots.as_ref().map_or(0, |slots| slots.len())
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        let free = self.free.pop();
        assert!(free.is_some(), "more operations than the engine holds");
        let (Some(index), Some(slots)) = (free, self.slots.as_mut()) else { return };
        slots[index as usize].job = Some(InFlight::new(token, operation));
        self.in_flight += 1;
        if let Some(completion) = self.issue(index) {
            // Counts as in flight until its completion is returned.
            self.in_flight += 1;
            self.early.push(completion);
        }
    }

    fn wait_at_most(
        &mut self,
        limit: Option<Duration>,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError> {
        self.start()?;
        let until = limit.map(|limit| Instant::now() + limit);
        let before = done.len();
        loop {
            if self.reap(done) || done.len() > before {
                // The next steps of continuing operations are submitted with the next wait,
                // together with the operations that the caller submits in between.
                return Ok(());
            }
            self.arm_wake();
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.enter(1)?,
                Some(Duration::ZERO) => return self.poll(done),
                Some(left) => self.enter_at_most(left)?,
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.start()?;
        self.enter(0)?;
        self.reap(done);
        Ok(())
    }

    fn limit_workers(&mut self, workers: usize) {
        self.workers = kernel_workers(workers);
        // A ring that is not bound to its thread yet takes the number when it is.
        if self.state == State::Running {
            self.cap_workers();
        }
    }

    fn waker(&self) -> Waker {
        let event = Arc::clone(&self.event);
        Waker(Arc::new(move || {
            // Fails only if the counter would overflow, that is, when a wake-up is pending.
            let _ = rustix::io::write(&event, &1_u64.to_ne_bytes());
        }))
    }

    fn kind(&self) -> EngineKind {
        EngineKind::Uring
    }

    fn registered_buffers(&self) -> bool {
        self.registered
    }

    fn ring_restricted(&self) -> Option<bool> {
        Some(self.restricted)
    }

    fn ring_fd(&self) -> Option<RawFd> {
        Some(self.ring.as_raw_fd())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.state == State::Disabled {
            // Nothing was submitted to the kernel, so it refers to no memory of this process.
            return;
        }
        self.state = State::Closing;
        // Completes the read of the event counter.
        self.waker().wake();
        let mut done = Vec::new();
        let mut failures = 0;
        loop {
            self.reap(&mut done);
            done.clear();
            if self.in_flight == 0 && !self.wake_armed {
                return;
            }
            match self.ring.submit_and_wait(1).map_err(|error| Errno::from_io_error(&error)) {
                Ok(_) => continue,
                // A thread other than the owner drops the ring and may not wait on it.
                Err(Some(Errno::EXIST)) => break,
                Err(_) => failures += 1,
            }
            if failures > DROP_RETRIES_MAX {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // The kernel may still write to this memory.
        std::mem::forget(std::mem::replace(&mut self.event_count, Box::new([0; 8])));
        if self.in_flight > 0 {
            tracing::error!(
                operations = self.in_flight,
                "the ring is broken; leaking the memory of its operations"
            );
            std::mem::forget(self.slots.take());
            std::mem::forget(self.arena.take());
        }
    }
}

fn kernel_workers(wanted: usize) -> u32 {
    u32::try_from(wanted.clamp(1, WORKERS_MAX)).unwrap_or(1)
}

fn open_entry(new: &NewFile, how: &mut types::OpenHow) -> squeue::Entry {
    *how = types::OpenHow::new()
        .flags(u64::from(open_flags(new).bits()))
        .mode(u64::from(new.mode))
        .resolve(RESOLVE.bits());
    let directory = types::Fd(new.directory.as_raw_fd());
    opcode::OpenAt2::new(directory, new.path.as_c_str().as_ptr(), how).build()
}

/// Returns the length of one transfer, at most 1 GiB. The rest is handled like the remainder of a
/// short transfer.
fn transfer_len(len: usize) -> u32 {
    u32::try_from(len.min(REGISTERED_PIECE_BYTES)).unwrap_or(u32::MAX)
}

fn piece_of(
    registered: bool,
    arena: Option<&ArenaRanges>,
    start: *const u8,
    len: u32,
) -> Option<u16> {
    let arena = arena.filter(|_| registered)?;
    let piece = arena.piece_of(start, len as usize, REGISTERED_PIECE_BYTES)?;
    u16::try_from(piece).ok()
}

/// Converts a completion's result, which is a negative errno, a new descriptor or a count.
fn step_result(result: i32, opening: bool) -> Result<StepDone, Errno> {
    match u32::try_from(result) {
        Err(_) => Err(Errno::from_raw_os_error(result.wrapping_neg())),
        Ok(_) if opening => {
            use std::os::fd::FromRawFd;
            // SAFETY: the completion of a successful open carries a descriptor that the kernel has
            // just created for this process and that nothing else refers to. `reap` has checked by
            // the generation that the completion is that of the slot's last step, an open.
            Ok(StepDone::File(unsafe { OwnedFd::from_raw_fd(result) }))
        }
        Ok(count) => Ok(StepDone::Count(count as usize)),
    }
}
