//! Verification of the accounts in a snapshot.
//!
//! There are three checks, each of which includes the one before:
//!
//! | check | type | verifies |
//! |---|---|---|
//! | structure | [`StorageScanner`] | every storage is a sequence of whole records |
//! | hash | [`LatticeHasher`](lattice::LatticeHasher) | the lattice hash of a set of accounts |
//! | accounts | [`AccountsCheck`](accounts::AccountsCheck) | the accounts have the expected hash |
//!
//! The last check covers the newest versions of all accounts of an archive, or of a full and an
//! incremental one together, and compares their hash with the one in the snapshot's name.
//!
//! All checks take a storage in pieces of any size as they pass through memory. They read nothing
//! from disk except records of accounts that occur more than once, and copy nothing except records
//! that straddle two pieces.
//!
//! Other code determines which files of an archive are storages, parses the archive's name and its
//! bank file (crate `layout`), and provides the means to read records a second time.
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
mod failure;
pub mod lattice;
mod structure;

pub use structure::{
    Record, RecordSink, StorageError, StorageProblem, StorageScanner, StorageSummary,
};
