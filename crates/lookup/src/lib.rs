#![forbid(unsafe_code)]
//! Everything that only reads archives: entries, accounts, facts, indexes, differences.
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
//! Entries pass by as events of the tar walk, whether they come from a pass over the whole archive or
//! from frames that an index names.

mod accounts;
mod diff;
mod entries;
mod error;
mod extract;
mod index;
mod inspect;
mod list;
mod listing;
mod owners;
mod producer;
mod prove;
mod records;
mod select;
mod storages;
mod tree;
mod versions;

pub use accounts::{Account, AccountsFound};
pub use diff::{
    AccountSide, Change, Counts, DiffOptions, DiffReport, Difference, StorageSide, diff,
};
pub use error::LookupError;
pub use extract::{ExtractTo, Extracted, Reads};
pub use inspect::{BankInspection, FrameFacts, Inspection, Sizes, WhatToInspect};
pub use listing::{AccountsFormat, AccountsListed, AccountsQuery, list_accounts};
pub use owners::OwnerTotals;
pub use producer::Producer;
pub use select::Selection;
pub use storages::{Histogram, StorageFacts};
pub use versions::MEMORY_BYTES;

use unsnap_pass::{Archive, Handles, Options};

/// Reads archives. Each operation confines the calling thread for good, before it reads the first
/// byte; `confined` is called when that is done, as the place to start threads that are to be confined
/// as well.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The archives. Most operations read the first one only.
    pub archives: &'a [Archive],
    /// How they are read.
    pub options: &'a Options,
    /// To watch and stop it.
    pub handles: &'a Handles,
}

impl Reader<'_> {
    /// Returns the name of the first archive in messages.
    fn archive_name(&self) -> String {
        self.archives.first().map(Archive::display_name).unwrap_or_default()
    }
}
