//! Errors of writing archives.

use std::path::PathBuf;

use unsnap_failure::{Code, Errno, Failure, Family, Remedy};
use unsnap_pass::PassError;
use unsnap_unpack::UnpackError;

/// Writing an archive failed. There is nothing under its final name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The archive that is read is bad, or cannot be read.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// The request makes no sense, there is no memory or no thread, or the caller asked to stop.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// zstd failed.
    #[error("cannot compress the stream at offset {raw_offset}: {reason}")]
    Compress {
        /// Offset of the frame in the tar stream.
        raw_offset: u64,
        /// libzstd's message.
        reason: &'static str,
    },
    /// The new archive did not pass the checks of its content. It got no name.
    #[error("the new archive is not what its name says, and was removed: {0}")]
    Refuted(#[source] UnpackError),
    /// A frame that was decoded again differs from its input.
    #[error(
        "the frame compressed at offset {raw_offset} of the stream decodes to other bytes: this \
         machine's memory or processor is faulty, or there is a bug"
    )]
    NotIdentical {
        /// Offset of the frame in the tar stream.
        raw_offset: u64,
    },
    /// A system call on the output, or on a file that goes into it, failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    File {
        /// The step, as a verb.
        step: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A file exists under the output's name.
    #[error("{} exists", path.display())]
    Exists {
        /// The output.
        path: PathBuf,
    },
    /// Another process is writing the same archive.
    #[error("another process is writing {}", path.display())]
    Locked {
        /// The output.
        path: PathBuf,
    },
    /// A file or directory changed while an archive was made of it.
    #[error("{} has changed while it was read: {what}", path.display())]
    Changed {
        /// The file or directory.
        path: PathBuf,
        /// How it changed.
        what: &'static str,
    },
    /// A directory cannot become an archive.
    #[error("{}: {reason}", path.display())]
    BadDirectory {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl PackError {
    /// The caller asked to stop.
    pub const CANCELLED: Self = Self::Pass(PassError::Cancelled);

    pub(crate) fn request(reason: impl Into<String>, remedy: Remedy) -> Self {
        PassError::request_with(reason, remedy).into()
    }
}

impl Failure for PackError {
    fn inner(&self) -> Option<&dyn Failure> {
        match self {
            Self::Unpack(error) | Self::Refuted(error) => Some(error),
            Self::Pass(error) => Some(error),
            _ => None,
        }
    }

    fn family(&self) -> Family {
        match self {
            Self::BadDirectory { .. } => Family::BadArchive,
            Self::Exists { .. } | Self::Locked { .. } => Family::NotClean,
            _ => self.inner().map_or(Family::Environment, Failure::family),
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::BadDirectory { .. } => Code::NoSnapshot,
            Self::Exists { .. } => Code::NotClean,
            Self::Locked { .. } => Code::Locked,
            Self::NotIdentical { .. } => Code::NotIdentical,
            Self::File { errno, .. } => Code::of_errno(*errno),
            Self::Changed { .. } => Code::ArchiveChanging,
            _ => self.inner().map_or(Code::System, Failure::code),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Exists { .. } => Some(Remedy::FreeName),
            Self::File { errno, .. } => Remedy::of_errno(*errno),
            Self::Refuted(_) => Some(Remedy::advice(
                "the directory lacks storages that its bank file counts, or they are damaged: give \
                 all directories of storages, or unpack the snapshot again",
            )),
            Self::Changed { .. } => Some(Remedy::advice(
                "stop the process that writes there, or make the archive of a copy",
            )),
            _ => self.inner().and_then(Failure::remedy),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::File { errno, .. } => Some(*errno),
            _ => self.inner().and_then(Failure::errno),
        }
    }
}
