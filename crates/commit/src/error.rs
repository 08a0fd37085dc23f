//! Errors of staging, syncing and publishing.

use std::path::PathBuf;

use unsnap_create::CreateError;
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

/// Failure to stage, sync or publish a result. Publications were taken back as far as possible, so
/// that no destination has its final name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A system call on a destination, or on a file that belongs to the result, failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    Staging {
        /// The failed step, as a verb phrase for the message.
        step: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error number from the kernel.
        errno: Errno,
    },
    /// A destination exists and is not empty, or another process interfered with it.
    #[error("{} {reason}", path.display())]
    NotClean {
        /// The destination.
        path: PathBuf,
        /// Predicate for the message, such as "is not empty".
        reason: &'static str,
    },
    /// Another process is unpacking to the same destination.
    #[error("another process is unpacking to {}", path.display())]
    Locked {
        /// The destination.
        path: PathBuf,
    },
    /// A file could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The request makes no sense.
    #[error("{reason}")]
    Request {
        /// Reason.
        reason: String,
        /// Remedy.
        remedy: Remedy,
    },
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl Failure for CommitError {
    fn inner(&self) -> Option<&dyn Failure> {
        match self {
            Self::Create(error) => Some(error),
            _ => None,
        }
    }

    fn family(&self) -> Family {
        match self {
            Self::Staging { .. } => Family::Environment,
            Self::NotClean { .. } | Self::Locked { .. } => Family::NotClean,
            Self::Create(error) => error.family(),
            Self::Request { .. } => Family::Request,
            Self::Cancelled => Family::Cancelled,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Staging { errno, .. } => Code::of_errno(*errno),
            Self::NotClean { .. } => Code::NotClean,
            Self::Locked { .. } => Code::Locked,
            Self::Create(error) => error.code(),
            Self::Request { .. } => Code::Request,
            Self::Cancelled => Code::Cancelled,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Staging { errno, .. } => Remedy::of_errno(*errno),
            Self::NotClean { .. } => Some(Remedy::EmptyDestination),
            Self::Locked { .. } => Some(Remedy::WaitOrMove),
            Self::Create(error) => error.remedy(),
            Self::Request { remedy, .. } => Some(remedy.clone()),
            Self::Cancelled => None,
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Staging { errno, .. } => Some(*errno),
            _ => self.inner().and_then(Failure::errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_has_one_code_whichever_stage_meets_it() {
        let path = "/x".into();
        let staging = CommitError::Staging { step: "sync", path, errno: Errno::NOSPC };
        assert_eq!(staging.code(), Code::NoSpace);
        let path = "/x".into();
        let create = CreateError::File { step: "write", path, errno: Errno::NOSPC };
        assert_eq!(CommitError::Create(create).code(), Code::NoSpace);
    }
}
