#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "front ends read configurations by themselves")]
//! Command-line support that unsnap's programs share.
//!
//! * [`args`]: options that all programs take.
//! * [`settings`]: options of the libraries, from command lines and files of limits.
//! * [`printer`]: the only module that writes to the terminal.
//! * [`log`]: lines of the libraries' log, in the style of the printer.
//! * [`units`]: sizes, counts and durations for people.
//! * [`progress`]: the progress of a run.
//! * [`signals`]: stopping at a signal, and ending by that signal.
//! * [`validator`]: a validator's own command line, as the source of its directories.
//! * [`machine`]: memory and control groups of this machine.
//! * [`child`]: other programs, which are given little time.
//! * [`hook`]: programs that are told of events.
//! * [`exit`]: exit codes.
//! * [`flags`]: the flags that hints name.
//! * [`manual`] and [`completions`]: manual pages and shell completions, generated from the help;
//!   [`examples`] parses the examples in it, and [`generated`] compares the checked-in files.

pub mod args;
pub mod child;
pub mod completions;
pub mod examples;
pub mod exit;
pub mod flags;
pub mod generated;
pub mod hook;
mod last_words;
pub mod log;
pub mod machine;
pub mod manual;
pub mod printer;
pub mod progress;
mod progress_line;
pub mod settings;
pub mod signals;
pub mod units;
pub mod validator;
