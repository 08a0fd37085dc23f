//! What is in the accounts of a snapshot.
//!
//! Three checks, each of which contains the one before:
//!
//! | check | type | says |
//! |---|---|---|
//! | structure | [`StorageScanner`] | every storage is a row of whole records |
//! | hash | [`LatticeHasher`](lattice::LatticeHasher) | what accounts add up to |
//! | accounts | [`AccountsCheck`](accounts::AccountsCheck) | the newest versions of all accounts of an archive, or of a full and an incremental one, add up to what the snapshot is named after |
//!
//! All take a storage in pieces of any size, as they pass by in memory; nothing is read from disk
//! but records of accounts that occur twice, and nothing is copied but records that straddle two
//! pieces.
//!
//! What is left to others: which files of an archive are storages, what the archive's name and its
//! bank file say (crate `layout`), and how records are read a second time.
//!
//! ```
//! use unsnap_layout::append_vec::RecordHeader;
//! use unsnap_verify::accounts::{AccountsCheck, AccountsConfig, NoLook};
//!
//! let account = RecordHeader {
//!     data_len: 0,
//!     pubkey: [1; 32],
//!     lamports: 500,
//!     rent_epoch: 0,
//!     owner: [0; 32],
//!     executable: 0,
//! };
//! let storage = account.to_bytes().to_vec();
//!
//! let check = AccountsCheck::new(AccountsConfig::default())?;
//! let mut stream = check.stream();
//! stream.begin(17, 4, storage.len() as u64)?;
//! stream.piece(storage)?;
//! stream.end()?;
//! let summary = check.finish(&mut NoLook)?; // no account occurs twice
//! assert_eq!((summary.accounts, summary.capitalization), (1, 500));
//! assert!(summary.expect_checksum(&[0; 32]).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]

pub mod accounts;
pub mod lattice;
mod structure;

pub use structure::{
    Record, RecordSink, StorageError, StorageProblem, StorageScanner, StorageSummary,
};
