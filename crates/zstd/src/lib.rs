#![deny(unsafe_code)]
//! A zstd decoder that decodes one frame with all cores.
//!
//! ```text
//!              ┌─▶ parse ─┐
//! read ─ chunks┼─▶ parse ─┼─ slots in stream order ─▶ execute ─▶ write
//!              └─▶ parse ─┘
//! ```
//!
//! The blocks of a frame refer to the bytes in front of them, so a frame looks serial. But most of the
//! work is to decode literals and sequences from their codes, and this depends on other blocks only by
//! tables and by three offsets:
//!
//! * **Stage 1**, [`Parser::parse`], decodes the codes of a chunk of blocks: literals into bytes,
//!   sequences into packed words. Tables that blocks in front of the chunk have described are carried
//!   along as copies of their descriptions. The three repeat offsets are unknown at the start of a
//!   chunk; they are moved around as symbols, and one sequence in a thousand still has a symbol in the
//!   end. All threads do this at the same time.
//! * **Stage 2**, [`Slot::execute`], copies literals and matches to their final place, in the order of
//!   the stream. It costs a fraction of stage 1. The window consists of two ranges, the memory being
//!   filled and the memory filled before; history is never copied.
//!
//! [`Decoder`] does all this for a reader and a writer. Those who have memory and threads of their own
//! use [`Slot`], [`Parser`] and [`Window`].
//!
//! The decoder accepts what the format permits (RFC 8878), and codes of 12 bits for literals, as
//! libzstd does. It refuses damage that libzstd notices only sometimes: streams of literals that do not
//! end where their symbols end, and matches that begin before the window. Dictionaries and formats older
//! than zstd 0.8 are not supported.

#![allow(clippy::inline_always)] // kernels are compiled for several processors

mod bits;
mod block;
mod decoder;
mod error;
mod execute;
mod frame;
mod fse;
mod huffman;
mod input;
#[allow(unsafe_code)]
mod kernels;
mod literals;
mod offsets;
mod output;
mod packed;
mod parse;
mod schedule;
mod section;
mod sequences;
mod slot;
mod sync;
mod tables;
mod weights;

pub use block::{BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BlockHeader, BlockKind};
pub use decoder::{Decoder, Summary};
pub use error::{Defect, Error, Place};
pub use execute::{Repeats, Window};
pub use frame::{FRAME_HEADER_BYTES_MAX, FrameHeader, FrameStart, frame_start};
pub use parse::Parser;
pub use slot::{BlockDefect, CHUNK_BYTES_MAX, FrameState, SLOT_BYTES_MAX, Slot};
