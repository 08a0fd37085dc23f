//! Errors of reading archives.

use std::path::PathBuf;

use unsnap_commit::CommitError;
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};
use unsnap_pass::PassError;
use unsnap_unpack::UnpackError;
use unsnap_verify::accounts::AccountsError;

/// An operation on an archive failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// Reading, decoding or walking failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// Creating or publishing extracted entries failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A check of the archive failed.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The accounts cannot be sorted, or an account occurs twice in a slot.
    #[error("{archive}: {source}")]
    Accounts {
        /// The archive.
        archive: String,
        /// The reason.
        source: Box<AccountsError>,
    },
    /// The archive does not hold the requested entries.
    #[error("{archive}: {what}")]
    NotFound {
        /// The archive.
        archive: String,
        /// The missing entries.
        what: String,
    },
    /// Writing to the output failed.
    #[error("cannot write the output: {error}")]
    Output {
        /// The reason.
        error: std::io::Error,
    },
    /// A temporary file, which holds an entry until it is written, could not be made or used.
    #[error("cannot use a temporary file: {error}")]
    TemporaryFile {
        /// The reason.
        error: std::io::Error,
    },
    /// The archive was changed between two passes over it.
    #[error("{} has changed while it was read", path.display())]
    Changed {
        /// The archive.
        path: PathBuf,
    },
}

impl LookupError {
    /// The caller asked to stop.
    pub const CANCELLED: Self = Self::Pass(PassError::Cancelled);

    /// Returns the error for a problem with accounts.
    pub(crate) fn accounts(archive: &str, source: AccountsError) -> Self {
        Self::Accounts { archive: archive.to_owned(), source: Box::new(source) }
    }
}

impl Failure for LookupError {
    fn inner(&self) -> Option<&dyn Failure> {
        match self {
            Self::Pass(error) => Some(error),
            Self::Commit(error) => Some(error),
            Self::Unpack(error) => Some(error),
            Self::Accounts { source, .. } => Some(&**source),
            Self::NotFound { .. }
            | Self::Output { .. }
            | Self::TemporaryFile { .. }
            | Self::Changed { .. } => None,
        }
    }

    fn family(&self) -> Family {
        match self {
            Self::NotFound { .. } => Family::BadArchive,
            _ => self.inner().map_or(Family::Environment, Failure::family),
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::NotInArchive,
            Self::Output { error } | Self::TemporaryFile { error } => Code::of_io_error(error),
            Self::Changed { .. } => Code::ArchiveChanging,
            _ => self.inner().map_or(Code::System, Failure::code),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Output { error } | Self::TemporaryFile { error } => Remedy::of_io_error(error),
            Self::Changed { .. } => Some(Remedy::WaitForDownload),
            _ => self.inner().and_then(Failure::remedy),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Output { error } | Self::TemporaryFile { error } => Errno::from_io_error(error),
            _ => self.inner().and_then(Failure::errno),
        }
    }

    fn archive(&self) -> Option<&str> {
        match self {
            Self::Accounts { archive, .. } | Self::NotFound { archive, .. } => Some(archive),
            _ => self.inner().and_then(Failure::archive),
        }
    }
}
