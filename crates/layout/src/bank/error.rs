//! Errors of a bank file.

use crate::name::ArchiveHash;
use thiserror::Error;

/// The reason why a bank file is refused. `offset` is a position in the bank file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BankError {
    /// Fewer bytes arrived than the declared length.
    #[error("the bank file ends at byte {offset}, but its declared length is {expected} bytes")]
    Truncated {
        /// Bytes that arrived.
        offset: u64,
        /// Declared length of the file.
        expected: u64,
    },
    /// More bytes arrived than the declared length.
    #[error("the bank file continues past byte {offset}, its declared length")]
    TooLong {
        /// Declared length of the file.
        offset: u64,
    },
    /// The file is too short for its fields.
    #[error("the bank file has {found} bytes, but its {field} at byte {offset} need {expected}")]
    TooShort {
        /// Offset of the fields.
        offset: u64,
        /// The names of the fields.
        field: &'static str,
        /// The shortest file that can hold these fields.
        expected: u64,
        /// Length of the file.
        found: u64,
    },
    /// A list with more elements than the rest of the file can hold.
    #[error(
        "the bank file declares {found} {field} at byte {offset}, but has room for at most {limit}"
    )]
    TooMany {
        /// Offset of the list's length.
        offset: u64,
        /// The elements of the list.
        field: &'static str,
        /// The declared number of elements.
        found: u64,
        /// The number of elements that the file has room for.
        limit: u64,
    },
    /// A byte that must be 0 or 1 has another value.
    #[error("the bank file has {found} for {field} at byte {offset}, expected 0 or 1")]
    BadTag {
        /// Offset of the byte.
        offset: u64,
        /// The name of the field.
        field: &'static str,
        /// The value of the byte.
        found: u8,
    },
    /// Epochs without slots.
    #[error("the bank file declares epochs of 0 slots (byte {offset})")]
    NoSlotsInEpoch {
        /// Offset of the number.
        offset: u64,
    },
    /// A bank whose slot differs from the archive's name.
    #[error(
        "the bank file is of slot {found} (byte {offset}), but the archive's name says {expected}"
    )]
    WrongSlot {
        /// Offset of the slot.
        offset: u64,
        /// Slot in the name.
        expected: u64,
        /// Slot of the bank.
        found: u64,
    },
    /// A lattice hash that differs from the archive's name.
    #[error(
        "the hash of the accounts in the bank file (byte {offset}) is {found}, but the archive's \
         name says {expected}"
    )]
    WrongLatticeHash {
        /// Offset of the lattice hash.
        offset: u64,
        /// Hash in the name.
        expected: ArchiveHash,
        /// Hash of the lattice hash. If the file's tail fits several forms, this is the hash for
        /// the most likely one.
        found: ArchiveHash,
    },
    /// No lattice hash at the end, so the archive's name cannot be checked.
    #[error(
        "the bank file has no hash of the accounts at its end (byte {offset}), but the archive's \
         name says {expected}"
    )]
    NoLatticeHash {
        /// Length of the file.
        offset: u64,
        /// Hash in the name.
        expected: ArchiveHash,
    },
    /// An incremental archive that is not based on this bank.
    #[error(
        "{name} {}, but the bank file is of slot {found} (byte {offset})",
        base_text(*expected)
    )]
    WrongBase {
        /// Offset of the slot.
        offset: u64,
        /// The archive's name.
        name: String,
        /// The slot it is based on, or `None` for the name of a full archive.
        expected: Option<u64>,
        /// Slot of the bank.
        found: u64,
    },
}

fn base_text(base_slot: Option<u64>) -> String {
    match base_slot {
        Some(slot) => format!("is based on slot {slot}"),
        None => "is not an incremental archive".to_owned(),
    }
}
