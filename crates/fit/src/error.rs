//! Errors of the check for free space.

use std::path::PathBuf;

use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

use crate::{Resource, Shortage};

/// The archive does not fit, or the free space is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// A destination's file system has too little space or too few inodes.
    #[error("{0}")]
    NoSpace(Box<Shortage>),
    /// A file system does not report its free space.
    #[error("cannot {step} {}: {errno}", path.display())]
    FileSystem {
        /// The failed step, as a verb phrase for the message.
        step: &'static str,
        /// A directory on it.
        path: PathBuf,
        /// Error number from the kernel.
        errno: Errno,
    },
}

impl Failure for FitError {
    fn family(&self) -> Family {
        Family::Environment
    }

    fn code(&self) -> Code {
        match self {
            Self::NoSpace(shortage) => match shortage.resource {
                Resource::Bytes => Code::NoSpace,
                Resource::Inodes => Code::NoInodes,
            },
            Self::FileSystem { errno, .. } => Code::of_errno(*errno),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::NoSpace(shortage) if shortage.fits_without_min_free() => {
                Some(Remedy::LowerMinFree { unpacking: shortage.unpacking })
            }
            Self::NoSpace(shortage) => Some(Remedy::MakeRoom {
                inodes: shortage.resource == Resource::Inodes,
                unpacking: shortage.unpacking,
            }),
            Self::FileSystem { errno, .. } => Remedy::of_errno(*errno),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::NoSpace(_) => None,
            Self::FileSystem { errno, .. } => Some(*errno),
        }
    }
}
