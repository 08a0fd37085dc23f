#![forbid(unsafe_code)]
//! The vocabulary of failures: whose fault one is, a stable word for it, and its remedy.
//!
//! Every crate has an error type of its own, which says exactly what happened and where. All of
//! them implement [`Failure`], so that a front end can turn any of them into an exit code
//! ([`Family`]), a word for scripts and the troubleshooting guide ([`Code`]), and a hint
//! ([`Remedy`]), without knowing the crates.
//!
//! No error knows a front end. A remedy is a value; the words come from [`Remedy::words`], and the
//! names in them (a flag, a key of a configuration file) from the front end's [`Vocabulary`]. A
//! remedy that needs an option which the front end does not have is not given.

mod code;
mod remedy;

pub use code::Code;
pub use remedy::{Knob, Remedy, Vocabulary};
pub use rustix::io::Errno;

/// Whose fault a failure is. Decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The archive is damaged, hostile, or not the one it claims to be. Exit code 1.
    BadArchive,
    /// The request makes no sense. Exit code 2.
    Request,
    /// The machine cannot do it: full disk, I/O error, a limit. Exit code 3.
    Environment,
    /// A destination is not clean, or another process is using it. Exit code 4.
    NotClean,
    /// The caller asked to stop.
    Cancelled,
}

/// An error that a front end can report.
pub trait Failure: std::error::Error {
    /// Returns whose fault it is.
    fn family(&self) -> Family;

    /// Returns the stable word for it.
    fn code(&self) -> Code;

    /// Returns the remedy, if one is known.
    fn remedy(&self) -> Option<Remedy> {
        self.errno().and_then(Remedy::of_errno)
    }

    /// Returns the kernel's error number, if a system call failed.
    fn errno(&self) -> Option<Errno> {
        None
    }

    /// Returns the archive whose content is bad, under the name the caller gave it.
    fn archive(&self) -> Option<&str> {
        None
    }
}
