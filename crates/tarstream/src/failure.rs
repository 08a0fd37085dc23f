//! Family, code and remedy of each error.

use unsnap_failure::{Code, Failure, Family, Remedy};

use crate::TarError;

impl TarError {
    fn is_cut(&self) -> bool {
        matches!(
            self,
            Self::TruncatedHeader { .. }
                | Self::TruncatedExtension { .. }
                | Self::TruncatedPayload { .. }
                | Self::MissingEnd { .. }
        )
    }
}

impl Failure for TarError {
    fn family(&self) -> Family {
        Family::BadArchive
    }

    fn code(&self) -> Code {
        match self {
            error if error.is_cut() => Code::ArchiveCut,
            Self::TrailingData { .. }
            | Self::PaddingTooLong { .. }
            | Self::StrayZeroBlock { .. } => Code::ForeignBytes,
            Self::NoEntries { .. } => Code::NotAnArchive,
            Self::ExtensionTooLarge { .. }
            | Self::PathTooLong { .. }
            | Self::SparseMapTooLong { .. } => Code::Limit,
            Self::SolarisExtension { .. } => Code::Unsupported,
            _ => Code::ArchiveDamaged,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::NoEntries { .. } => Some(Remedy::WaitForDownload),
            error => error.is_cut().then_some(Remedy::FetchWhole),
        }
    }
}
