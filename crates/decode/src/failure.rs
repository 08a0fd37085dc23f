//! Family, code and remedy of each error.

use unsnap_failure::{Code, Failure, Family, Remedy};

use crate::DecodeError;

impl Failure for DecodeError {
    fn family(&self) -> Family {
        match self {
            Self::Source(error) => error.family(),
            Self::SetUp { .. } => Family::Environment,
            Self::Cancelled => Family::Cancelled,
            _ => Family::BadArchive,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::UnknownFormat { .. } => Code::NotAnArchive,
            Self::Empty | Self::Truncated { .. } => Code::ArchiveCut,
            Self::TrailingBytes { .. } => Code::ForeignBytes,
            Self::Limit { .. } | Self::WindowMemory { .. } => Code::Limit,
            Self::Unsupported { .. } => Code::Unsupported,
            Self::Corrupt { .. } => Code::ArchiveDamaged,
            Self::Source(error) => error.code(),
            Self::SetUp { .. } => Code::Memory,
            Self::Cancelled => Code::Cancelled,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Empty | Self::Truncated { .. } => Some(Remedy::FetchWhole),
            Self::Limit { .. } => Some(Remedy::RaiseLimits(&[])),
            Self::WindowMemory { budget, .. } => Some(Remedy::MoreMemory { bytes: *budget }),
            Self::UnknownFormat { .. } => Some(Remedy::CheckFile),
            Self::Corrupt { .. } | Self::TrailingBytes { .. } => Some(Remedy::FetchAgain),
            Self::Unsupported { .. } => Some(Remedy::advice(
                "no snapshot needs this: fetch the archive again, or compress the tar again with \
                 the zstd tool",
            )),
            Self::Source(error) => error.remedy(),
            Self::SetUp { .. } => Some(Remedy::LessMemory),
            Self::Cancelled => None,
        }
    }

    fn inner(&self) -> Option<&dyn Failure> {
        match self {
            Self::Source(error) => Some(error),
            _ => None,
        }
    }
}
