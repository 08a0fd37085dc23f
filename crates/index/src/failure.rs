//! Family, code and remedy of each error.

use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

use crate::IndexError;

impl Failure for IndexError {
    fn family(&self) -> Family {
        match self {
            Self::Cancelled => Family::Cancelled,
            error if error.is_environment() => Family::Environment,
            _ => Family::BadArchive,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Cancelled => Code::Cancelled,
            Self::SetUp(_) => Code::Memory,
            _ => Code::IndexUnusable,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Frame { .. } => Some(Remedy::IgnoreIndex),
            Self::Read { source, .. } => Remedy::of_io_error(source),
            Self::SetUp(_) => Some(Remedy::LessMemory),
            Self::Cancelled => None,
            _ => Some(Remedy::RemakeIndex),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Read { source, .. } => Errno::from_io_error(source),
            _ => None,
        }
    }
}
