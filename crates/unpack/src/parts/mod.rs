//! Parts of archives: single entries, single accounts, facts; and the index that finds them.
//!
//! | what | reads |
//! |---|---|
//! | [`make`] | everything, once |
//! | [`extract`] | with an index the frames that hold the entries, otherwise everything up to the last |
//! | [`find_accounts`] | everything; with an index and slots, the frames that hold their storages |
//! | [`inspect`] | headers, and what holds the bank file |
//!
//! Members pass by as events of the tar walk, whether they come from a pass over everything or from
//! frames that were looked up: [`lookup::entries`] makes the same of the latter.

mod accounts;
mod extract;
mod index;
mod inspect;
mod lookup;
mod owners;
mod producer;
mod seek_table;
mod select;
mod side_car;
mod storages;
mod tree;

pub(crate) use accounts::find_accounts;
pub use accounts::{Account, AccountsFound};
pub use extract::{Extracted, Reads};
pub(crate) use extract::{To, extract};
pub(crate) use index::make;
pub(crate) use inspect::inspect;
pub use inspect::{BankInspection, FrameFacts, Inspection, Sizes, WhatToInspect};
pub use owners::OwnerTotals;
pub use producer::Producer;
pub(crate) use seek_table::{SeekTableFound, hold_to_seek_table, length_by_seek_table, seek_table};
pub use select::Selection;
pub(crate) use side_car::{Anywhere, SideCarFile, load};
pub use storages::{Histogram, StorageFacts};
