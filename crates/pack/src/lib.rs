#![forbid(unsafe_code)]
//! The writing side: archives are made.
//!
//! ```text
//! archive ──(unpack, a dry run)──▶ tar stream ──frames──▶ workers: compress, decode ──▶ file ──▶ name
//!                                               cut at    again, compare                 in order,
//!                                               entries                                  durable
//! ```
//!
//! [`repack`] puts the tar stream of an archive into frames that begin with entries and declare their
//! sizes, so that any number of threads can decode it. The stream itself is the same byte for byte, and
//! that is not taken on trust: every frame is decoded again and compared with what it was made of before
//! it is written, and the file gets its name when the whole archive has proven to be good.
//!
//! What is left to others: reading, decoding and checking archives, which the crate `unpack` does as in
//! a dry run ([`Tap`](unsnap_unpack::Tap)).

mod compress;
mod error;
mod frames;
mod ordered;
mod output;
mod pack;
mod repack;
mod seek_table;

pub use compress::{CompressTimes, Compressor, Manner, Packed};
pub use error::PackError;
pub use frames::{Framer, RawFrame};
pub use pack::{PackOptions, PackReport};
pub use repack::{RepackReport, repack};
