//! What went wrong, sorted by who is to blame.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use unsnap_create::CreateError;
use unsnap_decode::{DecodeError, Position};
use unsnap_index::IndexError;
use unsnap_layout::{BankError, LayoutError};
use unsnap_ring::{EngineError, UringRefused};
use unsnap_source::{Digest, SourceError};
use unsnap_tarstream::TarError;
use unsnap_verify::{StorageError, accounts::AccountsError};

use crate::{Resource, Shortage};

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

/// Unpacking failed. Whatever the error, the destinations are as they were; what is staged beside
/// them is kept only if it can be [resumed](crate::Config::resume).
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
    /// The bank file is not that of the archive's name.
    #[error("{archive}: {source} (decoded from compressed byte {} on, frame {})", at.compressed_offset, at.frame)]
    Bank {
        /// The archive.
        archive: String,
        /// What is wrong with it, with the offset in the bank file.
        source: Box<BankError>,
        /// Where the segment came from that brought it to light.
        at: Position,
    },
    /// A storage is no row of accounts.
    #[error("{archive}: {source} (decoded from compressed byte {} on, frame {})", at.compressed_offset, at.frame)]
    Storage {
        /// The archive.
        archive: String,
        /// Which storage, what is wrong with it, and where in it.
        source: Box<StorageError>,
        /// Where the segment came from that brought it to light.
        at: Position,
    },
    /// The accounts do not add up to what the archive says, or that could not be found out.
    #[error("{archive}: {source}")]
    Accounts {
        /// The archive.
        archive: String,
        /// What was found and expected, or why it could not be found out.
        source: Box<AccountsError>,
    },
    /// The archive's index is of no use, or it and the archive contradict one another.
    #[error("{archive}: {source}")]
    Index {
        /// The archive.
        archive: String,
        /// What is wrong.
        source: Box<IndexError>,
    },
    /// The archive does not hold what is wanted of it.
    #[error("{archive}: {what}")]
    NotFound {
        /// The archive.
        archive: String,
        /// What is missing.
        what: String,
    },
    /// Whoever takes what was asked for takes no more.
    #[error("cannot write the output: {error}")]
    Output {
        /// The answer.
        error: std::io::Error,
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
    /// The archive has another digest than it must have.
    #[error("{archive}: the digest is {found}, expected {expected}")]
    Digest {
        /// The archive.
        archive: String,
        /// What was found.
        found: Box<Digest>,
        /// What was asked for.
        expected: Box<Digest>,
    },
    /// What is left of an interrupted run is not of what is asked for.
    #[error("what is left of an interrupted run to {} cannot be gone on with: {reason}", path.display())]
    NotResumable {
        /// The destination.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// There is nothing to begin with.
    #[error("there is no full snapshot's archive in {}{}", full.display(), and_elsewhere(full, incremental))]
    NoArchive {
        /// Where full archives were looked for.
        full: PathBuf,
        /// Where incremental archives were looked for.
        incremental: PathBuf,
    },
    /// A validator is running on the ledger.
    #[error("a validator is running on {}{}", ledger.display(), and_who(holder.as_deref()))]
    Running {
        /// The ledger.
        ledger: PathBuf,
        /// Which process holds its lock, in words, as far as that can be known.
        holder: Option<String>,
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
    /// A directory cannot be searched for archives.
    #[error("cannot look for archives in {}: {errno}", path.display())]
    Search {
        /// The directory, or a file in it.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A destination's file system has not enough space or inodes.
    #[error("{0}")]
    NoSpace(Box<Shortage>),
    /// Somebody asked to stop.
    #[error("cancelled")]
    Cancelled,
}

const INCOMPLETE: &str =
    "the archive is incomplete: compare its size with the original and fetch it again";

fn and_who(holder: Option<&str>) -> String {
    holder.map_or_else(String::new, |holder| format!(" ({holder})"))
}

fn and_elsewhere(full: &Path, incremental: &Path) -> String {
    if full == incremental {
        return String::new();
    }
    format!(" (incremental ones, of {}, are of no use alone)", incremental.display())
}

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

    pub(crate) fn storage(archive: &str, source: StorageError, at: Position) -> Self {
        Self::Storage { archive: archive.to_owned(), source: Box::new(source), at }
    }

    pub(crate) fn accounts(archive: &str, source: AccountsError) -> Self {
        match source {
            // Given up by others, who say why.
            AccountsError::Stopped => Self::Cancelled,
            source => Self::Accounts { archive: archive.to_owned(), source: Box::new(source) },
        }
    }

    pub(crate) fn index(archive: &str, source: IndexError) -> Self {
        match source {
            IndexError::Cancelled => Self::Cancelled,
            IndexError::SetUp(reason) => Self::Memory { reason },
            source => Self::Index { archive: archive.to_owned(), source: Box::new(source) },
        }
    }

    /// The archive that it speaks of, as it was given, if it is about what is in an archive.
    pub fn archive(&self) -> Option<&str> {
        match self {
            Self::Decode { archive, .. }
            | Self::Tar { archive, .. }
            | Self::Layout { archive, .. }
            | Self::Bank { archive, .. }
            | Self::Storage { archive, .. }
            | Self::Accounts { archive, .. }
            | Self::Index { archive, .. }
            | Self::NotFound { archive, .. }
            | Self::Digest { archive, .. } => Some(archive),
            _ => None,
        }
    }

    /// Whose fault it is.
    pub fn family(&self) -> Family {
        match self {
            Self::Decode { .. }
            | Self::Tar { .. }
            | Self::Layout { .. }
            | Self::Bank { .. }
            | Self::Storage { .. }
            | Self::NotFound { .. }
            | Self::Digest { .. } => Family::BadArchive,
            Self::Index { source, .. } if !source.is_environment() => Family::BadArchive,
            Self::Accounts { source, .. } if source.is_bad_archive() => Family::BadArchive,
            Self::Source(SourceError::Alignment { .. }) | Self::Request { .. } => Family::Request,
            Self::NotClean { .. }
            | Self::Running { .. }
            | Self::Locked { .. }
            | Self::NotResumable { .. } => Family::NotClean,
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
            Self::Index { source, .. } => match **source {
                IndexError::Frame { .. } => {
                    "the archive is damaged, or its index is that of another: try --no-index"
                }
                IndexError::Read { .. } => return None,
                _ => "make the index anew (ledger-tool index), or do without it (--no-index)",
            },
            Self::Search { errno: Errno::NOENT | Errno::NOTDIR, .. } => {
                "give the directory that holds the archives: the validator's --snapshots, or its \
                 ledger"
            }
            Self::NotClean { .. } => "give a directory that does not exist yet, or an empty one",
            Self::Digest { .. } => "this is not the archive that the digest is of: fetch it again",
            Self::NotResumable { .. } => {
                "without --resume it is removed, and unpacking begins anew"
            }
            Self::Running { .. } => {
                "end it first (agave-validator exit), or prepare beside it (ledger-tool fastboot prepare --beside)"
            }
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
            Self::NoSpace(shortage) => match (shortage.resource, shortage.unpacking) {
                (Resource::Bytes, false) => {
                    "free space there, or unpack to a larger file system; --no-preflight tries it \
                     all the same"
                }
                (Resource::Inodes, false) => {
                    "remove files there, or unpack to a file system made with more inodes (see df \
                     -i); --no-preflight tries it all the same"
                }
                (Resource::Bytes, true) => {
                    "free space there and unpack again; --no-preflight goes on until nothing is left"
                }
                (Resource::Inodes, true) => {
                    "remove files there and unpack again (see df -i); --no-preflight goes on until \
                     nothing is left"
                }
            },
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
            | Self::Search { errno, .. }
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
