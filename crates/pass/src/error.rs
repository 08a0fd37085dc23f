//! Errors of a pass over an archive.

use std::path::Path;

use unsnap_decode::{DecodeError, Position};
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};
use unsnap_index::IndexError;
use unsnap_layout::{BankError, LayoutError, PairError};
use unsnap_ring::UringRefused;
use unsnap_source::SourceError;
use unsnap_tarstream::TarError;
use unsnap_verify::StorageError;

/// Failure of a pass over an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The compressed stream is bad.
    #[error("{archive}: {source}")]
    Decode {
        /// The archive.
        archive: String,
        /// The damage and its position.
        source: Box<DecodeError>,
    },
    /// The tar stream is bad.
    #[error("{archive}: {source}{}", decoded_from(Some(*at)))]
    Tar {
        /// The archive.
        archive: String,
        /// The damage, with raw offset and entry.
        source: Box<TarError>,
        /// Origin of the segment that holds the bad bytes.
        at: Position,
    },
    /// An entry does not belong in an archive of this layout, or a required one is missing.
    #[error("{archive}: {source}{}", decoded_from(*at))]
    Layout {
        /// The archive.
        archive: String,
        /// The reason, with header offset and entry.
        source: Box<LayoutError>,
        /// Origin of the segment that holds the entry's header; `None` at the archive's end.
        at: Option<Position>,
    },
    /// The bank file contradicts the archive's name, or is damaged.
    #[error("{archive}: {source}{}", decoded_from(Some(*at)))]
    Bank {
        /// The archive.
        archive: String,
        /// The reason, with the offset in the bank file.
        source: Box<BankError>,
        /// Origin of the segment that showed it.
        at: Position,
    },
    /// A storage is not a sequence of whole account records.
    #[error("{archive}: {source}{}", decoded_from(Some(*at)))]
    Storage {
        /// The archive.
        archive: String,
        /// The storage, the damage, and its offset.
        source: Box<StorageError>,
        /// Origin of the segment that showed it.
        at: Position,
    },
    /// The archive's index cannot be used, or index and archive contradict each other.
    #[error("{archive}: {source}")]
    Index {
        /// The archive.
        archive: String,
        /// The reason.
        source: Box<IndexError>,
    },
    /// The archives do not belong together.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// The archive cannot be read.
    #[error(transparent)]
    Source(SourceError),
    /// The kernel refuses io_uring, which was required.
    #[error(transparent)]
    Uring(#[from] UringRefused),
    /// There is not enough memory.
    #[error("{reason}")]
    Memory {
        /// The refused allocation.
        reason: String,
    },
    /// The kernel refused to start a thread.
    #[error("cannot start a thread: {error}")]
    Thread {
        /// Error from the kernel.
        error: std::io::Error,
    },
    /// The request makes no sense.
    #[error("{reason}")]
    Request {
        /// Reason.
        reason: String,
        /// The remedy, if one is known.
        remedy: Option<Remedy>,
    },
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
}

fn decoded_from(at: Option<Position>) -> String {
    at.map_or_else(String::new, |at| {
        format!(" (decoded from compressed byte {} on, frame {})", at.compressed_offset, at.frame)
    })
}

impl PassError {
    /// Converts a decoder's error: damage, a failed read, too little memory, or a cancellation.
    pub fn decode(archive: &str, error: DecodeError) -> Self {
        match error {
            DecodeError::Cancelled => Self::Cancelled,
            DecodeError::Source(source) => Self::source(source),
            DecodeError::SetUp { reason } => Self::Memory { reason },
            source => Self::Decode { archive: archive.to_owned(), source: Box::new(source) },
        }
    }

    /// Converts a reader's error: a failed read or a cancellation.
    pub fn source(error: SourceError) -> Self {
        match error {
            SourceError::Cancelled => Self::Cancelled,
            error => Self::Source(error),
        }
    }

    /// Creates the error for a bad tar stream.
    pub fn tar(archive: &str, source: TarError, at: Position) -> Self {
        Self::Tar { archive: archive.to_owned(), source: Box::new(source), at }
    }

