#![deny(unsafe_code)]
//! Compressed spans become decoded segments.
//!
//! ```text
//!                      ┌─▶ worker ─┐
//! Source ─▶ planner ───┼─▶ worker ─┼─▶ segments in raw order ─▶ Decoded
//!            │  ▲      └─▶ worker ─┘          ▲
//!            │  └ frame and block headers     │
//!            └──── streaming engine ──────────┘
//! ```
//!
//! The planner walks frame headers and 3-byte block headers, so it knows where frames end without
//! decoding them. For each zstd frame it picks an engine:
//!
//! * **frame-parallel**: the frame declares its content size and fits: a worker decodes it straight
//!   into a segment of that size, borrowed in raw order before the work is handed out (which is
//!   why waiting for memory can never deadlock);
//! * **streaming**: everything else, on the planner's own thread. libzstd's block-level interface
//!   decodes each block at its final place, the segments themselves being the window; frames
//!   whose window is larger than a segment go through the ordinary streaming interface, which
//!   copies once more.
//!
//! lz4 and plain tar have streaming engines of their own. Whatever the engine, segments leave in
//! raw order, the memory in use is the pool's, and [`Limits`] hold for what an archive claims.
//!
//! Beside all that, [`survey`](survey()) looks at an archive beforehand and tells how much it will
//! decode to, and [`walk_frames`] where its frames lie.
//!
//! What this crate leaves to others: what the decoded bytes mean.

#[allow(unsafe_code)]
mod block;
mod cursor;
mod error;
mod failure;
mod format;
mod frame;
mod limits;
mod lz4;
mod output;
mod parallel;
mod plain;
mod plan;
mod planner;
mod restart;
mod stream;
mod survey;

pub use error::{DecodeError, Position};
pub use format::Format;
pub use frame::{FRAME_HEADER_BYTES_MAX, FrameHeader, FrameStart, FrameStartError, frame_start};
pub use limits::Limits;
pub use output::{DecodeSummary, Decoded, DecodedSegment, ThreadTimes};
pub use plan::{MemoryPlan, Tuning};
pub use planner::{Job, start};
pub use restart::{FrameMark, FrameStarts};
pub use survey::{
    Basis, Effort, FrameContent, FrameExtent, Place, ReadAt, Reads, Samples, Survey, Untold,
    WalkEnd, survey, walk_frames,
};

/// How frames are found, for the fuzz targets: no part of the interface.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::frame::{
        BLOCK_HEADER_BYTES, FRAME_HEADER_BYTES_MAX, FrameHeader, FrameStart, FrameStartError,
        block_header, frame_start,
    };
    pub use crate::survey::fuzzing::declared_bytes;
}
