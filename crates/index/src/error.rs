//! Why an index is of no use, or a part of an archive could not be read.

use std::io;

/// What is wrong with a side-car, a seek table or what they lead to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// These are not the bytes of a side-car.
    #[error("this is no index: {0}")]
    NotAnIndex(&'static str),
    /// A newer or older unsnap has written it.
    #[error("this index is of version {found}, and this program reads version {expected}")]
    Version {
        /// The version in the file.
        found: u32,
        /// The version that is read.
        expected: u32,
    },
    /// Its checksum is not that of its bytes.
    #[error("the index is damaged: its checksum is not that of its content")]
    Checksum,
    /// It contradicts itself.
    #[error("the index is damaged: {0}")]
    Inconsistent(&'static str),
    /// It is larger than an index can be.
    #[error("the index has {bytes} bytes, allowed are {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The largest that is read.
        limit: u64,
    },
    /// It is the index of another archive, or the archive has changed since.
    #[error("the index is not that of this archive: {0}")]
    Stale(&'static str),
    /// The archive ends in something that looks like a seek table and is none.
    #[error("the seek table at the archive's end is damaged: {0}")]
    SeekTable(&'static str),
    /// Where the frames lie cannot be told without decoding the archive.
    #[error("where the frames lie cannot be told without decoding the archive: {0}")]
    NoTable(&'static str),
    /// A frame is not what the table says, or damaged.
    #[error("frame {frame} at byte {offset} of the archive: {reason}")]
    Frame {
        /// Its number in the table, from 0.
        frame: u64,
        /// Where it begins.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// What is wanted lies behind the end of the decoded stream.
    #[error("there is no decoded byte {offset}, the archive has {raw_bytes}")]
    OutOfRange {
        /// The byte that is wanted.
        offset: u64,
        /// Decoded bytes of the archive.
        raw_bytes: u64,
    },
    /// The archive cannot be read.
    #[error("cannot read byte {offset} of the archive: {source}")]
    Read {
        /// Where.
        offset: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// No thread could be started, or no memory had for a decoder.
    #[error("cannot start decoding: {0}")]
    SetUp(String),
    /// Somebody asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl IndexError {
    /// Whether the machine is to blame, rather than the index or the archive.
    pub fn is_environment(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::SetUp(_) | Self::Cancelled)
    }
}
