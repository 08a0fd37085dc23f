//! The bank file of a snapshot: what it says of the bank, and whether it is that of the archive.
//!
//! `snapshots/<slot>/<slot>` holds everything of a bank but its accounts, in bincode with
//! fixed-width little-endian integers (`solana-runtime` 4.2.2, `serde_snapshot.rs`). On mainnet it
//! has some hundred megabytes, nearly all of them stakes. Two parts are of interest here:
//!
//! ```text
//!   head     blockhashes, ancestors, hashes, counters, clock, fees, epoch schedule
//!   ...      inflation, stakes, storages, epoch stakes: passed over
//!   tail     1 | accounts lattice hash 2048 | 1 | block id 32       Agave 4.1 on
//!            1 | accounts lattice hash 2048 | 0                     the same, without a block id
//!            1 | accounts lattice hash 2048                         until Agave 4.0
//! ```
//!
//! [`BankReader`] takes the file in pieces and gives [`BankFacts`]. The hash in an archive's name
//! is the BLAKE3 hash of the lattice hash, so [`BankFacts::prove`] can tell which of the three
//! tails there is without knowing what lies before it. What is proven then is that the lattice hash
//! is that of the name. That the accounts have this lattice hash, and that the other fields are
//! those of the bank, is for others to find out.

mod epoch;
mod error;
mod reader;

pub use epoch::EpochSchedule;
pub use error::BankError;
pub use reader::BankReader;

use crate::name::{ArchiveHash, ArchiveName};
use std::fmt;

/// Length of an accounts lattice hash: 1024 16-bit integers, little-endian.
pub const LATTICE_HASH_BYTES: usize = 2_048;

/// What a bank file says, none of it proven yet.
#[derive(Clone, PartialEq, Eq)]
pub struct BankFacts {
    /// The slot of the bank.
    pub slot: u64,
    /// The slot of its parent.
    pub parent_slot: u64,
    /// Hash of the bank.
    pub hash: BankHash,
    /// Hash of its parent.
    pub parent_hash: BankHash,
    /// Sum of the lamports of all accounts.
    pub capitalization: u64,
    /// Blocks since genesis: slots that were skipped do not count.
    pub block_height: u64,
    /// Transactions since genesis.
    pub transaction_count: u64,
    /// How slots are divided into epochs.
    pub epoch_schedule: EpochSchedule,
    /// Where in the file `slot` stands.
    slot_offset: u64,
    /// Where in the file `tail` begins.
    tail_offset: u64,
    /// The last bytes of the file, at most [`TAIL_BYTES_MAX`], none of which is of the head.
    tail: Vec<u8>,
}

/// What a bank file says that is that of an archive's name.
#[derive(Clone, PartialEq, Eq)]
pub struct BankProof {
    /// The lattice hash of all accounts: for an incremental archive, of those of its base too.
    pub lattice_hash: Box<[u8; LATTICE_HASH_BYTES]>,
    /// The id of the bank's last block, which is there from Agave 4.1 on.
    pub block_id: Option<[u8; 32]>,
}

/// The hash of a bank, written in base58.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BankHash(pub [u8; 32]);

impl BankFacts {
    /// The epoch of the bank's slot.
    pub fn epoch(&self) -> u64 {
        self.epoch_schedule.epoch(self.slot)
    }

    /// Compares slot and lattice hash with the name of the archive that the file is from.
    pub fn prove(&self, name: &ArchiveName) -> Result<BankProof, BankError> {
        if self.slot != name.slot() {
            return Err(BankError::WrongSlot {
                offset: self.slot_offset,
                expected: name.slot(),
                found: self.slot,
            });
        }
        let expected = name.hash();
        let mut first = None;
        for form in TailForm::ALL {
            let Some((offset, proof)) = form.read(self) else { continue };
            let hash = blake3::hash(&proof.lattice_hash[..]);
            let found = ArchiveHash::new(*hash.as_bytes());
            if found == expected {
                return Ok(proof);
            }
            first.get_or_insert((offset, found));
        }
        let end = self.tail_offset + self.tail.len() as u64;
        Err(match first {
            Some((offset, found)) => BankError::WrongLatticeHash { offset, expected, found },
            None => BankError::NoLatticeHash { offset: end, expected },
        })
    }

