//! Exit codes.

use std::{error::Error, fmt, process::ExitCode};

use unsnap_unpack::Family;

use crate::{settings::RequestError, signals};

/// A validator would load the newest state, and fail. Exit code 1, as for other things that fail to
/// verify.
#[derive(Debug)]
pub struct StateDamaged {
    /// Whether it can be made whole again.
    pub repairable: bool,
}

impl fmt::Display for StateDamaged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a validator that starts would fail: ")?;
        formatter.write_str(if self.repairable {
            "run `ledger-tool fastboot repair` before"
        } else {
            "run `ledger-tool fastboot repair` before, which withdraws the state"
        })
    }
}

impl Error for StateDamaged {}

/// Something makes unsnap slow or unsafe on this machine; what it is has been told. Exit code 3.
#[derive(Debug)]
pub struct MachineUnfit;

impl fmt::Display for MachineUnfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("something makes unsnap slow or unsafe on this machine")
    }
}

impl Error for MachineUnfit {}

/// How the process ends when it does not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// An archive is bad, or what was made of it. 1.
    BadArchive,
    /// What was asked for makes no sense. 2.
    Usage,
    /// The machine cannot do it. 3.
    Environment,
    /// A destination is not clean, or somebody else is at work. 4.
    NotClean,
    /// Stopped by a signal; the process ends by that signal, as the shell expects.
    Signal,
    /// Whoever read our output has had enough: a quiet success.
    BrokenPipe,
}

impl Exit {
    /// What an error means.
    pub fn of(error: &anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref::<unsnap_unpack::Error>() {
            return match error.family() {
                Family::BadArchive => Self::BadArchive,
                Family::Request => Self::Usage,
                Family::Environment => Self::Environment,
                Family::NotClean => Self::NotClean,
                Family::Cancelled => Self::Signal,
            };
        }
        if error.is::<StateDamaged>() {
            return Self::BadArchive;
        }
        if error.is::<RequestError>() {
            return Self::Usage;
        }
        let broken_pipe = error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe);
        if broken_pipe { Self::BrokenPipe } else { Self::Environment }
    }

    /// What `main` returns, if it does.
    pub fn leave(self) -> ExitCode {
        match self {
            Self::BadArchive => ExitCode::from(1),
            Self::Usage => ExitCode::from(2),
            Self::Environment => ExitCode::from(3),
            Self::NotClean => ExitCode::from(4),
            Self::Signal => signals::die_of_received(),
            Self::BrokenPipe => ExitCode::SUCCESS,
        }
    }
}
