//! Exit codes.

use std::process::ExitCode;

use unsnap_unpack::{Error, Family};

use crate::{settings::RequestError, signals};

/// How the process ends when it does not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    BadArchive,
    Usage,
    Environment,
    NotClean,
    /// Stopped by a signal; the process ends by that signal, as the shell expects.
    Signal,
    /// Whoever read our output has had enough: a quiet success.
    BrokenPipe,
}

impl Exit {
    pub fn of(error: &anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref::<Error>() {
            return match error.family() {
                Family::BadArchive => Self::BadArchive,
                Family::Request => Self::Usage,
                Family::Environment => Self::Environment,
                Family::NotClean => Self::NotClean,
                Family::Cancelled => Self::Signal,
            };
        }
        if error.is::<RequestError>() {
            return Self::Usage;
        }
        let broken_pipe = error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe);
        if broken_pipe { Self::BrokenPipe } else { Self::Environment }
    }

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
