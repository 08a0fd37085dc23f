#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "front ends read configurations by themselves")]
//! What unsnap's programs share.
//!
//! * [`args`]: options that all of them take.
//! * [`settings`]: what was typed, as a `Config`; files of limits.
//! * [`printer`]: the only place that writes to the terminal.
//! * [`progress`]: how far a run is.
//! * [`signals`]: stopping, and ending by the signal that asked for it.
//! * [`exit`]: exit codes.
//! * [`examples`], [`manual`] and [`completions`]: what is made of a program's help; [`generated`] holds
//!   what is checked in to it.

pub mod args;
pub mod completions;
pub mod examples;
pub mod exit;
pub mod flags;
pub mod generated;
pub mod manual;
pub mod printer;
pub mod progress;
mod progress_line;
pub mod settings;
pub mod signals;
