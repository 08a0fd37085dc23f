//! Errors at the start, in the shape that all programs share: message, code, hint.

use std::{
    io,
    path::{Path, PathBuf},
};

use unsnap_cli::exit::ProgramFailure;
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};
use unsnap_service::config::ConfigError;

/// The service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is invalid or cannot be read.
    #[error("{error}")]
    Config { file: PathBuf, error: ConfigError },
    /// Something that the configuration names does not exist.
    #[error("{}: {lack}", file.display())]
    Lack { file: PathBuf, lack: String },
    /// The state directory or the socket cannot be used.
    #[error("cannot {step} {}: {error}", path.display())]
    Place {
        /// The operation, as a verb.
        step: &'static str,
        path: PathBuf,
        error: io::Error,
    },
}

impl StartError {
    /// Wraps the error for the printer.
    pub fn wrap(self) -> anyhow::Error {
        ProgramFailure::new(self).into()
    }

    /// Returns a function that adds operation and path to an error.
    pub fn cannot<'a>(
        step: &'static str,
        path: &'a Path,
    ) -> impl Fn(io::Error) -> anyhow::Error + 'a {
        move |error| Self::Place { step, path: path.to_owned(), error }.wrap()
    }

    /// Returns whether another process has taken a place.
    fn is_taken(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::AddrInUse
    }
}

impl Failure for StartError {
    fn family(&self) -> Family {
        match self {
            Self::Config { .. } | Self::Lack { .. } => Family::Request,
            Self::Place { .. } => Family::Environment,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Config { .. } | Self::Lack { .. } => Code::Request,
            Self::Place { error, .. } if Self::is_taken(error) => Code::Locked,
            Self::Place { error, .. } => Code::of_io_error(error),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Config { file, .. } if !file.exists() => Some(Remedy::advice(
                "name the configuration by --config; the shipped unpackd.toml explains every key",
            )),
            Self::Config { file, .. } => Some(Remedy::advice(format!(
                "correct {}, then check it: unpackd --check-config; the shipped unpackd.toml \
                 explains every key",
                file.display()
            ))),
            Self::Lack { .. } => Some(Remedy::advice(
                "make it, mount its file system, or correct the configuration; the service starts \
                 without it and waits",
            )),
            Self::Place { error, .. } if Self::is_taken(error) => Some(Remedy::advice(
                "stop the other one, or give this one a state-directory, a socket and targets of \
                 its own",
            )),
            Self::Place { error, .. } => Remedy::of_io_error(error),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Config { .. } | Self::Lack { .. } => None,
            Self::Place { error, .. } => Errno::from_io_error(error),
        }
    }
}
