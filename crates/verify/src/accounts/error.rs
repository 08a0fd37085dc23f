//! Everything that can go wrong with a check of the accounts.

use std::{io, sync::Arc};

use thiserror::Error;

use super::LookError;
use crate::structure::StorageError;

/// Why the accounts could not be verified, or what is wrong with them.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// A storage is not made of records.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An account has two versions of the same slot, so neither is the newest.
    #[error(
        "account {pubkey} is in slot {slot} twice: accounts/{slot}.{first_id} at offset \
         {first_offset} and accounts/{slot}.{second_id} at offset {second_offset}"
    )]
    Twice {
        /// The account's address in base58.
        pubkey: String,
        /// The slot.
        slot: u64,
        /// Number of the storage that has one of them.
        first_id: u64,
        /// Where in that storage.
        first_offset: u64,
        /// Number of the storage that has the other, often the same.
        second_id: u64,
        /// Where in that storage.
        second_offset: u64,
    },
    /// The same, where only that is known.
    #[error("account {pubkey} is in slot {slot} twice")]
    TwiceInSlot {
        /// The account's address in base58.
        pubkey: String,
        /// The slot.
        slot: u64,
    },
    /// More storages than two archives can hold.
    #[error("more than {limit} storages")]
    TooManyStorages {
        /// The limit.
        limit: u32,
    },
    /// Balances add up to more than 64 bits.
    #[error("the accounts hold {found} lamports, more than there can be")]
    TooManyLamports {
        /// Their sum.
        found: u128,
    },
    /// The accounts are not those that the snapshot is named after.
    #[error("the accounts' hash is {found}, expected {expected}")]
    WrongHash {
        /// Checksum of the expected lattice hash in base58, as in archive names.
        expected: String,
        /// Checksum of what the accounts add up to.
        found: String,
    },
    /// The accounts hold another number of lamports than the bank says.
    #[error("the accounts hold {found} lamports, expected {expected}")]
    WrongCapitalization {
        /// What the bank says.
        expected: u64,
        /// The sum of the accounts' balances.
        found: u64,
    },
    /// There are storages that began and did not end.
    #[error("{storages} storages have not been verified to their ends")]
    Unfinished {
        /// How many.
        storages: usize,
    },
    /// What has to be remembered does not fit in memory, and there is no file for it.
    #[error(
        "what has to be remembered of the accounts does not fit into {memory_bytes_max} bytes of \
         memory, and there is no file to put it in"
    )]
    NoSpillFile {
        /// [`AccountsConfig::memory_bytes_max`](super::AccountsConfig::memory_bytes_max).
        memory_bytes_max: usize,
    },
    /// The file for what does not fit in memory failed.
    #[error("could not {doing} the temporary file of the verification")]
    Spill {
        /// `read` or `write`.
        doing: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// One account occurs so often that its versions cannot be sorted in memory.
    #[error(
        "there are {entries} entries to be sorted at a time, but memory for {limit}; \
         either an account occurs in very many versions, or the memory is too little"
    )]
    PartitionTooLarge {
        /// Entries of the largest partition.
        entries: usize,
        /// What a quarter of the memory holds.
        limit: usize,
    },
    /// Records could not be read a second time.
    #[error(transparent)]
    Look(Arc<LookError>),
    /// The check was given up.
    #[error("the verification was given up")]
    Stopped,
}

impl AccountsError {
    /// Whether the accounts themselves are at fault, and not the machine or its configuration.
    pub fn is_bad_archive(&self) -> bool {
        match self {
            Self::Storage(_)
            | Self::Twice { .. }
            | Self::TwiceInSlot { .. }
            | Self::TooManyStorages { .. }
            | Self::TooManyLamports { .. }
            | Self::WrongHash { .. }
            | Self::WrongCapitalization { .. }
            | Self::Unfinished { .. } => true,
            Self::NoSpillFile { .. }
            | Self::Spill { .. }
            | Self::PartitionTooLarge { .. }
            | Self::Look(_)
            | Self::Stopped => false,
        }
    }
}