    /// The hash that an archive of this bank has in its name, by the first of the three tails that the
    /// file can be read to have. Nothing proves it: an archive that was made under this name is to be
    /// verified by its accounts. `None` if the file has no lattice hash.
    pub fn name_hash(&self) -> Option<ArchiveHash> {
        let proof = TailForm::ALL.into_iter().find_map(|form| form.read(self));
        let (_, proof) = proof?;
        Some(ArchiveHash::new(*blake3::hash(&proof.lattice_hash[..]).as_bytes()))
    }

    /// Checks that an incremental archive of this name builds upon this bank, which is that of a
    /// full one. A full archive builds upon nothing, so its name is refused.
    pub fn check_base_of(&self, incremental: &ArchiveName) -> Result<(), BankError> {
        match incremental.base_slot() {
            Some(base_slot) if base_slot == self.slot => Ok(()),
            expected => Err(BankError::WrongBase {
                offset: self.slot_offset,
                name: incremental.to_string(),
                expected,
                found: self.slot,
            }),
        }
    }
}

/// How a bank file can end.
#[derive(Clone, Copy)]
enum TailForm {
    BlockId,
    NoBlockId,
    LatticeHashOnly,
}

impl TailForm {
    /// The more a form asks for, the earlier.
    const ALL: [Self; 3] = [Self::BlockId, Self::NoBlockId, Self::LatticeHashOnly];

    /// What the file holds in this form, and the offset of the lattice hash. `None` if the file is
    /// too short for it, or says by its tags that it is of another one.
    fn read(self, facts: &BankFacts) -> Option<(u64, BankProof)> {
        let after_hash = match self {
            Self::BlockId => BLOCK_ID_BYTES,
            Self::NoBlockId => 1,
            Self::LatticeHashOnly => 0,
        };
        let start = facts.tail.len().checked_sub(1 + LATTICE_HASH_BYTES + after_hash)?;
        let (&tag, rest) = facts.tail[start..].split_first()?;
        let (lattice_hash, after) = rest.split_first_chunk::<LATTICE_HASH_BYTES>()?;
        let block_id = match (self, after) {
            (Self::BlockId, [PRESENT, id @ ..]) => Some(id.try_into().ok()?),
            (Self::NoBlockId, [ABSENT]) | (Self::LatticeHashOnly, []) => None,
            _ => return None,
        };
        let offset = facts.tail_offset + start as u64 + 1;
        let proof = BankProof { lattice_hash: Box::new(*lattice_hash), block_id };
        (tag == PRESENT).then_some((offset, proof))
    }
}

impl fmt::Display for BankHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bs58::encode(self.0).into_string())
    }
}

impl fmt::Debug for BankHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BankHash({self})")
    }
}

impl fmt::Debug for BankFacts {
    /// Without the bytes of the tail.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BankFacts")
            .field("slot", &self.slot)
            .field("parent_slot", &self.parent_slot)
            .field("hash", &self.hash)
            .field("parent_hash", &self.parent_hash)
            .field("capitalization", &self.capitalization)
            .field("block_height", &self.block_height)
            .field("transaction_count", &self.transaction_count)
            .field("epoch_schedule", &self.epoch_schedule)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BankProof {
    /// Without the lattice hash's 2048 bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BankProof").field("block_id", &self.block_id).finish_non_exhaustive()
    }
}

/// The tag of an `Option` that holds something, and of one that does not.
const PRESENT: u8 = 1;
const ABSENT: u8 = 0;
/// A block id with its tag.
const BLOCK_ID_BYTES: usize = 1 + 32;
/// The longest of the three tails.
const TAIL_BYTES_MAX: usize = 1 + LATTICE_HASH_BYTES + BLOCK_ID_BYTES;
