//! What went wrong, beyond what can go wrong with reading an archive.

use std::path::PathBuf;

use rustix::io::Errno;
use unsnap_unpack::{Code, Family};

/// Why an archive could not be written. Nothing is under its final name then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The archive that is read is bad, or cannot be read.
    #[error(transparent)]
    Archive(#[from] unsnap_unpack::Error),
    /// zstd has failed.
    #[error("cannot compress the stream at offset {raw_offset}: {reason}")]
    Compress {
        /// Where the frame begins in the tar stream.
        raw_offset: u64,
        /// What libzstd said.
        reason: &'static str,
    },
    /// A frame was decoded again, and is not what it was made of.
    #[error(
        "what was compressed at offset {raw_offset} of the stream decodes to other bytes: this \
         machine's memory or processor is faulty, or there is a bug"
    )]
    NotIdentical {
        /// Where the frame begins in the tar stream.
        raw_offset: u64,
    },
    /// The output, or a file that goes into it, failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    File {
        /// What was being done.
        step: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// There is something at the output's name.
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
        /// Which.
        path: PathBuf,
        /// In which way.
        what: &'static str,
    },
    /// A directory is not what an archive can be made of.
    #[error("{}: {reason}", path.display())]
    BadDirectory {
        /// The directory, or a file in it.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The request makes no sense.
    #[error("{reason}")]
    Request {
        /// Why.
        reason: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// What was found could not be told: standard output, say.
    #[error("cannot write what was found")]
    Output(#[source] std::io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

impl PackError {
    /// Whose fault it is.
    pub fn family(&self) -> Family {
        match self {
            Self::Archive(error) => error.family(),
            Self::BadDirectory { .. } => Family::BadArchive,
            Self::Request { .. } => Family::Request,
            Self::Exists { .. } | Self::Locked { .. } => Family::NotClean,
            Self::Compress { .. }
            | Self::NotIdentical { .. }
            | Self::File { .. }
            | Self::Changed { .. }
            | Self::Output(_)
            | Self::Thread(_) => Family::Environment,
        }
    }

    /// What went wrong, in a word.
    pub fn code(&self) -> Code {
        match self {
            Self::Archive(error) => error.code(),
            Self::BadDirectory { .. } => Code::NoSnapshot,
            Self::Request { .. } => Code::Request,
            Self::Exists { .. } => Code::NotClean,
            Self::Locked { .. } => Code::Locked,
            Self::NotIdentical { .. } => Code::NotIdentical,
            Self::File { errno, .. } => Code::of_errno(*errno),
            Self::Changed { .. } => Code::ArchiveChanging,
            Self::Thread(error) | Self::Output(error) => Code::of_io_error(error),
            Self::Compress { .. } => Code::System,
        }
    }

    /// The remedy, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Archive(error) => error.hint(),
            Self::Request { hint, .. } => Some((*hint).to_owned()),
            Self::Exists { .. } => {
                Some("give another name, or --force to replace what is there".to_owned())
            }
            Self::File { errno, .. } => unsnap_unpack::io_hint(&(*errno).into()).map(str::to_owned),
            Self::Changed { .. } => {
                Some("end what writes there, or make the archive of a copy".to_owned())
            }
            _ => None,
        }
    }
}
