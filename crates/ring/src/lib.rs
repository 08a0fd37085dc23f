//! File operations in flight.
//!
//! An [`Operation`] is a whole errand ("create this file, write these bytes, cut it to size,
//! close it"). It owns everything the kernel will touch, and is moved into an [`Engine`]; a
//! [`Completion`] brings the result back under the token it was submitted with. There is no other
//! way to learn that an operation has ended, and completions arrive in any order.
//!
//! ```text
//! Operation ──submit──▶ slab of in-flight operations ──step──▶ one system call's worth of work
//!                           ▲          │                         uring:   one SQE
//!                           └─complete─┘◀──────────────────────  threads: one call on a worker
//!                                      │                         faulty:  one call, maybe spoilt
//! Completion ◀────────────wait─────────┘
//! ```
//!
//! Resuming after short transfers, retrying after `EINTR` and `EAGAIN`, keeping direct I/O aligned
//! while doing so: all of that is decided once, in [`Operation`]'s state machines, and is the same
//! for every engine. An engine only carries out steps:
//!
//! | engine | carries out a step by | for |
//! |---|---|---|
//! | [`EngineKind::Uring`] | a submission to io_uring | the default where the kernel allows it |
//! | [`EngineKind::Threads`] | a system call on a worker thread | containers, hardened kernels |
//! | [`EngineKind::Faulty`] | a system call, with seeded faults and reordering | tests |
//!
//! What is done one call at a time, such as making directories, goes through [`Syscalls`], so that
//! a [`FaultPlan`] counts and fails every system call of a run and not only those of engines.
//!
//! How fast operations are begun is up to their owners, who ask a [`Bucket`]; a [`Pace`] sets that from
//! outside, and pauses.
//!
//! This is the only crate that speaks io_uring. What it leaves to others: which files to read or
//! create, and what an error means for the run.

#![allow(clippy::disallowed_methods, reason = "the calls of the data path are made here")]

mod bucket;
mod depth;
mod direct;
mod engine;
mod execute;
mod fault;
mod faulty;
mod operation;
mod pace;
mod priority;
mod residency;
mod survey;
mod syscalls;
mod threads;
mod uring;

pub use bucket::{Admission, Bucket};
pub use depth::queue_depth;
pub use direct::{DirectIo, DirectMode, DirectSupport};
pub use engine::{
    Completion, Engine, EngineConfig, EngineError, EngineKind, UringRefused, Waker, WorkerTimes,
    probe_uring,
};
pub use fault::{Call, FaultPlan, Injected, Short};
pub use operation::{
    CreateFile, FinishFile, NewFile, OpError, Operation, Outcome, ReadAt, RelativePath,
    RelativePathError, WriteAt, WriteFile,
};
pub use pace::{Pace, Subscription};
pub use priority::{IoPriority, NotAnIoPriority};
pub use residency::is_cached;
pub use survey::{UringSurvey, survey_uring};
pub use syscalls::Syscalls;
