//! Family, code and remedy of each error.

use unsnap_failure::{Code, Failure, Family, Remedy};

use crate::{BankError, LayoutError, PairError};

impl Failure for LayoutError {
    fn family(&self) -> Family {
        Family::BadArchive
    }

    fn code(&self) -> Code {
        match self {
            Self::UnsafePath { .. }
            | Self::WrongKind { .. }
            | Self::Duplicate { .. }
            | Self::FileAndDirectory { .. } => Code::UnsafeEntry,
            Self::FileTooLarge { .. }
            | Self::TooManyEntries { .. }
            | Self::TotalTooLarge { .. } => Code::Limit,
            // The bank belongs to another slot than the name says.
            Self::WrongSlot { .. } => Code::WrongBank,
            _ => Code::NoSnapshot,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Self::UnexpectedEntry { .. } => Remedy::AllowAnyLayout,
            Self::TooManyEntries { .. } => Remedy::RaiseLimits(&["entries_max"]),
            Self::TotalTooLarge { .. } => {
                Remedy::RaiseLimits(&["apparent_bytes_max", "actual_bytes_max"])
            }
            Self::FileTooLarge { .. } => Remedy::RaiseLimits(&[
                "storage_bytes_max",
                "bank_file_bytes_max",
                "status_cache_bytes_max",
            ]),
            Self::WrongSlot { .. } => Remedy::FetchElsewhere,
            _ => return None,
        })
    }
}

impl Failure for BankError {
    fn family(&self) -> Family {
        Family::BadArchive
    }

    fn code(&self) -> Code {
        Code::WrongBank
    }

    fn remedy(&self) -> Option<Remedy> {
        Some(Remedy::FetchElsewhere)
    }
}

impl Failure for PairError {
    fn family(&self) -> Family {
        Family::Request
    }

    fn code(&self) -> Code {
        Code::Request
    }

    fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Self::NotFull { .. } => {
                Remedy::advice("name a full archive, and then the one that builds on it")
            }
            Self::NotIncremental { .. } | Self::OtherBase { .. } => {
                Remedy::advice("an incremental archive's name begins with the slot it builds on")
            }
        })
    }
}
