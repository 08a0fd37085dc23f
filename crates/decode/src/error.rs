//! Decoding errors, and the positions they refer to.

use std::fmt;

use unsnap_source::SourceError;

use crate::limits::Exceeded;

/// A position reached by decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Offset in the archive in bytes.
    pub compressed_offset: u64,
    /// Number of the current frame, from 0.
    pub frame: u64,
    /// Offset in the decoded stream in bytes. If a limit stops a frame that is decoded as a whole,
    /// the offset of that frame.
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
    /// The first bytes belong to no supported format.
    #[error("this is not a zstd, lz4 or tar archive: it begins with {found}")]
    UnknownFormat {
        /// First bytes, in hexadecimal.
        found: String,
    },
    /// The archive has no bytes.
    #[error("the archive is empty")]
    Empty,
    /// The compressed data contradicts itself.
    #[error("the compressed data is damaged at {at}: {reason}")]
    Corrupt {
        /// Position in the archive.
        at: Position,
        /// Message of the decoder.
        reason: String,
    },
    /// The archive ends too early.
    #[error("the archive is cut: it ends at {at}, inside {inside}")]
    Truncated {
        /// Position of its end.
        at: Position,
        /// Incomplete part of the format.
        inside: &'static str,
    },
    /// The bytes after a complete frame are not a frame.
    #[error("foreign bytes after the compressed data at {at}: {found}")]
    TrailingBytes {
        /// Position at which they begin.
        at: Position,
        /// First of these bytes, in hexadecimal.
        found: String,
    },
    /// The archive exceeds a configured limit.
    #[error("the archive exceeds a limit at {at}: {what} is {found}, limit is {limit}")]
    Limit {
        /// Position in the archive.
        at: Position,
        /// Limited quantity, with the setting that raises the limit.
        what: &'static str,
        /// Value found in the archive.
        found: u64,
        /// Largest allowed value.
        limit: u64,
    },
    /// A frame has a larger window than the memory has room for.
    #[error(
        "the zstd window at {at} takes {window_bytes} bytes, and the memory budget has room for \
         {limit}"
    )]
    WindowMemory {
        /// Position in the archive.
        at: Position,
        /// Window of the frame in bytes.
        window_bytes: u64,
        /// Largest window in bytes that the memory has room for.
        limit: u64,
        /// A budget in bytes that would be enough.
        budget: u64,
    },
    /// The archive needs a feature that no snapshot uses and that is not supported.
    #[error("the compressed data at {at} needs {feature}, which is not supported")]
    Unsupported {
        /// Position in the archive.
        at: Position,
        /// Name of the feature.
        feature: &'static str,
    },
    /// The archive could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The decoder itself could not be set up.
    #[error("cannot start decoding: {reason}")]
    SetUp {
        /// Reason.
        reason: String,
    },
    /// The run is being aborted; nobody waits for the segments any more.
    #[error("decoding was cancelled")]
    Cancelled,
}

impl DecodeError {
    /// Returns whether the archive rather than the machine is at fault.
    pub fn is_bad_archive(&self) -> bool {
        !matches!(self, Self::Source(_) | Self::SetUp { .. } | Self::Cancelled)
    }

    /// Sets the offset in the decoded stream, which was not known when the error was found.
    pub(crate) fn at_raw_offset(mut self, raw_offset: u64) -> Self {
        if let Self::Corrupt { at, .. }
        | Self::Truncated { at, .. }
        | Self::TrailingBytes { at, .. }
        | Self::Limit { at, .. }
        | Self::WindowMemory { at, .. }
        | Self::Unsupported { at, .. } = &mut self
        {
            at.raw_offset = raw_offset;
        }
        self
    }

    pub(crate) fn limit(at: Position, exceeded: Exceeded) -> Self {
        let Exceeded { what, found, limit } = exceeded;
        Self::Limit { at, what, found, limit }
    }
}

/// Returns the error for a failed allocation of a zstd context.
pub(crate) fn no_context() -> DecodeError {
    DecodeError::SetUp { reason: "not enough memory for a zstd context".to_owned() }
}

/// Returns the error for a thread that could not be started.
pub(crate) fn no_thread(error: &std::io::Error) -> DecodeError {
    DecodeError::SetUp { reason: format!("cannot start a thread: {error}") }
}

/// Formats up to 8 bytes for a message.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    shown.join(" ")
}
