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

use std::path::Path;

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
    /// Returns the error of another crate that this one only passes on. The other methods ask it
    /// where this error has no answer of its own.
    fn inner(&self) -> Option<&dyn Failure> {
        None
    }

    /// Returns whose fault it is. Without an inner error: the machine's.
    fn family(&self) -> Family {
        self.inner().map_or(Family::Environment, Failure::family)
    }

    /// Returns the stable word for it. Without an inner error: [`Code::System`].
    fn code(&self) -> Code {
        self.inner().map_or(Code::System, Failure::code)
    }

    /// Returns the remedy, if one is known.
    fn remedy(&self) -> Option<Remedy> {
        match self.inner() {
            Some(inner) => inner.remedy(),
            None => self.errno().and_then(Remedy::of_errno),
        }
    }

    /// Returns the kernel's error number, if a system call failed.
    fn errno(&self) -> Option<Errno> {
        self.inner().and_then(Failure::errno)
    }

    /// Returns the archive whose content is bad, under the name that the caller gave it.
    fn archive(&self) -> Option<&str> {
        self.inner().and_then(Failure::archive)
    }

    /// Returns the archive's file, if reading it failed or it changed while it was read.
    fn unreadable_file(&self) -> Option<&Path> {
        self.inner().and_then(Failure::unreadable_file)
    }
}
