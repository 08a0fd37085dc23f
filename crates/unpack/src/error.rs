//! What went wrong, sorted by who is to blame.

use std::path::PathBuf;

use rustix::io::Errno;
use unsnap_create::CreateError;
use unsnap_decode::{DecodeError, Position};
use unsnap_layout::LayoutError;
use unsnap_ring::{EngineError, UringRefused};
use unsnap_source::SourceError;
use unsnap_tarstream::TarError;

/// Whose fault it is; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The archive is damaged, hostile or not what it should be. Exit code 1.
    BadArchive,
    /// The request makes no sense. Exit code 2.
    Request,
    /// The machine cannot do it: disk full, I/O error, a limit. Exit code 3.
    Environment,
    /// A destination is not clean, or another unsnap is at work on it. Exit code 4.
    NotClean,
    /// Somebody asked to stop.
    Cancelled,
}

/// Unpacking failed. Whatever the error, the destinations are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The compressed stream is bad.
    #[error("{archive}: {source}")]
    Decode {
        /// The archive.
        archive: String,
        /// What is wrong with it, and where.
        source: Box<DecodeError>,
    },
    /// The tar stream is bad.
    #[error("{archive}: {source} (decoded from compressed byte {} on, frame {})", at.compressed_offset, at.frame)]
    Tar {
        /// The archive.
        archive: String,
        /// What is wrong with it, with raw offset and entry.
        source: Box<TarError>,
        /// Where the segment that holds the bad place came from.
        at: Position,
    },
    /// An entry does not belong into such an archive.
    #[error("{archive}: {source}{}", decoded_from(*at))]
    Layout {
        /// The archive.
        archive: String,
        /// What is wrong with it, with header offset and entry.
        source: Box<LayoutError>,
        /// Where the segment that holds the entry's header came from; `None` at the archive's end.
        at: Option<Position>,
    },
    /// The archive cannot be read.
    #[error(transparent)]
    Source(SourceError),
    /// A file cannot be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// io_uring was demanded and is refused.
    #[error(transparent)]
    Uring(#[from] UringRefused),
    /// There is not enough memory.
    #[error("{reason}")]
    Memory {
        /// What was asked for and refused.
        reason: String,
    },
    /// The request makes no sense.
    #[error("{reason}")]
    Request {
        /// Why.
        reason: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// A destination exists and is not empty.
    #[error("{} {reason}", path.display())]
    NotClean {
        /// The destination.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Another process is unpacking to the same place.
    #[error("another process is unpacking to {}", path.display())]
    Locked {
        /// The destination.
        path: PathBuf,
    },
    /// Preparing, syncing or publishing a destination failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    Staging {
        /// What was being done.
        step: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Somebody asked to stop.
    #[error("cancelled")]
    Cancelled,
}

const INCOMPLETE: &str =
    "the archive is incomplete: compare its size with the original and fetch it again";

fn decoded_from(at: Option<Position>) -> String {
    at.map_or_else(String::new, |at| {
        format!(" (decoded from compressed byte {} on, frame {})", at.compressed_offset, at.frame)
    })
}

impl Error {
    /// Puts a decoder's error where it belongs.
    pub(crate) fn from_decode(archive: &str, error: DecodeError) -> Self {
        match error {
            DecodeError::Cancelled | DecodeError::Source(SourceError::Cancelled) => Self::Cancelled,
            DecodeError::Source(source) => Self::Source(source),
            DecodeError::SetUp { reason } => Self::Memory { reason },
            source => Self::Decode { archive: archive.to_owned(), source: Box::new(source) },
        }
    }

    /// Whose fault it is.
    pub fn family(&self) -> Family {
        match self {
            Self::Decode { .. } | Self::Tar { .. } | Self::Layout { .. } => Family::BadArchive,
            Self::Source(SourceError::Alignment { .. }) | Self::Request { .. } => Family::Request,
            Self::NotClean { .. } | Self::Locked { .. } => Family::NotClean,
            Self::Cancelled => Family::Cancelled,
            _ => Family::Environment,
        }
    }

    /// The remedy, where there is one.
    pub fn hint(&self) -> Option<String> {
        if self.errno() == Some(Errno::MFILE) {
            // Whatever it was that needed one descriptor more.
            return errno_hint(Errno::MFILE).map(str::to_owned);
        }
        let hint = match self {
            Self::Request { hint, .. } => return hint.clone(),
            Self::Decode { source, .. } => match **source {
                DecodeError::Truncated { .. } => INCOMPLETE,
                DecodeError::Limit { .. } => {
                    "if you trust the archive, raise the limit named in brackets (--config)"
                }
                DecodeError::UnknownFormat { .. } => {
                    "snapshots end in .tar.zst or .tar.lz4: is this the right file?"
                }
                _ => "the archive is damaged: fetch it again",
            },
            Self::Tar { source, .. } => match **source {
                TarError::TruncatedHeader { .. }
                | TarError::TruncatedExtension { .. }
                | TarError::TruncatedPayload { .. }
                | TarError::MissingEnd { .. } => INCOMPLETE,
                _ => return None,
            },
            Self::Layout { source, .. } => match **source {
                LayoutError::UnexpectedEntry { .. } => {
                    "if this tar is not a validator's snapshot, use --layout any"
                }
                LayoutError::TooManyEntries { .. } => {
                    "if you trust the archive, raise entries_max (--config)"
                }
                LayoutError::TotalTooLarge { .. } => {
                    "if you trust the archive, raise apparent_bytes_max and actual_bytes_max \
                     (--config)"
                }
                LayoutError::FileTooLarge { .. } => {
                    "if you trust the archive, raise storage_bytes_max, bank_file_bytes_max or \
                     status_cache_bytes_max (--config)"
                }
                _ => return None,
            },
            Self::NotClean { .. } => "give a directory that does not exist yet, or an empty one",
            Self::Locked { .. } => "wait for it, or give another directory",
            Self::Uring(_) => "use --io-engine auto or threads, which give the same bytes",
            Self::Create(CreateError::Engine(
                EngineError::Ring { .. } | EngineError::Refused(_),
            ))
            | Self::Source(SourceError::Engine(
                EngineError::Ring { .. } | EngineError::Refused(_),
            )) => "use --io-engine threads, which gives the same bytes",
            Self::Create(CreateError::DirectRefused { .. })
            | Self::Source(SourceError::DirectRefused { .. }) => {
                "use --use-direct-io=auto, which falls back to the page cache"
            }
            Self::Source(SourceError::Grew { .. }) => "wait until the download is complete",
            Self::Memory { .. } => "lower --memory-budget, or free memory",
            _ => return self.errno().and_then(errno_hint).map(str::to_owned),
        };
        Some(hint.to_owned())
    }

    /// The kernel's answer, where one is at the bottom of it.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Create(error) => error.errno(),
            Self::Source(SourceError::Engine(error)) => error.errno(),
            Self::Uring(refused) => Some(refused.errno),
            Self::Staging { errno, .. }
            | Self::Source(SourceError::Open { errno, .. } | SourceError::Read { errno, .. }) => {
                Some(*errno)
            }
            _ => None,
        }
    }
}

/// The remedy for an error of the operating system, where there is one.
pub fn io_hint(error: &std::io::Error) -> Option<&'static str> {
    Errno::from_io_error(error).and_then(errno_hint)
}

fn errno_hint(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::NOSPC => "free space (or inodes: see df -i) on the destination's file system",
        Errno::DQUOT => "the disk quota of this user is used up",
        Errno::MFILE => "raise the limit of open files (ulimit -n)",
        Errno::FBIG => "raise the limit of file sizes (ulimit -f)",
        Errno::ACCESS | Errno::PERM => "check the owner and permissions of the path",
        Errno::ROFS => "the file system is mounted read-only",
        Errno::IO => "the disk reports errors: see the kernel log (dmesg)",
        _ => return None,
    })
}
