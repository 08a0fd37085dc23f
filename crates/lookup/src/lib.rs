#![forbid(unsafe_code)]
//! Operations that only read archives: entries, accounts, facts, indexes, differences.
//!
//! | operation | reads |
//! |---|---|
//! | [`Reader::list`] | everything, or the index |
//! | [`Reader::prove`] | the first megabytes: up to the bank file |
//! | [`Reader::index`] | everything, once |
//! | [`Reader::extract`] | with an index the frames that hold the entries, otherwise everything up to the last one |
//! | [`Reader::accounts`] | everything; with an index and slots, the frames that hold their storages |
//! | [`Reader::inspect`] | headers, and the frames that hold the bank file |
//! | [`list_accounts`] | everything, twice if only the newest versions are wanted |
//! | [`diff`] | both archives, once each |
//!
//! [`Records`], [`superseded`] and [`AccountFilter`] serve other operations on accounts.
//!
//! All operations work on events of the tar walk, which come from a pass over the whole archive or
//! from the frames that an index names.

mod accounts;
mod diff;
mod entries;
mod error;
mod extract;
mod filter;
mod index;
mod inspect;
mod list;
mod listing;
mod output;
mod owners;
mod producer;
mod prove;
mod records;
mod select;
mod storages;
mod superseded;
mod versions;

pub use accounts::{Account, AccountsFound};
pub use diff::{
    AccountSide, Change, Counts, DiffOptions, DiffReport, Difference, StorageSide, diff,
};
pub use error::LookupError;
pub use extract::{ExtractTo, Extracted, Reads};
pub use filter::{AccountFilter, Memcmp};
pub use inspect::{
    BankInspection, FrameDamage, FrameFacts, Inspection, Sizes, StreamDamage, WhatToInspect,
};
pub use listing::{AccountsFormat, AccountsListed, AccountsQuery, list_accounts};
pub use owners::OwnerTotals;
pub use producer::Producer;
pub use records::{Batch, Records, Storage, StorageTap};
pub use select::Selection;
pub use storages::{Histogram, StorageFacts};
pub use superseded::{Superseded, superseded};
pub use versions::{MEMORY_BYTES, checked};

use unsnap_pass::{Archive, Archives, Handles, Options};

/// Reader of archives. Each operation confines the calling thread permanently before it reads the
/// first byte, then calls `confined`, as the place to start threads that must be confined as well.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The archives. Most operations read only the first one.
    pub archives: &'a Archives,
    /// Options for reading them.
    pub options: &'a Options,
    /// Handles for watching and stopping the operation.
    pub handles: &'a Handles,
}

impl Reader<'_> {
    /// Returns the first archive.
    fn first(&self) -> &[Archive] {
        &self.archives.as_slice()[..1]
    }

    /// Returns the first archive's name in messages.
    fn archive_name(&self) -> String {
        self.first()[0].display_name()
    }
}
