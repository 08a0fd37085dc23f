//! Errors of operations on states.

use std::path::{Path, PathBuf};

use unsnap_commit::CommitError;
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};
use unsnap_fit::FitError;
use unsnap_pass::PassError;
use unsnap_unpack::UnpackError;

/// An operation on a validator's state failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FastbootError {
    /// An archive could not be unpacked.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// There is no full archive.
    #[error("there is no full snapshot archive in {}{}", full.display(), and_elsewhere(full, incremental))]
    NoArchive {
        /// The directory searched for full archives.
        full: PathBuf,
        /// The directory searched for incremental archives.
        incremental: PathBuf,
    },
    /// A validator is running on the ledger.
    #[error("a validator is running on {}{}", ledger.display(), and_who(holder.as_deref()))]
    Running {
        /// The ledger.
        ledger: PathBuf,
        /// The process that holds the ledger's lock, in words, if the kernel names it.
        holder: Option<String>,
    },
    /// Another process, such as a validator on another ledger, uses storages that would be cleared.
    #[error("{} is in use by {process}", path.display())]
    AccountsInUse {
        /// The storage that the process has open or mapped.
        path: PathBuf,
        /// The process, in words.
        process: String,
    },
    /// Another unsnap is at work on the ledger, or on the ready state.
    #[error("another unsnap is at work on {}{}", path.display(), and_who(holder.as_deref()))]
    Locked {
        /// The ledger, or the directory of the ready state.
        path: PathBuf,
        /// The process at work, in words, if it could name itself.
        holder: Option<String>,
    },
    /// A directory cannot be searched for archives.
    #[error("cannot look for archives in {}: {errno}", path.display())]
    Search {
        /// The directory, or a file in it.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
}

fn and_who(holder: Option<&str>) -> String {
    holder.map_or_else(String::new, |holder| format!(" ({holder})"))
}

fn and_elsewhere(full: &Path, incremental: &Path) -> String {
    if full == incremental {
        return String::new();
    }
    format!(" (the incremental ones in {} need one)", incremental.display())
}

impl FastbootError {
    /// The caller asked to stop.
    pub const CANCELLED: Self = Self::Unpack(UnpackError::CANCELLED);

    /// Returns the error for a system call that failed on a file of a state.
    pub(crate) fn file(step: &'static str, path: &Path, errno: Errno) -> Self {
        CommitError::Staging { step, path: path.to_owned(), errno }.into()
    }

    /// Returns the error for a request that makes no sense.
    pub(crate) fn request(reason: impl Into<String>, remedy: Option<Remedy>) -> Self {
        PassError::Request { reason: reason.into(), remedy }.into()
    }

    /// Returns whether a validator or another unsnap is in the way.
    pub fn is_in_the_way(&self) -> bool {
        matches!(self.code(), Code::Locked | Code::LedgerInUse)
    }

    /// Returns whether a disk is full, for the validator as well: not only because space is to stay free.
    pub fn is_full_disk(&self) -> bool {
        match self {
            Self::Unpack(UnpackError::Fit(FitError::NoSpace(shortage))) => {
                !shortage.fits_without_min_free()
            }
            error => matches!(error.code(), Code::NoSpace | Code::NoInodes),
        }
    }
}

impl From<PassError> for FastbootError {
    fn from(error: PassError) -> Self {
        Self::Unpack(error.into())
    }
}

impl From<CommitError> for FastbootError {
    fn from(error: CommitError) -> Self {
        Self::Unpack(error.into())
    }
}

impl From<FitError> for FastbootError {
    fn from(error: FitError) -> Self {
        Self::Unpack(error.into())
    }
}

impl Failure for FastbootError {
    fn inner(&self) -> Option<&dyn Failure> {
        match self {
            Self::Unpack(error) => Some(error),
            _ => None,
        }
    }

    fn family(&self) -> Family {
        match self {
            Self::Running { .. } | Self::AccountsInUse { .. } | Self::Locked { .. } => {
                Family::NotClean
            }
            _ => self.inner().map_or(Family::Environment, Failure::family),
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Unpack(error) => error.code(),
            Self::NoArchive { .. } => Code::NoArchive,
            Self::Running { .. } | Self::AccountsInUse { .. } => Code::LedgerInUse,
            Self::Locked { .. } => Code::Locked,
            Self::Search { errno, .. } => Code::of_errno(*errno),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Unpack(error) => error.remedy(),
            Self::NoArchive { .. } => None,
            Self::Running { .. } => Some(Remedy::StopValidator),
            Self::Locked { .. } => Some(Remedy::advice("wait until it ends")),
            Self::AccountsInUse { .. } => Some(Remedy::advice(
                "give the accounts path of this ledger's validator, or stop that process",
            )),
            Self::Search { errno: Errno::NOENT | Errno::NOTDIR, .. } => Some(Remedy::NameSnapshots),
            Self::Search { errno, .. } => Remedy::of_errno(*errno),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Search { errno, .. } => Some(*errno),
            _ => self.inner().and_then(Failure::errno),
        }
    }
}
