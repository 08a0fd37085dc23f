#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! Everything that writes archives.
//!
//! ```text
//! archive ──(unpack, nothing created)──▶ tar stream ──frames──▶ workers: compress, decode ──▶ file ──▶ name
//!                                                     cut at    again, compare                 in order,
//!                                                     entries                                  durable
//! ```
//!
//! [`repack`] puts the tar stream of an archive into frames that begin with entries and declare their
//! sizes, so that any number of threads can decode it. The stream itself stays the same byte for byte,
//! and that is checked: every frame is decoded again and compared with its input before it is written,
//! and the file gets its name when the whole archive has proven to be good.
//!
//! [`create`] makes an archive of a tree that was unpacked, or of a state that a validator starts from.
//!
//! It leaves to others: reading, decoding and checking archives ([`Tap`](unsnap_pass::Tap)).

mod compress;
mod create;
mod error;
mod frames;
mod output;
mod pack;
mod repack;
mod side_car;

pub use compress::{CompressTimes, Compressor, Manner, Packed};
pub use create::{CreateReport, CreateRequest, create};
pub use error::PackError;
pub use frames::{Framer, RawFrame};
pub use pack::{PackOptions, PackReport};
pub use repack::{RepackReport, repack};
pub use side_car::SideCarFile;
