//! Errors of staging, syncing and publishing.

use std::path::{Path, PathBuf};

use unsnap_create::CreateError;
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

use crate::DraftError;

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
    /// A file or directory cannot be created because the file system has no free inode. The kernel
    /// reports this like a lack of space.
    #[error("cannot {step} {}: the file system has no free inodes", path.display())]
    NoInodes {
        /// The step, as a verb.
        step: &'static str,
        /// The file or directory.
        path: PathBuf,
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
    /// The file that keeps an archive could not be made.
    #[error(transparent)]
    Draft(#[from] DraftError),
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

/// Most free inodes that count as none. Creations that fail at the same time each hold an inode for a
/// moment, so one can fail for lack of inodes and find some free afterwards. As many as may be in
/// flight.
const FREE_INODES_FEW: u64 = 16;

impl CommitError {
    /// Names the resource that is short if something cannot be created for lack of space: the kernel's
    /// error is the same for bytes and inodes.
    #[must_use]
    pub fn with_resource(self) -> Self {
        let statfs = |path: &Path| rustix::fs::statfs(path).ok();
        self.with_resource_by(|path| {
            // A destination may not exist; it will be on the file system of its parent.
            let stat = path.ancestors().find_map(|path| match path {
                path if path.as_os_str().is_empty() => statfs(Path::new(".")),
                path => statfs(path),
            })?;
            // File systems without a limit report no inodes at all.
            (stat.f_files > 0).then_some(stat.f_ffree)
        })
    }

    /// `free_inodes`: of the file system of a path; `None` if it has no limit.
    fn with_resource_by(self, free_inodes: impl Fn(&Path) -> Option<u64>) -> Self {
        let (step, path, errno) = match &self {
            Self::Staging { step, path, errno }
            | Self::Create(
                CreateError::File { step, path, errno }
                | CreateError::Directory { step, path, errno },
            ) => (*step, path, *errno),
            _ => return self,
        };
        // Writing takes bytes, never inodes.
        let creates = errno == Errno::NOSPC && !step.starts_with("write");
        if !creates || free_inodes(path).is_none_or(|free| free > FREE_INODES_FEW) {
            return self;
        }
        Self::NoInodes { step, path: path.clone() }
    }
}

impl Failure for CommitError {
    fn inner(&self) -> Option<&dyn Failure> {
        match self {
            Self::Create(error) => Some(error),
            Self::Draft(error) => Some(error),
            _ => None,
        }
    }

    fn family(&self) -> Family {
        match self {
            Self::Staging { .. } | Self::NoInodes { .. } => Family::Environment,
            Self::NotClean { .. } | Self::Locked { .. } => Family::NotClean,
            Self::Create(error) => error.family(),
            Self::Draft(error) => error.family(),
            Self::Request { .. } => Family::Request,
            Self::Cancelled => Family::Cancelled,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Staging { errno, .. } => Code::of_errno(*errno),
            Self::NoInodes { .. } => Code::NoInodes,
            Self::NotClean { .. } => Code::NotClean,
            Self::Locked { .. } => Code::Locked,
            Self::Create(error) => error.code(),
            Self::Draft(error) => error.code(),
            Self::Request { .. } => Code::Request,
            Self::Cancelled => Code::Cancelled,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Staging { errno, .. } => Remedy::of_errno(*errno),
            Self::NoInodes { .. } => Some(Remedy::advice(
                "remove files there, or unpack to a file system made with more inodes (see df -i)",
            )),
            Self::NotClean { .. } => Some(Remedy::EmptyDestination),
            Self::Locked { .. } => Some(Remedy::WaitOrMove),
            Self::Create(error) => error.remedy(),
            Self::Draft(error) => error.remedy(),
            Self::Request { remedy, .. } => Some(remedy.clone()),
            Self::Cancelled => None,
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Staging { errno, .. } => Some(*errno),
            Self::NoInodes { .. } => Some(Errno::NOSPC),
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

    #[test]
    fn a_lack_of_inodes_is_not_a_lack_of_space() {
        let create =
            |step, errno| CommitError::from(CreateError::File { step, path: "/x".into(), errno });
        let code = |error: CommitError, free| error.with_resource_by(|_| free).code();
        assert_eq!(code(create("open", Errno::NOSPC), Some(0)), Code::NoInodes);
        assert_eq!(code(create("open", Errno::NOSPC), Some(1)), Code::NoInodes);
        assert_eq!(code(create("open", Errno::NOSPC), Some(100)), Code::NoSpace);
        assert_eq!(code(create("open", Errno::NOSPC), None), Code::NoSpace, "no limit");
        assert_eq!(code(create("write", Errno::NOSPC), Some(0)), Code::NoSpace);
        assert_eq!(code(create("open", Errno::IO), Some(0)), Code::DiskError);
        let path = "/x".into();
        let staging = CommitError::Staging { step: "create", path, errno: Errno::NOSPC };
        assert_eq!(code(staging, Some(0)), Code::NoInodes);
    }
}
