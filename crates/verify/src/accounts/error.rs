//! Errors of a check of the accounts.

use std::{io, sync::Arc};

use thiserror::Error;

use super::look::LookError;
use crate::structure::StorageError;

/// The reason why the accounts could not be verified, or their defect.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// A storage that is not a sequence of records.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// An account with two versions in the same slot, neither of which is newer.
    #[error(
        "account {pubkey} occurs twice in slot {slot}: accounts/{slot}.{first_id} at offset \
         {first_offset} and accounts/{slot}.{second_id} at offset {second_offset}"
    )]
    Twice {
        /// The account's address in base58.
        pubkey: String,
        /// The slot.
        slot: u64,
        /// Number of the storage with the first version.
        first_id: u64,
        /// Offset in that storage.
        first_offset: u64,
        /// Number of the storage with the second version, often the same.
        second_id: u64,
        /// Offset in that storage.
        second_offset: u64,
    },
    /// The same defect, without the positions.
    #[error("account {pubkey} occurs twice in slot {slot}")]
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
    /// The total of all balances exceeds 64 bits.
    #[error("the accounts hold {found} lamports, which exceeds 64 bits")]
    TooManyLamports {
        /// The total.
        found: u128,
    },
    /// The accounts do not have the hash in the snapshot's name.
    #[error("the accounts hash to {found}, expected {expected}")]
    WrongHash {
        /// Checksum of the expected lattice hash in base58, as in archive names.
        expected: String,
        /// Checksum of the accounts' lattice hash.
        found: String,
    },
    /// The accounts' total balance differs from the bank file's.
    #[error("the accounts hold {found} lamports, expected {expected}")]
    WrongCapitalization {
        /// The total in the bank file.
        expected: u64,
        /// The total of the accounts' balances.
        found: u64,
    },
    /// Storages that began and did not end.
    #[error("{storages} storages were not verified to the end")]
    Unfinished {
        /// Number of these storages.
        storages: usize,
    },
    /// The entries do not fit in memory, and there is no file for them.
    #[error(
        "the index of the accounts does not fit into {memory_bytes_max} bytes of memory, and \
         there is no temporary file for the rest"
    )]
    NoSpillFile {
        /// [`AccountsConfig::memory_bytes_max`](super::AccountsConfig::memory_bytes_max).
        memory_bytes_max: usize,
    },
    /// The temporary file failed.
    #[error("could not {doing} the temporary file of the verification")]
    Spill {
        /// `read` or `write`.
        doing: &'static str,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// One account has more versions than can be sorted in memory.
    #[error(
        "{entries} entries must be sorted at once, but memory holds only {limit}: either one \
         account has very many versions, or the memory budget is too small"
    )]
    PartitionTooLarge {
        /// Entries of the largest partition.
        entries: usize,
        /// Number of entries that fit into a quarter of the memory.
        limit: usize,
    },
    /// Records could not be read a second time.
    #[error(transparent)]
    Look(Arc<LookError>),
    /// The check was cancelled.
    #[error("the verification was cancelled")]
    Stopped,
}

impl AccountsError {
    /// Returns the error of a check whose second look failed.
    pub(super) fn of_look(error: LookError) -> Self {
        Self::Look(Arc::new(error))
    }

    /// Returns whether the accounts themselves are bad, as opposed to the machine or its
    /// configuration.
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
