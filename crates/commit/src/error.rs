//! Why a result could not be staged or published.

use std::path::PathBuf;

use unsnap_create::CreateError;
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

/// Staging, syncing or publishing failed. Nothing has a final name, as far as that could be taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A system call on a destination, or on a file that goes with it, failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    Staging {
        /// The step, as a verb.
        step: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A destination exists and is not empty.
    #[error("{} {reason}", path.display())]
    NotClean {
        /// The destination.
        path: PathBuf,
        /// Why it cannot be used.
        reason: &'static str,
    },
    /// Another process is unpacking to the same destination.
    #[error("another process is unpacking to {}", path.display())]
    Locked {
        /// The destination.
        path: PathBuf,
    },
    /// A file cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The request makes no sense.
    #[error("{reason}")]
    Request {
        /// Why.
        reason: String,
        /// The remedy.
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
