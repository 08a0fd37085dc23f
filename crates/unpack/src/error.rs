//! Errors of unpacking.

use std::path::PathBuf;

use unsnap_commit::CommitError;
use unsnap_create::CreateError;
use unsnap_failure::{Code, Failure, Family, Remedy};
use unsnap_fit::FitError;
use unsnap_pass::PassError;
use unsnap_source::Digest;
use unsnap_state::StateError;
use unsnap_verify::accounts::AccountsError;

/// Unpacking failed. The destinations are unchanged, except for those that a failed publication
/// could not undo. Staged files are kept only if they can be [resumed](crate::Options::for_resumable_tree).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// Reading, decoding or walking failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// Creating, staging or publishing failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The archive does not fit.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The accounts do not add up to the archive's hash, or could not be verified.
    #[error("{archive}: {source}")]
    Accounts {
        /// The archive.
        archive: String,
        /// The difference, or the obstacle.
        source: Box<AccountsError>,
    },
    /// The archive has another digest than expected.
    #[error("{archive}: the digest is {found}, expected {expected}")]
    Digest {
        /// The archive.
        archive: String,
        /// The archive's digest.
        found: Box<Digest>,
        /// The expected digest.
        expected: Box<Digest>,
    },
    /// An archive from the network cannot be kept as a file, which is required.
    #[error("cannot keep the archive as {}: {reason}", path.display())]
    NotKept {
        /// The file, or its directory.
        path: PathBuf,
        /// The reason, in words.
        reason: String,
        /// Its code.
        code: Code,
    },
    /// Storages of an earlier state cannot be linked. The archives can be unpacked without them.
    #[error("cannot link the storages of an earlier state: {reason}")]
    NotLinked {
        /// The reason, in words.
        reason: String,
    },
    /// The files of an interrupted run belong to another run than the one asked for.
    #[error("cannot resume the interrupted run to {}: {reason}", path.display())]
    NotResumable {
        /// The destination.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
}

impl UnpackError {
    /// The caller asked to stop.
    pub const CANCELLED: Self = Self::Pass(PassError::Cancelled);

    pub(crate) fn accounts(archive: &str, source: AccountsError) -> Self {
        match source {
            // Another part of the run failed and reports the reason.
            AccountsError::Stopped => Self::CANCELLED,
            source => Self::Accounts { archive: archive.to_owned(), source: Box::new(source) },
        }
    }

    /// Returns whether this error only follows from the failure of another part of the run.
    pub(crate) fn is_consequence(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Create(error)) if error.is_consequence())
    }
}

impl From<CreateError> for UnpackError {
    fn from(error: CreateError) -> Self {
        Self::Commit(error.into())
    }
}

impl From<StateError> for UnpackError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Commit(error) => error.into(),
            StateError::Fit(error) => error.into(),
            StateError::NotLinked { reason } => Self::NotLinked { reason },
            StateError::Cancelled => Self::CANCELLED,
            StateError::Thread(error) => PassError::thread(error).into(),
        }
    }
}

impl Failure for UnpackError {
    fn inner(&self) -> Option<&dyn Failure> {
        match self {
            Self::Pass(error) => Some(error),
            Self::Commit(error) => Some(error),
            Self::Fit(error) => Some(error),
            Self::Accounts { source, .. } => Some(&**source),
            Self::Digest { .. }
            | Self::NotResumable { .. }
            | Self::NotLinked { .. }
            | Self::NotKept { .. } => None,
        }
    }

    fn family(&self) -> Family {
        match self {
            Self::Digest { .. } => Family::BadArchive,
            Self::NotResumable { .. } => Family::NotClean,
            _ => self.inner().map_or(Family::Environment, Failure::family),
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Digest { .. } => Code::WrongDigest,
            Self::NotResumable { .. } => Code::NotResumable,
            Self::NotKept { code, .. } => *code,
            _ => self.inner().map_or(Code::System, Failure::code),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Digest { .. } => Some(Remedy::FetchOther),
            Self::NotResumable { .. } => Some(Remedy::StartOver),
            _ => self.inner().and_then(Failure::remedy),
        }
    }

    fn archive(&self) -> Option<&str> {
        match self {
            Self::Accounts { archive, .. } | Self::Digest { archive, .. } => Some(archive),
            _ => self.inner().and_then(Failure::archive),
        }
    }
}
