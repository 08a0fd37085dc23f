//! Errors of exporting.

use std::path::PathBuf;

use unsnap_commit::CommitError;
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};
use unsnap_fit::FitError;
use unsnap_lookup::LookupError;
use unsnap_pass::PassError;
use unsnap_table::TableError;
use unsnap_unpack::UnpackError;

use crate::Problem;

/// Exporting failed, and nothing was published; or an export is not what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Reading, decoding or walking failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A check of the archive failed.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// Finding the newest versions failed.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Staging or publishing failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The tables do not fit.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// A table could not be encoded, written or read back.
    #[error("{}: {source}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: TableError,
    },
    /// Rows could not be encoded for a stream.
    #[error("{0}")]
    Stream(TableError),
    /// The other end of a stream does not take it.
    #[error("cannot write: {0}")]
    Output(std::io::Error),
    /// An account has a number that its column cannot hold. No bank has such numbers.
    #[error("{archive}: account {pubkey} has {value} in {column}, more than a table can hold")]
    TooLarge {
        /// The archive.
        archive: String,
        /// Address of the account in base58.
        pubkey: String,
        /// Name of the column.
        column: &'static str,
        /// The number.
        value: u64,
    },
    /// What was read back is not what was written.
    #[error("{}: read back: {problem}", path.display())]
    NotIdentical {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What is wrong.
        problem: Box<Problem>,
    },
    /// A directory is not the export that its manifest describes.
    #[error("{}: {problem}", path.display())]
    BadExport {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What is wrong.
        problem: Box<Problem>,
    },
    /// The lamports of the newest versions of all accounts are not the bank's capitalization.
    #[error("{archive}: the accounts have {found} lamports, but the bank file says {expected}")]
    Capitalization {
        /// The archive with the newest bank.
        archive: String,
        /// Sum of the lamports of all rows.
        found: u128,
        /// Capitalization in the bank file.
        expected: u64,
    },
}

impl Failure for ExportError {
    fn inner(&self) -> Option<&dyn Failure> {
        match self {
            Self::Pass(error) => Some(error),
            Self::Unpack(error) => Some(error),
            Self::Lookup(error) => Some(error),
            Self::Commit(error) => Some(error),
            Self::Fit(error) => Some(error),
            Self::Table { source, .. } | Self::Stream(source) => Some(source),
            Self::Output(_)
            | Self::TooLarge { .. }
            | Self::NotIdentical { .. }
            | Self::BadExport { .. }
            | Self::Capitalization { .. } => None,
        }
    }

    fn family(&self) -> Family {
        match self {
            Self::TooLarge { .. } | Self::Capitalization { .. } | Self::BadExport { .. } => {
                Family::BadArchive
            }
            _ => self.inner().map_or(Family::Environment, Failure::family),
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::TooLarge { .. } => Code::BadStorage,
            Self::Capitalization { .. } => Code::WrongAccounts,
            Self::NotIdentical { .. } => Code::NotIdentical,
            Self::BadExport { .. } => Code::BadExport,
            Self::Output(error) => Code::of_io_error(error),
            _ => self.inner().map_or(Code::System, Failure::code),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        self.inner().and_then(Failure::remedy)
    }

    fn errno(&self) -> Option<Errno> {
        self.inner().and_then(Failure::errno)
    }

    fn archive(&self) -> Option<&str> {
        match self {
            Self::TooLarge { archive, .. } | Self::Capitalization { archive, .. } => Some(archive),
            _ => self.inner().and_then(Failure::archive),
        }
    }
}
