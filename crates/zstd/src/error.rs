//! What can be wrong with a frame, and where.

use std::{fmt, io};

/// A position in a stream of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the frame, from 0. Skippable frames count.
    pub frame: u64,
    /// Number of the block in its frame, from 0.
    pub block: u64,
    /// Offset in the compressed stream in bytes: of a frame, a block, or what follows them.
    pub compressed_offset: u64,
    /// Offset in the decoded stream in bytes.
    pub raw_offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frame, block, compressed_offset, raw_offset } = self;
        write!(
            formatter,
            "byte {compressed_offset} (frame {frame}, block {block}, decoded byte {raw_offset})"
        )
    }
}

/// A frame cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The compressed data contradicts itself.
    #[error("the compressed data is damaged at {at}: {defect}")]
    Corrupt {
        /// Position of the block, or of the end of the frame.
        at: Place,
        /// What is wrong.
        defect: Defect,
    },
    /// The stream ends too early.
    #[error("the compressed data is cut: it ends at {at}, inside {inside}")]
    Truncated {
        /// Position at which the incomplete part begins.
        at: Place,
        /// Incomplete part of the format.
        inside: &'static str,
    },
    /// The bytes where a frame must begin are not a frame.
    #[error("no zstd frame begins at {at}")]
    NotAFrame {
        /// Position of these bytes.
        at: Place,
    },
    /// The frame needs something that this decoder does not have.
    #[error("the frame at {at} needs {feature}, which is not supported")]
    Unsupported {
        /// Position of the frame.
        at: Place,
        /// Name of the feature.
        feature: &'static str,
    },
    /// The frame's window is larger than permitted.
    #[error("the frame at {at} has a window of {window_bytes} bytes, limit is {limit}")]
    Window {
        /// Position of the frame.
        at: Place,
        /// Window of the frame in bytes.
        window_bytes: u64,
        /// Largest permitted window in bytes.
        limit: u64,
    },
    /// The compressed stream could not be read.
    #[error("cannot read the compressed data")]
    Read(#[source] io::Error),
    /// The decoded bytes could not be written.
    #[error("cannot write the decoded data")]
    Write(#[source] io::Error),
    /// A thread of the decoder could not be started, or ended without a result.
    #[error("a thread of the decoder failed")]
    Thread,
}

impl Error {
    /// Sets the decoded offset, which is known only when decoding arrives at the error.
    pub(crate) fn at_raw_offset(mut self, raw_offset: u64) -> Self {
        if let Self::Corrupt { at, .. }
        | Self::Truncated { at, .. }
        | Self::NotAFrame { at }
        | Self::Unsupported { at, .. }
        | Self::Window { at, .. } = &mut self
        {
            at.raw_offset = raw_offset;
        }
        self
    }
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// A reserved bit of the frame header is set.
    #[error("a reserved bit of the frame header is set")]
    FrameHeader,
    /// The block has the reserved type.
    #[error("the block has the reserved type")]
    BlockType,
    /// The block is larger than the frame permits.
    #[error("the block is larger than its frame permits")]
    BlockSize,
    /// The block ends inside one of its parts.
    #[error("the block ends inside its {0}")]
    BlockEnds(&'static str),
    /// The block has more literals than a block may have bytes, or too few for its four streams.
    #[error("the number of literals is impossible")]
    LiteralCount,
    /// The block reuses a Huffman table, and there is none.
    #[error("the literals reuse a Huffman table, and none is in force")]
    NoHuffmanTable,
    /// The description of a Huffman table is invalid.
    #[error("the description of the Huffman table is invalid")]
    HuffmanTable,
    /// A stream of literals does not end where its symbols end.
    #[error("a stream of literals does not hold exactly its symbols")]
    LiteralStream,
    /// The reserved bits of the table modes are set.
    #[error("a reserved bit of the modes of the tables is set")]
    TableModes,
    /// The description of a table of codes is invalid.
    #[error("the description of a table of codes is invalid")]
    CodeTable,
    /// The block reuses a table of codes, and there is none.
    #[error("the sequences reuse a table of codes, and none is in force")]
    NoCodeTable,
    /// The stream of sequences does not end where the last sequence ends.
    #[error("the stream of sequences does not hold exactly its sequences")]
    SequenceStream,
    /// Bytes follow the last part of the block.
    #[error("bytes follow the sequences of the block")]
    TrailingBytes,
    /// The sequences refer to more literals than the block has.
    #[error("the sequences refer to more literals than there are")]
    LiteralsExceeded,
    /// The offset of a match is zero.
    #[error("the offset of a match is zero")]
    OffsetZero,
    /// The offset of a match is larger than the window.
    #[error("a match begins before the window")]
    OffsetBeyondWindow,
    /// The offset of a match is larger than the number of bytes decoded so far.
    #[error("a match begins before the frame")]
    OffsetBeyondStart,
    /// The frame does not hold as many bytes as it declares.
    #[error("the frame declares {declared} bytes but holds {decoded}")]
    ContentSize {
        /// Declared size in bytes.
        declared: u64,
        /// Decoded bytes.
        decoded: u64,
    },
    /// The checksum of the frame does not match.
    #[error("the checksum of the frame does not match its content")]
    Checksum,
}
