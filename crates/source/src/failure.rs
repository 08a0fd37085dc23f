//! Family, code and remedy of each error.

use std::path::Path;

use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

use crate::SourceError;

impl Failure for SourceError {
    fn family(&self) -> Family {
        match self {
            Self::Alignment { .. } => Family::Request,
            Self::Remote(error) => error.family(),
            Self::Cancelled => Family::Cancelled,
            _ => Family::Environment,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Open { errno, .. } | Self::Read { errno, .. } => Code::of_errno(*errno),
            Self::Shrank { .. } | Self::Grew { .. } => Code::ArchiveChanging,
            Self::DirectRefused { .. } => Code::DirectRefused,
            Self::Alignment { .. } => Code::Request,
            Self::Engine(error) => error.code(),
            Self::Remote(error) => error.code(),
            Self::Cancelled => Code::Cancelled,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Engine(error) => error.remedy(),
            Self::Remote(error) => error.remedy(),
            Self::DirectRefused { .. } => Some(Remedy::BufferedIo),
            Self::Grew { .. } => Some(Remedy::WaitForDownload),
            _ => self.errno().and_then(Remedy::of_errno),
        }
    }

    fn archive(&self) -> Option<&str> {
        match self {
            Self::Remote(error) => error.archive(),
            _ => None,
        }
    }

    fn unreadable_file(&self) -> Option<&Path> {
        match self {
            Self::Open { path, .. }
            | Self::Read { path, .. }
            | Self::Shrank { path, .. }
            | Self::Grew { path, .. } => Some(path),
            _ => None,
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Open { errno, .. } | Self::Read { errno, .. } => Some(*errno),
            Self::Engine(error) => error.errno(),
            _ => None,
        }
    }
}
