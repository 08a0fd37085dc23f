#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! The writing side: archives are made, and looked at as a whole.
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
//! [`create`] makes an archive of a tree that was unpacked, or of a state that a validator starts from.
//!
//! Beside that, what is asked of archives as a whole: [`list_accounts`] shows the records of all
//! storages, and [`diff`] what is different in two archives. Both go through an archive once more as a
//! dry run does, hand batches of records to threads, and remember versions of accounts in bounded
//! memory and a file, as the verification of accounts does.
//!
//! What is left to others: reading, decoding and checking archives, which the crate `unpack` does as in
//! a dry run ([`Tap`](unsnap_unpack::Tap)).

mod accounts;
mod compress;
mod create;
mod diff;
mod error;
mod frames;
mod ordered;
mod output;
mod pack;
mod records;
mod repack;
mod side_car;
mod versions;

pub use accounts::{AccountsFormat, AccountsListed, AccountsQuery, list_accounts};
pub use compress::{CompressTimes, Compressor, Manner, Packed};
pub use create::{CreateReport, CreateRequest, create};
pub use diff::{
    AccountSide, Change, Counts, DiffOptions, DiffReport, Difference, StorageSide, diff,
};
pub use error::PackError;
pub use frames::{Framer, RawFrame};
pub use pack::{PackOptions, PackReport};
pub use repack::{RepackReport, repack};
pub use side_car::SideCarFile;
pub use versions::MEMORY_BYTES;
