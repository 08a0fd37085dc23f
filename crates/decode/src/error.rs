//! Why a compressed stream could not be decoded.

use std::fmt;

use unsnap_source::SourceError;

use crate::limits::Exceeded;

/// Where in an archive decoding stood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes of the archive before it.
    pub compressed_offset: u64,
    /// Number of the frame it is in, from 0.
    pub frame: u64,
    /// Decoded bytes before it (before its frame, where a limit stops frames decoded as a whole).
    pub raw_offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compressed_offset, frame, raw_offset } = self;
        write!(formatter, "byte {compressed_offset} (frame {frame}, decoded byte {raw_offset})")
    }
}

/// Decoding failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The first bytes are those of no archive we know.
    #[error("this is not a zstd, lz4 or tar archive: it begins with {found}")]
    UnknownFormat {
        /// The first bytes, in hexadecimal.
        found: String,
    },
    /// The archive has no bytes at all.
    #[error("the archive is empty")]
    Empty,
    /// The compressed data contradicts itself.
    #[error("the compressed data is damaged at {at}: {reason}")]
    Corrupt {
        /// Where.
        at: Position,
        /// What the decoder says.
        reason: String,
    },
    /// The archive ends where it must go on.
    #[error("the archive is cut: it ends at {at}, inside {inside}")]
    Truncated {
        /// Where it ends.
        at: Position,
        /// What was being read.
        inside: &'static str,
    },
    /// Bytes after a complete frame that are no frame.
    #[error("foreign bytes after the compressed data at {at}: {found}")]
    TrailingBytes {
        /// Where they begin.
        at: Position,
        /// The first of them, in hexadecimal.
        found: String,
    },
    /// The archive asks for more than the configuration allows.
    #[error("the archive exceeds a limit at {at}: {what} is {found}, allowed are {limit}")]
    Limit {
        /// Where.
        at: Position,
        /// Which limit, with the setting that raises it.
        what: &'static str,
        /// What the archive asks for.
        found: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A feature that no snapshot uses and we do not have.
    #[error("the compressed data at {at} needs {feature}, which is not supported")]
    Unsupported {
        /// Where.
        at: Position,
        /// What.
        feature: &'static str,
    },
    /// The archive could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The decoder itself could not be set up.
    #[error("cannot start decoding: {reason}")]
    SetUp {
        /// Why.
        reason: String,
    },
    /// The run is being given up; nobody waits for the segments any more.
    #[error("decoding was cancelled")]
    Cancelled,
}

impl DecodeError {
    /// Whether the archive is to blame, rather than the machine.
    pub fn is_bad_archive(&self) -> bool {
        !matches!(self, Self::Source(_) | Self::SetUp { .. } | Self::Cancelled)
    }

    pub(crate) fn limit(at: Position, exceeded: Exceeded) -> Self {
        let Exceeded { what, found, limit } = exceeded;
        Self::Limit { at, what, found, limit }
    }
}

/// The first bytes of something, for a message.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    shown.join(" ")
}
