#![forbid(unsafe_code)]
//! What unsnap's programs share.
//!
//! * [`args`]: options that all of them take.
//! * [`settings`]: what was typed, as a `Config`; files of limits.
//! * [`printer`]: the only place that writes to the terminal.
//! * [`progress`]: how far a run is.
//! * [`signals`]: stopping, and ending by the signal that asked for it.
//! * [`exit`]: exit codes.

pub mod args;
pub mod exit;
pub mod printer;
pub mod progress;
pub mod settings;
pub mod signals;
