//! The interface of the engines, and the choice between them.

use std::{io, os::fd::RawFd, sync::Arc, time::Duration};

use rustix::io::Errno;
use unsnap_arena::ArenaRanges;

use crate::{
    FaultPlan, IoPriority, Syscalls,
    faulty::Faulty,
    operation::{OpError, Operation, Outcome},
    threads::Threads,
    uring::Uring,
};

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// What the submitter called it.
    pub token: u64,
    /// What came of it.
    pub result: Result<Outcome, OpError>,
}

/// Carries out operations, several at a time, for one owning thread.
///
/// Dropping an engine waits for what is in flight: no memory returns to its pool while the kernel
/// may still touch it.
pub trait Engine: Send {
    /// Operations that may be in flight at once.
    fn capacity(&self) -> usize;

    /// Operations submitted and not yet returned by [`Engine::wait`].
    fn in_flight(&self) -> usize;

    /// Takes an operation in. It may be held back until the next [`Engine::wait`], so that many
    /// share a system call.
    ///
    /// # Panics
    /// If `capacity` operations are in flight: the caller counts.
    fn submit(&mut self, token: u64, operation: Operation);

    /// Sends off what was submitted, and sleeps until at least one operation has completed or the
    /// [`Waker`] was used. Appends what has completed to `done`.
    ///
    /// An error is the engine's own and final; operations report theirs in their completions.
    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.wait_at_most(None, done)
    }

    /// The same, but sleeps no longer than `limit`, if there is one: for owners that have something to
    /// do at a certain time.
    fn wait_at_most(
        &mut self,
        limit: Option<Duration>,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError>;

    /// Sends off what was submitted and appends what has completed, without sleeping.
    fn poll(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError>;

    /// Wakes this engine's owner out of [`Engine::wait`], from another thread.
    fn waker(&self) -> Waker;

    /// What it is.
    fn kind(&self) -> EngineKind;

    /// Whether the kernel has the arena's pages pinned and mapped for this engine.
    fn registered_buffers(&self) -> bool {
        false
    }

    /// Whether the kernel refuses this engine's ring all but the operations of engines, for good;
    /// `None` if it has no ring.
    fn ring_restricted(&self) -> Option<bool> {
        None
    }

    /// Where the time of its own threads has gone so far; a ring has none.
    fn workers(&self) -> Vec<WorkerTimes> {
        Vec::new()
    }

    /// The ring that another may be attached to.
    fn ring_fd(&self) -> Option<RawFd> {
        None
    }
}

/// Where the time of an engine's worker thread has gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerTimes {
    /// Since its start.
    pub total: Duration,
    /// In system calls, for operations that have ended.
    pub busy: Duration,
}

/// Wakes an engine's owner. Cheap to clone.
#[derive(Clone)]
pub struct Waker(pub(crate) Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// Ends the owner's current or next [`Engine::wait`].
    pub fn wake(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Waker")
    }
}

/// Which engine.
#[derive(Clone, Debug)]
pub enum EngineKind {
    /// io_uring.
    Uring,
    /// Plain threads with ordinary system calls.
    Threads,
    /// Ordinary system calls with injected faults. For tests.
    Faulty(FaultPlan),
}

impl EngineKind {
    /// The word used in reports and options.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Threads => "threads",
            Self::Faulty(_) => "faulty",
        }
    }

    /// The calls to make beside such an engine: if it has a plan of faults, they are part of it.
    pub fn syscalls(&self) -> Syscalls {
        match self {
            Self::Uring | Self::Threads => Syscalls::default(),
            Self::Faulty(plan) => Syscalls::with_faults(plan.clone()),
        }
    }
}

/// What an engine is made from.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Which engine.
    pub kind: EngineKind,
    /// Operations in flight at most.
    pub capacity: usize,
    /// Threads that may block in the kernel for it: io-wq workers, or worker threads.
    pub workers: usize,
    /// Memory to register with the ring, where the kernel allows that much.
    pub register: Option<ArenaRanges>,
    /// A ring to share kernel workers with (`ATTACH_WQ`). Since Linux 5.12 workers belong to
    /// threads, and what is shared is only the order of writes to one file.
    pub attach: Option<RawFd>,
    /// How urgent a ring's reads and writes are; `None` for what its owner's thread has. What worker
    /// threads do is as urgent as the thread that has opened the engine.
    pub priority: Option<IoPriority>,
}

impl EngineConfig {
    /// Makes the engine. Its owner may be another thread: a ring binds to the thread that uses it
    /// first.
    pub fn open(self) -> Result<Box<dyn Engine>, EngineError> {
        Ok(match self.kind.clone() {
            EngineKind::Uring => Box::new(Uring::open(&self)?),
            EngineKind::Threads => Box::new(Threads::open(&self)?),
            EngineKind::Faulty(plan) => Box::new(Faulty::open(plan, self.capacity)),
        })
    }
}

/// An engine could not be made, or broke. Always a matter of the environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// io_uring is not to be had.
    #[error(transparent)]
    Refused(#[from] UringRefused),
    /// A ring system call failed for good.
    #[error("io_uring failed in {call}: {source}")]
    Ring {
        /// Which call.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A worker thread could not be started.
    #[error("cannot start an I/O thread: {source}")]
    Spawn {
        /// The kernel's answer.
        source: io::Error,
    },
    /// A worker thread died of a bug.
    #[error("an I/O thread panicked")]
    WorkerDied,
}

impl EngineError {
    /// The kernel's answer, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused(refused) => Some(refused.errno),
            Self::Ring { source, .. } | Self::Spawn { source } => Errno::from_io_error(source),
            Self::WorkerDied => None,
        }
    }
}

/// The kernel refuses io_uring to this process.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the kernel refuses io_uring: {errno} ({})", self.reason())]
pub struct UringRefused {
    /// The kernel's answer.
    pub errno: Errno,
}

impl UringRefused {
    /// What usually lies behind the answer, and the remedy.
    pub fn reason(&self) -> &'static str {
        match self.errno {
            Errno::PERM | Errno::ACCESS => {
                "sysctl kernel.io_uring_disabled is set, or a seccomp filter such as a container's forbids it"
            }
            Errno::NOSYS => "the kernel is built without it, or a seccomp filter hides it",
            Errno::NOMEM => "the limit of locked memory is too low, see ulimit -l",
            _ => "see io_uring_setup(2)",
        }
    }
}

/// Asks the kernel for a small ring and lets it go again.
pub fn probe_uring() -> Result<(), UringRefused> {
    match io_uring::IoUring::new(2) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(UringRefused { errno: Errno::from_io_error(&error).unwrap_or(Errno::NOSYS) })
        }
    }
}
