#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "its configuration and state files are not the data path"
)]
//! The service that keeps the newest snapshot unpacked, without what makes it a process.
//!
//! ```text
//!   inotify ──watch──▶ ┐                            ┌──▶ worker of a target ──▶ results on the disk
//!   rescan ──archives──┤ supervisor ──plan::decide──┤          │
//!   clients ──desk──── ┘      ▲                     └──▶ remover of old results
//!                             └── ended, swept ─────────────── ┘
//! ```
//!
//! * [`config`]: what is configured.
//! * [`Supervisor`]: the loop that everything comes together in. It sleeps unless something happens or
//!   a clock runs out.
//! * `plan`: jobs, clocks and the decision what to do next, as values.
//! * `archives`, `watch`: which archives there are, and which of them are complete.
//! * `target`, `worker`: what is made of them, and what is removed.
//! * `state`, `memory`: how everything stands; what of it survives the process.
//! * `desk`, `status`, `metrics`: what clients ask, and are told.
//! * `health`: whether every stage moves, or is provably idle. [`Notify`]: who is told.

mod archives;
pub mod config;
mod desk;
mod health;
mod memory;
mod metrics;
mod notify;
mod outcome;
mod plan;
mod reload;
mod state;
mod status;
mod supervisor;
mod target;
#[cfg(test)]
mod testing;
mod watch;
mod worker;

pub use memory::StateDirectory;
pub use notify::Notify;
pub use reload::load;
pub use supervisor::{Handle, Stopped, Supervisor};
