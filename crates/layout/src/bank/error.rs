//! Everything that can be wrong with a bank file.

use crate::name::ArchiveHash;
use thiserror::Error;

/// Why a bank file is refused. `offset` is a position in the bank file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BankError {
    /// Fewer bytes have come than the file has.
    #[error("the bank file ends at byte {offset}, but it has {expected} bytes")]
    Truncated {
        /// Bytes that have come.
        offset: u64,
        /// Length of the file.
        expected: u64,
    },
    /// More bytes have come than the file has.
    #[error("the bank file goes on at byte {offset}, where it should end")]
    TooLong {
        /// Length of the file.
        offset: u64,
    },
    /// The file is too short for its fields.
    #[error("the bank file has {found} bytes, but its {field} at byte {offset} need {expected}")]
    TooShort {
        /// Where the fields begin.
        offset: u64,
        /// Which fields.
        field: &'static str,
        /// The least length of a file with these fields.
        expected: u64,
        /// Length of the file.
        found: u64,
    },
    /// A list of more elements than the rest of the file can hold.
    #[error("the bank file has {found} {field} at byte {offset}, but room for {limit} at most")]
    TooMany {
        /// Where the number stands.
        offset: u64,
        /// Elements of which list.
        field: &'static str,
        /// The number.
        found: u64,
        /// Elements that the file has room for.
        limit: u64,
    },
    /// A byte that must be 0 or 1 is not.
    #[error("the bank file has {found} for {field} at byte {offset}, expected 0 or 1")]
    BadTag {
        /// Where the byte is.
        offset: u64,
        /// Which field.
        field: &'static str,
        /// The byte.
        found: u8,
    },
    /// Epochs without slots.
    #[error("the bank file has epochs of 0 slots (byte {offset})")]
    NoSlotsInEpoch {
        /// Where the number stands.
        offset: u64,
    },
    /// A bank of another slot than the archive's name says.
    #[error(
        "the bank file is of slot {found} (byte {offset}), but the archive's name says {expected}"
    )]
    WrongSlot {
        /// Where the slot stands.
        offset: u64,
        /// Slot in the name.
        expected: u64,
        /// Slot of the bank.
        found: u64,
    },
    /// A lattice hash that is not that of the name.
    #[error(
        "the hash of the accounts in the bank file (byte {offset}) is {found}, but the archive's \
         name says {expected}"
    )]
    WrongLatticeHash {
        /// Where the lattice hash begins.
        offset: u64,
        /// Hash in the name.
        expected: ArchiveHash,
        /// Hash of the lattice hash. Where the file's end can be read in more than one way, that of
        /// the most likely one.
        found: ArchiveHash,
    },
    /// No lattice hash at the end, so nothing that the name could be compared with.
    #[error(
        "the bank file does not end (byte {offset}) in a hash of the accounts, and the archive's \
         name says {expected}"
    )]
    NoLatticeHash {
        /// Length of the file.
        offset: u64,
        /// Hash in the name.
        expected: ArchiveHash,
    },
    /// An incremental archive that does not build upon this bank.
    #[error(
        "{name} {}, but the bank file is of slot {found} (byte {offset})",
        builds_upon(*expected)
    )]
    WrongBase {
        /// Where the slot stands.
        offset: u64,
        /// The archive's name.
        name: String,
        /// The slot it builds upon; `None` for the name of a full archive.
        expected: Option<u64>,
        /// Slot of the bank.
        found: u64,
    },
}

fn builds_upon(base_slot: Option<u64>) -> String {
    match base_slot {
        Some(slot) => format!("builds upon slot {slot}"),
        None => "builds upon no other archive".to_owned(),
    }
}
