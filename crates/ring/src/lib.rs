//! Asynchronous file operations over io_uring, worker threads or injected faults.
//!
//! An [`Operation`] is a complete task, such as "create this file, write these bytes,
//! close it". It owns everything that the kernel will access, and is moved into an
//! [`Engine`]. A [`Completion`] returns the result under the token that the operation was submitted
//! with. There is no other way to learn that an operation has ended, and completions arrive in any
//! order.
//!
//! ```text
//! Operation ──submit──▶ slab of in-flight operations ──step──▶ one system call's worth of work
//!                           ▲          │                         uring:   one SQE
//!                           └─complete─┘◀──────────────────────  threads: one call on a worker
//!                                      │                         faulty:  one call, maybe failed
//! Completion ◀────────────wait─────────┘
//! ```
//!
//! The state machines in [`Operation`] resume short transfers, retry after `EINTR` and `EAGAIN`,
//! and keep direct I/O aligned meanwhile. They are the same for every engine. An engine only
//! executes steps:
//!
//! | engine | executes a step by | for |
//! |---|---|---|
//! | [`EngineKind::Uring`] | a submission to io_uring | the default where the kernel allows it |
//! | [`EngineKind::Threads`] | a system call on a worker thread | containers, hardened kernels |
//! | [`EngineKind::Faulty`] | a system call, with seeded faults and reordering, or on a modelled machine | tests |
//!
//! The io_uring engine makes ordinary system calls for `fchmod`, and for the `fcntl` before the end
//! of a file that direct I/O cannot write, since a ring has no such operations. The latter never
//! waits; for the former, see `CreatorPool` in the crate `create`.
//!
//! [`Syscalls`] makes calls one at a time, such as those that create directories. A [`FaultPlan`]
//! counts the steps of engines and the calls made through [`Syscalls`], and can fail any of them.
//! Calls that a crate makes directly, such as reads from a pipe, are outside the plan.
//!
//! A plan may also put the engines on a [`Machine`], a model of processors and devices: completions
//! then arrive when the model says so, in virtual or scaled time.
//!
//! The owner of an engine asks a [`Bucket`] before it begins an operation. A [`Pace`] controls the
//! rate from outside and can pause a run.
//!
//! This is the only crate that uses io_uring. Other crates decide which files to read or create,
//! and how an error affects the run.

#![allow(clippy::disallowed_methods, reason = "the calls of the data path are made here")]

mod bucket;
mod depth;
mod direct;
mod engine;
mod execute;
mod failure;
mod fault;
mod faulty;
mod machine;
mod open;
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
};
pub use fault::{Call, FaultPlan, Injected, Short};
pub use machine::{CallCosts, DeviceModel, Machine};
pub use operation::{
    CreateFile, FinishFile, NewFile, OpError, Operation, Outcome, ReadAt, RelativePath,
    RelativePathError, WriteAt, WriteFile,
};
pub use pace::{Pace, Subscription};
pub use priority::{IoPriority, NotAnIoPriority};
pub use residency::is_cached;
pub use survey::{UringSurvey, probe_uring, survey_uring};
pub use syscalls::Syscalls;
