#![deny(unsafe_code)]
//! Decoding of compressed spans into segments.
//!
//! ```text
//!                      ┌─▶ worker ─┐
//! Source ─▶ planner ───┼─▶ worker ─┼─▶ segments in stream order ─▶ Decoded
//!            │  ▲      └─▶ worker ─┘          ▲
//!            │  └ frame and block headers     │
//!            └──── streaming engine ──────────┘
//! ```
//!
//! The planner walks frame headers and 3-byte block headers, so it knows where frames end without
//! decoding them. For each zstd frame it chooses an engine:
//!
//! * **frame-parallel**, for frames that declare their content size and fit. A worker decodes the
//!   frame directly into a segment of that size. The planner allocates the segment in stream order
//!   before it assigns the work, which is why waiting for memory can never deadlock.
//! * **frame-parallel, placed later**, for frames that do not declare their size but have block headers
//!   that bound it, and for small frames among them. The planner takes the results in stream order,
//!   which gives each its offset in the decoded stream.
//! * **streaming**, for all other frames, on the planner's own thread. libzstd's block-level
//!   interface decodes each block at its final place, with the segments themselves as the window.
//!   Frames whose window does not fit into a segment go through the ordinary streaming interface,
//!   which copies once more.
//! * **block-parallel**, with [`Decoder::Own`], instead of streaming in place. Workers decode the codes
//!   of chunks of blocks, and the planner copies the bytes together, in stream order and at their
//!   final place.
//!
//! lz4 has an engine of its own: the planner decodes blocks that refer to each other, and workers decode
//! independent ones. Plain tar is passed on as it was read. Every engine returns segments in stream
//! order, decodes into memory from the pool and enforces [`Limits`] on the archive.
//!
//! Two functions examine an archive without decoding all of it: [`survey`](survey()) estimates its
//! decoded size, and [`walk_frames`] finds its frames.
//!
//! This crate does not interpret the decoded bytes.

mod batch;
#[allow(unsafe_code)]
mod block;
mod chunk;
mod cursor;
mod error;
mod execution;
mod failure;
mod format;
mod frame;
mod in_order;
mod limits;
mod lz4;
mod output;
mod own;
mod parallel;
mod plain;
mod plan;
mod planner;
mod restart;
mod stream;
mod survey;
mod undeclared;
mod work;

pub use error::{DecodeError, Position};
pub use format::Format;
pub use limits::Limits;
pub use output::{DecodeSummary, Decoded, DecodedSegment, ThreadTimes};
pub use plan::{Decoder, MemoryPlan, Tuning};
pub use planner::{Job, start};
pub use restart::{FrameMark, FrameStarts};
pub use survey::{
    Basis, Effort, FrameContent, FrameExtent, Place, ReadAt, Reads, Samples, Survey, Untold,
    WalkEnd, survey, walk_frames,
};
pub use unsnap_zstd::{FRAME_HEADER_BYTES_MAX, FrameHeader, FrameStart, frame_start};

/// Frame parsing for the fuzz targets. Not part of the public interface.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::{frame::block_header, survey::fuzzing::declared_bytes};
}
