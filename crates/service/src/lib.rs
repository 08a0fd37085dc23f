#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "its configuration and state files are not the data path"
)]
//! The service that keeps the newest snapshot unpacked. Signals, logging and the connection to
//! systemd belong to the program `unpackd`.
//!
//! ```text
//!   inotify ──watch──▶ ┐                            ┌──▶ worker of a target ──▶ results on disk
//!   rescan ──archives──┤ supervisor ──plan::decide──┤          │
//!   clients ──requests─┘      ▲                     └──▶ remover of old results
//!                             └── ended, swept ─────────────── ┘
//! ```
//!
//! * [`config`]: the configuration.
//! * [`Supervisor`]: the main loop. It sleeps until a message arrives or a timer expires.
//! * `plan`: jobs, retry timers and the decision about the next action, without I/O.
//! * `archives`, `watch`: the archives in the watched directories, and which of them are complete.
//! * `target`, `worker`: making results from archives and removing old ones.
//! * `meter`: what jobs have read and written so far.
//! * `space`: giving space back to running validators, and pruning.
//! * `completion`, `adoption`: consequences of the end of a job, and of adopting a ready state.
//! * `giving_up`: states that validators have ended with are not made again.
//! * `state`, `persistent`: the state of the service, and the part of it that survives a restart.
//! * `disks`: free space of the file systems that targets are on, and what is kept there.
//! * `hook`: the program that is told of events.
//! * `requests`, `status`, `metrics`: requests of clients and their answers.
//! * `health`: the check that every thread makes progress or is idle. [`Notify`]: the service
//!   manager that is notified of it.

mod adoption;
mod archives;
mod completion;
pub mod config;
mod disks;
mod giving_up;
mod health;
mod hook;
mod message;
mod meter;
mod metrics;
mod notify;
mod persistent;
mod plan;
mod reload;
mod requests;
mod space;
mod state;
mod status;
mod supervisor;
mod target;
#[cfg(test)]
mod testing;
mod vocabulary;
mod watch;
mod worker;

pub use hook::TellProgram;
pub use notify::Notify;
pub use persistent::StateDirectory;
pub use reload::load;
pub use supervisor::{Handle, Stopped, Supervisor};
