//! Errors of a measurement.

use std::{
    io,
    path::{Path, PathBuf},
};

use unsnap_cli::{exit::ProgramFailure, units::size};
use unsnap_failure::{Code, Errno, Failure, Remedy};

/// A measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The destination's file system has too little space.
    #[error(
        "cannot measure in {}: {} needed, {} free; choose a smaller --size",
        path.display(), size(*needed_bytes), size(*free_bytes)
    )]
    NoSpace { path: PathBuf, free_bytes: u64, needed_bytes: u64 },
    /// The operating system refused an operation.
    #[error("cannot {step} {}: {error}", path.display())]
    System {
        /// The operation, as a verb.
        step: &'static str,
        path: PathBuf,
        error: io::Error,
    },
}

impl BenchError {
    /// Returns the error about too little space in a directory.
    pub fn no_space(path: &Path, free_bytes: u64, needed_bytes: u64) -> ProgramFailure {
        ProgramFailure::new(Self::NoSpace { path: path.to_owned(), free_bytes, needed_bytes })
    }
}

/// Returns a function that adds operation and path to an error.
pub fn cannot<'a>(step: &'static str, path: &'a Path) -> impl Fn(io::Error) -> ProgramFailure + 'a {
    move |error| ProgramFailure::new(BenchError::System { step, path: path.to_owned(), error })
}

impl Failure for BenchError {
    fn code(&self) -> Code {
        match self {
            Self::NoSpace { .. } => Code::NoSpace,
            Self::System { error, .. } => Code::of_io_error(error),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::NoSpace { .. } => None,
            Self::System { error, .. } => Remedy::of_io_error(error),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::NoSpace { .. } => None,
            Self::System { error, .. } => Errno::from_io_error(error),
        }
    }
}
