//! What is in the accounts of a snapshot.
//!
//! Two checks, each of which contains the one before:
//!
//! | check | type | says |
//! |---|---|---|
//! | structure | [`StorageScanner`] | every storage is a row of whole records |
//! | hash | [`LatticeHasher`](lattice::LatticeHasher) | what accounts add up to |
//!
//! All take a storage in pieces of any size, as they pass by in memory; nothing is read from disk
//! but records of accounts that occur twice, and nothing is copied but records that straddle two
//! pieces.
//!
//! What is left to others: which files of an archive are storages, what the archive's name and its
//! bank file say (crate `layout`), and how records are read a second time.

#![forbid(unsafe_code)]

pub mod lattice;
mod structure;

pub use structure::{
    Record, RecordSink, StorageError, StorageProblem, StorageScanner, StorageSummary,
};
