//! The bank file of a snapshot: its fields, and the proof that it belongs to the archive.
//!
//! `snapshots/<slot>/<slot>` holds a bank's whole state except its accounts, in bincode with
//! fixed-width little-endian integers (`solana-runtime` 4.2.2, `serde_snapshot.rs`). On mainnet it
//! has several hundred megabytes, nearly all of them stakes. Two parts are of interest here:
//!
//! ```text
//!   head     blockhashes, ancestors, hashes, counters, clock, fees, epoch schedule
//!   ...      inflation, stakes, storages, epoch stakes: skipped
//!   tail     1 | accounts lattice hash 2048 | 1 | block id 32       Agave 4.1 on
//!            1 | accounts lattice hash 2048 | 0                     the same, without a block id
//!            1 | accounts lattice hash 2048                         until Agave 4.0
//! ```
//!
//! [`BankReader`] takes the file in pieces and returns [`BankFacts`]. The hash in an archive's name
//! is the BLAKE3 hash of the lattice hash, so [`BankFacts::prove`] can tell which of the three
//! tails is present without parsing the bytes before it. This proves only that the lattice hash is
//! the one in the name. Other code must verify that the accounts have this lattice hash and that
//! the other fields are those of the bank.

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

/// Most hard forks that are kept: 16 KiB. A guess: a cluster has one for each of its restarts.
pub const HARD_FORKS_MAX: u64 = 1024;

/// Fields of a bank file, none of them proven yet.
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
    /// Total lamports of all accounts.
    pub capitalization: u64,
    /// Blocks since genesis. Skipped slots do not count.
    pub block_height: u64,
    /// Transactions since genesis.
    pub transaction_count: u64,
    /// Time of the cluster's genesis, in seconds since 1970.
    pub genesis_unix_s: i64,
    /// The cluster's hard forks, by slot; `None` if they are more than [`HARD_FORKS_MAX`].
    pub hard_forks: Option<Vec<HardFork>>,
    /// Division of slots into epochs.
    pub epoch_schedule: EpochSchedule,
    /// Offset of `slot` in the file.
    slot_offset: u64,
    /// Offset of `tail` in the file.
    tail_offset: u64,
    /// The last bytes of the file, at most [`TAIL_BYTES_MAX`], without any byte of the head.
    tail: Vec<u8>,
}

/// A hard fork that a bank knows of: a restart of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardFork {
    /// The first slot after it.
    pub slot: u64,
    /// Number of forks at that slot.
    pub count: u64,
}

/// Fields of a bank file that match the archive's name.
#[derive(Clone, PartialEq, Eq)]
pub struct BankProof {
    /// The lattice hash of all accounts. For an incremental archive this includes the accounts of
    /// its base.
    pub lattice_hash: Box<[u8; LATTICE_HASH_BYTES]>,
    /// The id of the bank's last block, present since Agave 4.1.
    pub block_id: Option<[u8; 32]>,
}

/// The hash of a bank, displayed in base58.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BankHash(pub [u8; 32]);

impl BankFacts {
    /// Returns the epoch of the bank's slot.
    pub fn epoch(&self) -> u64 {
        self.epoch_schedule.epoch(self.slot)
    }

    /// Checks slot and lattice hash against the name of the archive that holds the file.
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

    /// Returns the hash that belongs in the name of an archive of this bank, from the first of the
    /// three tails that fits the file. Nothing proves this hash: an archive made under such a name
    /// must be verified by its accounts. Returns `None` if the file has no lattice hash.
    pub fn name_hash(&self) -> Option<ArchiveHash> {
        let proof = TailForm::ALL.into_iter().find_map(|form| form.read(self));
        let (_, proof) = proof?;
        Some(ArchiveHash::new(*blake3::hash(&proof.lattice_hash[..]).as_bytes()))
    }

    /// Checks that an incremental archive of this name is based on this bank of a full archive. The
    /// name of a full archive is refused, because it has no base.
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

/// The possible forms of a bank file's tail.
#[derive(Clone, Copy)]
enum TailForm {
    BlockId,
    NoBlockId,
    LatticeHashOnly,
}

impl TailForm {
    /// All forms, most demanding first.
    const ALL: [Self; 3] = [Self::BlockId, Self::NoBlockId, Self::LatticeHashOnly];

    /// Parses the file's tail in this form. Returns the offset of the lattice hash and the proof,
    /// or `None` if the file is too short for the form or its tags contradict it.
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
            .field("genesis_unix_s", &self.genesis_unix_s)
            .field("hard_forks", &self.hard_forks)
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

/// The tag of an `Option` with a value, and of one without.
const PRESENT: u8 = 1;
const ABSENT: u8 = 0;
/// A block id with its tag.
const BLOCK_ID_BYTES: usize = 1 + 32;
/// Length of the longest of the three tails.
const TAIL_BYTES_MAX: usize = 1 + LATTICE_HASH_BYTES + BLOCK_ID_BYTES;
