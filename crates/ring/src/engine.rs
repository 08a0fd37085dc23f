//! Interface of the engines, and their configuration.

use std::{
    io,
    os::fd::RawFd,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use unsnap_arena::ArenaRanges;

use crate::{
    FaultPlan, IoPriority, Syscalls,
    operation::{OpError, Operation, Outcome},
};

/// Result of an operation, with its token.
#[derive(Debug)]
pub struct Completion {
    /// Token that the operation was submitted with.
    pub token: u64,
    /// Outcome, or the step that failed.
    pub result: Result<Outcome, OpError>,
}

/// Executes operations, several at a time, for one owning thread.
///
/// Dropping an engine waits for the operations in flight: no memory returns to its pool while the
/// kernel may still access it.
pub trait Engine: Send {
    /// Returns the number of operations that may be in flight at once.
    fn capacity(&self) -> usize;

    /// Returns the number of operations submitted and not yet returned by [`Engine::wait`].
    fn in_flight(&self) -> usize;

    /// Accepts an operation. The engine may hold it back until the next [`Engine::wait`], so that
    /// many operations share a system call.
    ///
    /// # Panics
    /// If `capacity` operations are already in flight. The caller must count.
    fn submit(&mut self, token: u64, operation: Operation);

    /// Starts all submitted operations and sleeps until at least one has completed or the [`Waker`]
    /// was used. Appends the completions to `done`.
    ///
    /// An error concerns the engine itself and is final. Operations report their errors in their
    /// completions.
    fn wait(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.wait_at_most(None, done)
    }

    /// Like [`Engine::wait`], but sleeps no longer than `limit`, if one is given. For owners that
    /// have a deadline.
    fn wait_at_most(
        &mut self,
        limit: Option<Duration>,
        done: &mut Vec<Completion>,
    ) -> Result<(), EngineError>;

    /// Starts all submitted operations and appends the completions to `done`, without sleeping.
    fn poll(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError>;

    /// Changes the number of threads that may block in the kernel for the engine. A hint: an engine
    /// may have fewer, and operations that have begun are not interrupted.
    fn limit_workers(&mut self, _workers: usize) {}

    /// Returns the time by the clock of the engine: that of the system, unless a
    /// [`Machine`](crate::Machine) is modelled.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Returns a handle with which another thread wakes the owner from [`Engine::wait`].
    fn waker(&self) -> Waker;

    /// Returns the kind of the engine.
    fn kind(&self) -> EngineKind;

    /// Returns whether the kernel has pinned and mapped the arena's pages for this engine.
    fn registered_buffers(&self) -> bool {
        false
    }

    /// Returns whether this engine's ring is permanently restricted to the operations that engines
    /// submit. `None` if the engine has no ring.
    fn ring_restricted(&self) -> Option<bool> {
        None
    }

    /// Returns how long each of its worker threads has been busy so far. A ring has no worker
    /// threads.
    fn workers(&self) -> Vec<WorkerTimes> {
        Vec::new()
    }

    /// Returns the descriptor of the ring, to which another ring may be attached.
    fn ring_fd(&self) -> Option<RawFd> {
        None
    }
}

/// Running time of an engine's worker thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerTimes {
    /// Time since the start of the thread.
    pub total: Duration,
    /// Time spent in system calls for operations that have ended.
    pub busy: Duration,
}

/// Handle that wakes an engine's owner. Cheap to clone.
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

/// Kind of engine.
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
    /// Returns the word used in reports and options.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Threads => "threads",
            Self::Faulty(_) => "faulty",
        }
    }

    /// Returns the [`Syscalls`] to use beside such an engine. They share its fault plan, if it has
    /// one.
    pub fn syscalls(&self) -> Syscalls {
        match self {
            Self::Uring | Self::Threads => Syscalls::default(),
            Self::Faulty(plan) => Syscalls::with_faults(plan.clone()),
        }
    }
}

/// Configuration of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Kind of engine.
    pub kind: EngineKind,
    /// Maximum number of operations in flight.
    pub capacity: usize,
    /// Number of threads that may block in the kernel for the engine: io-wq workers of a ring, or
    /// worker threads. [`Engine::limit_workers`] changes it.
    pub workers: usize,
    /// Memory to register with the ring, if the kernel allows that much.
    pub register: Option<ArenaRanges>,
    /// Ring to share kernel workers with (`ATTACH_WQ`). Since Linux 5.12 workers belong to threads,
    /// and attached rings share only the order of writes to one file.
    pub attach: Option<RawFd>,
    /// I/O priority of a ring's reads and writes; `None` for the priority of its owner's thread.
    /// Worker threads inherit the priority of the thread that opens the engine.
    pub priority: Option<IoPriority>,
    /// Device of the files (`st_dev`). Only a modelled [`Machine`](crate::Machine) distinguishes
    /// devices.
    pub device: u64,
}

/// The engine could not be opened, or broke. Except for a worker's panic, always a fault of the
/// environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// io_uring is not available.
    #[error(transparent)]
    Refused(#[from] UringRefused),
    /// A system call for the ring failed.
    #[error("{call} failed: {source}")]
    Ring {
        /// Name of the system call.
        call: &'static str,
        /// Error returned by the kernel.
        source: io::Error,
    },
    /// A worker thread could not be started.
    #[error("cannot start an I/O thread: {source}")]
    Spawn {
        /// Error returned by the kernel.
        source: io::Error,
    },
    /// A worker thread panicked, which is a bug.
    #[error("an I/O thread panicked")]
    WorkerDied,
}

impl EngineError {
    /// Returns the kernel's error, if there is one.
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
    /// Error returned by the kernel.
    pub errno: Errno,
}

impl UringRefused {
    /// Returns the usual cause of the error, or where to look for it.
    pub fn reason(&self) -> &'static str {
        match self.errno {
            Errno::PERM | Errno::ACCESS => {
                "sysctl kernel.io_uring_disabled is set, or a seccomp filter forbids it, as in \
                 many containers"
            }
            Errno::NOSYS => "the kernel is built without it, or a seccomp filter hides it",
            Errno::NOMEM => "the locked-memory limit (ulimit -l) is too low",
            _ => "see io_uring_setup(2)",
        }
    }
}