    /// Creates the error for a bad entry.
    pub fn layout(archive: &str, source: LayoutError, at: Option<Position>) -> Self {
        Self::Layout { archive: archive.to_owned(), source: Box::new(source), at }
    }

    /// Creates the error for a bad bank file.
    pub fn bank(archive: &str, source: BankError, at: Position) -> Self {
        Self::Bank { archive: archive.to_owned(), source: Box::new(source), at }
    }

    /// Creates the error for a bad storage.
    pub fn storage(archive: &str, source: StorageError, at: Position) -> Self {
        Self::Storage { archive: archive.to_owned(), source: Box::new(source), at }
    }

    /// Converts an error of an index: it is unusable, memory was refused, or a cancellation.
    pub fn index(archive: &str, source: IndexError) -> Self {
        match source {
            IndexError::Cancelled => Self::Cancelled,
            IndexError::SetUp(reason) => Self::Memory { reason },
            source => Self::Index { archive: archive.to_owned(), source: Box::new(source) },
        }
    }

    /// Creates the error for a request that makes no sense and whose remedy is obvious.
    pub fn request(reason: impl Into<String>) -> Self {
        Self::Request { reason: reason.into(), remedy: None }
    }

    /// Creates the error for a request that makes no sense, with a remedy.
    pub fn request_with(reason: impl Into<String>, remedy: Remedy) -> Self {
        Self::Request { reason: reason.into(), remedy: Some(remedy) }
    }

    /// Creates the error for a result whose directory does not exist.
    pub fn no_directory(path: &Path) -> Self {
        let reason = format!("directory {} does not exist", path.display());
        Self::request_with(reason, Remedy::make_directory(path))
    }

    /// Creates the error for a thread that the kernel refused to start.
    pub fn thread(error: std::io::Error) -> Self {
        Self::Thread { error }
    }
}

impl Failure for PassError {
    fn inner(&self) -> Option<&dyn Failure> {
        Some(match self {
            Self::Decode { source, .. } => &**source,
            Self::Tar { source, .. } => &**source,
            Self::Layout { source, .. } => &**source,
            Self::Bank { source, .. } => &**source,
            Self::Storage { source, .. } => &**source,
            Self::Index { source, .. } => &**source,
            Self::Pair(source) => source,
            Self::Source(source) => source,
            Self::Uring(source) => source,
            Self::Memory { .. } | Self::Thread { .. } | Self::Request { .. } | Self::Cancelled => {
                return None;
            }
        })
    }

    fn family(&self) -> Family {
        match self {
            Self::Request { .. } => Family::Request,
            Self::Cancelled => Family::Cancelled,
            _ => self.inner().map_or(Family::Environment, Failure::family),
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Memory { .. } => Code::Memory,
            Self::Thread { .. } => Code::Threads,
            Self::Request { .. } => Code::Request,
            Self::Cancelled => Code::Cancelled,
            _ => self.inner().map_or(Code::System, Failure::code),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        if self.errno() == Some(Errno::MFILE) {
            // The remedy does not depend on the operation that needed one more descriptor.
            return Remedy::of_errno(Errno::MFILE);
        }
        match self {
            Self::Memory { .. } => Some(Remedy::LessMemory),
            Self::Thread { .. } => Some(Remedy::MoreThreads),
            Self::Request { remedy, .. } => remedy.clone(),
            _ => self.inner().and_then(Failure::remedy),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Thread { error } => Errno::from_io_error(error),
            _ => self.inner().and_then(Failure::errno),
        }
    }

    fn archive(&self) -> Option<&str> {
        match self {
            Self::Decode { archive, .. }
            | Self::Tar { archive, .. }
            | Self::Layout { archive, .. }
            | Self::Bank { archive, .. }
            | Self::Storage { archive, .. }
            | Self::Index { archive, .. } => Some(archive),
            _ => self.inner().and_then(Failure::archive),
        }
    }
}
