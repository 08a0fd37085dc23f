#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! Writing of archives.
//!
//! ```text
//! archive ──(unpack, nothing created)──▶ tar stream ──frames──▶ workers: compress, decode ──▶ file ──▶ name
//!                                                     cut at    again, compare                 in order,
//!                                                     entries                                  durable
//! ```
//!
//! [`repack`] puts the tar stream of an archive into frames that begin with entries and declare
//! their sizes, so that any number of threads can decode it. The stream stays the same byte for
//! byte: every frame is decoded again and compared with its input before it is written. The file
//! gets its name when the whole archive has proven to be good.
//!
//! [`create`] makes an archive from an unpacked tree, or from a state from which a validator
//! starts.
//!
//! Reading, decoding and checking archives is left to other crates ([`Tap`](unsnap_pass::Tap)).

mod compress;
mod create;
mod error;
mod frames;
mod output;
mod pack;
mod repack;
mod side_car;

pub use create::{CreateReport, CreateRequest, create};
pub use error::PackError;
pub use pack::{PackOptions, PackReport};
pub use repack::{RepackReport, repack};
pub use side_car::SideCarFile;
