//! Errors of file creation.

use std::path::PathBuf;

use rustix::io::Errno;
use unsnap_ring::{EngineError, RelativePathError};

/// File creation failed. Always a fault of the environment, except for invalid paths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A step of creating a file failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    File {
        /// Failed step: "open", "write", "fcntl", "chmod" or "close"; "create", "examine" or
        /// "remove" for a probe.
        step: &'static str,
        /// Path of the file in the destination.
        path: PathBuf,
        /// Error returned by the kernel.
        errno: Errno,
    },
    /// A directory could not be created, opened or given its mode.
    #[error("cannot {step} directory {}: {errno}", path.display())]
    Directory {
        /// Failed step: "create", "open" or "set the mode of".
        step: &'static str,
        /// Path of the directory.
        path: PathBuf,
        /// Error returned by the kernel.
        errno: Errno,
    },
    /// Direct I/O was requested but is not available.
    #[error("cannot write to {} with direct I/O: {reason}", path.display())]
    DirectRefused {
        /// Path of the destination.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// An invalid path, which the layout should have refused.
    #[error(transparent)]
    Path(#[from] RelativePathError),
    /// The I/O engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A creator could not be started, was stopped, or panicked.
    #[error("a file creator stopped: {reason}")]
    Stopped {
        /// Reason.
        reason: String,
    },
}

/// Reason in the errors that follow from the first one.
pub(crate) const DIED: &str = "its thread ended unexpectedly";

impl CreateError {
    /// Returns the error for callers that ask after the original error has been returned.
    pub fn consequence() -> Self {
        Self::Stopped { reason: DIED.to_owned() }
    }

    /// Returns whether this error only follows from another one, which is reported elsewhere.
    pub fn is_consequence(&self) -> bool {
        matches!(self, Self::Stopped { reason } if reason == DIED)
    }

    /// Returns the kernel's error, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::File { errno, .. } | Self::Directory { errno, .. } => Some(*errno),
            Self::Engine(error) => error.errno(),
            _ => None,
        }
    }
}
