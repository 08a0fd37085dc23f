//! Errors of indexes, and of reading parts of an archive.

use std::io;

/// A defect of a side-car, a seek table or the frames they describe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The bytes are not a side-car.
    #[error("this is not an index: {0}")]
    NotAnIndex(&'static str),
    /// Written by a newer or older unsnap.
    #[error("this index has version {found}, but this program reads version {expected}")]
    Version {
        /// The version in the file.
        found: u32,
        /// The supported version.
        expected: u32,
    },
    /// The checksum does not match the content.
    #[error("the index is damaged: its checksum does not match its content")]
    Checksum,
    /// The index contradicts itself.
    #[error("the index is damaged: {0}")]
    Inconsistent(&'static str),
    /// The index exceeds the size limit.
    #[error("the index has {bytes} bytes, limit is {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The size limit.
        limit: u64,
    },
    /// It belongs to another archive, or the archive has changed since.
    #[error("the index does not belong to this archive: {0}")]
    Stale(&'static str),
    /// The archive ends in something that resembles a seek table but is not a valid one.
    #[error("the seek table at the archive's end is damaged: {0}")]
    SeekTable(&'static str),
    /// The frames cannot be located without decoding the archive.
    #[error("the frames cannot be located without decoding the archive: {0}")]
    NoTable(&'static str),
    /// A frame differs from the table, or is damaged.
    #[error("frame {frame} at byte {offset} of the archive: {reason}")]
    Frame {
        /// Its index in the table, from 0.
        frame: u64,
        /// Its offset in the archive.
        offset: u64,
        /// Its defect.
        reason: String,
    },
    /// A requested byte lies beyond the end of the decoded stream.
    #[error("decoded byte {offset} does not exist: the archive has only {raw_bytes}")]
    OutOfRange {
        /// The requested byte.
        offset: u64,
        /// Decoded bytes of the archive.
        raw_bytes: u64,
    },
    /// The archive cannot be read.
    #[error("cannot read byte {offset} of the archive: {source}")]
    Read {
        /// Offset of the read.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A thread could not be started, or memory for a decoder was not available.
    #[error("cannot start decoding: {0}")]
    SetUp(String),
    /// The caller requested cancellation.
    #[error("cancelled")]
    Cancelled,
}

impl IndexError {
    /// Returns whether the machine is at fault, rather than the index or the archive.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::SetUp(_) | Self::Cancelled)
    }
}
