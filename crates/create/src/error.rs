//! Why a file could not be created.

use std::path::PathBuf;

use rustix::io::Errno;
use unsnap_ring::{EngineError, RelativePathError};

/// Creating files failed. A matter of the environment, but for paths that no file can have.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A step of creating a file failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    File {
        /// "open", "write", "truncate", "chmod" or "close".
        step: &'static str,
        /// The file, as it would be called in the destination.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A directory could not be made or opened.
    #[error("cannot {step} directory {}: {errno}", path.display())]
    Directory {
        /// "create" or "open".
        step: &'static str,
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Direct I/O was demanded and cannot be had.
    #[error("cannot write to {} by direct I/O: {reason}", path.display())]
    DirectRefused {
        /// The destination.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A path that the layout should not have let through.
    #[error(transparent)]
    Path(#[from] RelativePathError),
    /// The I/O engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A creator's thread could not be started, or died of a bug.
    #[error("a file creator stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
}

/// What is said to everybody but the first who asks.
pub(crate) const DIED: &str = "its thread ended unexpectedly";

impl CreateError {
    /// What is told to who asks after what went wrong has been told.
    pub fn consequence() -> Self {
        Self::Stopped { reason: DIED.to_owned() }
    }

    /// Whether it only says that something else has failed, which is told elsewhere.
    pub fn is_consequence(&self) -> bool {
        matches!(self, Self::Stopped { reason } if reason == DIED)
    }

    /// The kernel's answer, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::File { errno, .. } | Self::Directory { errno, .. } => Some(*errno),
            Self::Engine(error) => error.errno(),
            _ => None,
        }
    }
}
