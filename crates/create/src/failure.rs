//! Family, code and remedy of each error.

use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

use crate::CreateError;

impl Failure for CreateError {
    fn family(&self) -> Family {
        Family::Environment
    }

    fn code(&self) -> Code {
        match self {
            Self::File { errno, .. } | Self::Directory { errno, .. } => Code::of_errno(*errno),
            Self::DirectRefused { .. } => Code::DirectRefused,
            Self::Path(_) => Code::UnsafeEntry,
            Self::Engine(error) => error.code(),
            Self::Stopped { .. } => Code::System,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Engine(error) => error.remedy(),
            Self::DirectRefused { .. } => Some(Remedy::BufferedIo),
            _ => CreateError::errno(self).and_then(Remedy::of_errno),
        }
    }

    fn errno(&self) -> Option<Errno> {
        CreateError::errno(self)
    }
}
