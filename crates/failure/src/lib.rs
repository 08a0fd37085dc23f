#![forbid(unsafe_code)]
//! Classification of failures: the responsible party, a stable code, and a remedy.
//!
//! Every crate has its own error type, which describes the failure and its position. All error
//! types implement [`Failure`], so that a front end can turn any error into an exit code
//! ([`Family`]), a code for scripts and the troubleshooting guide ([`Code`]), and a hint
//! ([`Remedy`]), without knowing the crate.
//!
//! Errors know no front end. A remedy is a value. [`Remedy::words`] turns it into text, in which
//! the front end's [`Vocabulary`] supplies the names of options (a flag, a key of a configuration
//! file). Front ends give no hint about options that they do not have.

mod code;
mod remedy;

use std::path::Path;

pub use code::Code;
pub use remedy::{Knob, Remedy, Vocabulary};
pub use rustix::io::Errno;

/// Party responsible for a failure. Determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The archive is damaged, hostile, or not the one it claims to be. Exit code 1.
    BadArchive,
    /// The request makes no sense. Exit code 2.
    Request,
    /// The machine is at fault: full disk, I/O error, a limit. Exit code 3.
    Environment,
    /// A destination is not clean, or another process is using it. Exit code 4.
    NotClean,
    /// The caller asked to stop.
    Cancelled,
}

/// An error that a front end can report.
pub trait Failure: std::error::Error {
    /// Returns the wrapped error of another crate. By default the other methods return its answers.
    fn inner(&self) -> Option<&dyn Failure> {
        None
    }

    /// Returns the responsible party; by default, without an inner error, [`Family::Environment`].
    fn family(&self) -> Family {
        self.inner().map_or(Family::Environment, Failure::family)
    }

    /// Returns the stable code; by default, without an inner error, [`Code::System`].
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

    /// Returns the name of the archive whose content is bad, as given by the caller.
    fn archive(&self) -> Option<&str> {
        self.inner().and_then(Failure::archive)
    }

    /// Returns the path of the archive, if it could not be read or changed while it was read.
    fn unreadable_file(&self) -> Option<&Path> {
        self.inner().and_then(Failure::unreadable_file)
    }
}
