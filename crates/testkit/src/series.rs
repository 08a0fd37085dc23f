//! Successive snapshots of one invented ledger, in which everything follows from slots: whether a
//! snapshot is full, its storages, and every byte of them. So whoever finds a storage anywhere can
//! tell whether a byte of it was lost, without knowing what has happened before.
//!
//! | slots | hold |
//! |---|---|
//! | multiples of [`FULL_EVERY`] | full snapshots |
//! | other multiples of [`STEP`] above the first full one | incremental ones, upon the last full one |
//! | the last few slots up to a snapshot's | its storages |
//!
//! Hashes and capitalizations in names and bank files are the true ones.
//!
//! ```
//! use unsnap_testkit::series::{self, Snapshot};
//!
//! let full = Snapshot::full_above(0);
//! let incremental = Snapshot::incremental_above(full.slot());
//! assert_eq!(incremental.base(), Some(full.slot()));
//! for (slot, _, bytes) in incremental.storages() {
//!     assert_eq!(series::storage(slot), Some(bytes));
//! }
//! ```

use crate::bank::{self, BankSpec};
use crate::compress;
use crate::content::{self, Content, RECORD_BYTES_MIN};
use crate::lattice::{self, Totals};
use crate::random::Random;
use crate::tar::{account_path, snapshot_head};

/// Slots from one full snapshot to the next.
pub const FULL_EVERY: u64 = 100_000;

/// Slots from one snapshot to the next.
pub const STEP: u64 = 100;

/// Storages of a full snapshot.
const FULL_STORAGES: u64 = 12;

/// Storages of an incremental snapshot.
const INCREMENTAL_STORAGES: u64 = 4;

/// Most storages are small; the last one of a full snapshot is larger than what goes through the page
/// cache.
const SMALL_BYTES_MAX: u64 = 9000;
const LARGE_BYTES: u64 = 200_000;

/// A slot, the id of a storage there, and its bytes.
pub type Storage = (u64, u32, Vec<u8>);

/// A snapshot of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Snapshot {
    slot: u64,
}

impl Snapshot {
    /// Returns the snapshot of a slot, if there is one.
    pub fn at(slot: u64) -> Option<Self> {
        (slot >= FULL_EVERY && slot.is_multiple_of(STEP)).then_some(Self { slot })
    }

    /// Returns the first full snapshot above a slot.
    pub fn full_above(slot: u64) -> Self {
        Self { slot: (slot / FULL_EVERY + 1) * FULL_EVERY }
    }

    /// Returns the first incremental snapshot above a slot.
    pub fn incremental_above(slot: u64) -> Self {
        let slot = slot.max(FULL_EVERY);
        let next = (slot / STEP + 1) * STEP;
        Self { slot: if next.is_multiple_of(FULL_EVERY) { next + STEP } else { next } }
    }

    /// Returns its slot.
    pub fn slot(self) -> u64 {
        self.slot
    }

    /// Returns the slot of the full snapshot that an incremental one is based on.
    pub fn base(self) -> Option<u64> {
        let base = self.slot / FULL_EVERY * FULL_EVERY;
        (base != self.slot).then_some(base)
    }

    fn storage_count(self) -> u64 {
        if self.base().is_some() { INCREMENTAL_STORAGES } else { FULL_STORAGES }
    }

    /// Returns its own storages, the oldest first; without those of the base.
    pub fn storages(self) -> Vec<Storage> {
        let first = self.slot + 1 - self.storage_count();
        let storage = |(slot, id)| Some((slot, id, storage(slot)?));
        (first..=self.slot).zip(0..).filter_map(storage).collect()
    }

    /// Returns the name of its archive, and the archive as Agave 4.2 writes it.
    pub fn archive(self) -> (String, Vec<u8>) {
        let own = self.storages();
        let base = self.base().and_then(Self::at).map(Self::storages).unwrap_or_default();
        let all = base.iter().chain(&own).map(|(slot, _, bytes)| (*slot, &bytes[..]));
        let totals = totals(&all.collect::<Vec<_>>());
        let bank_file = bank_file(self.slot, &totals, &own);
        let head = snapshot_head(self.slot, &bank_file, &status_cache(self.slot));
        let tar = own
            .iter()
            .fold(head, |tar, (slot, id, bytes)| tar.account(&account_path(*slot, *id), bytes))
            .finish();
        let hash = bank::name_hash(&totals.lattice_hash);
        let name = match self.base() {
            None => format!("snapshot-{}-{hash}.tar.zst", self.slot),
            Some(base) => format!("incremental-snapshot-{base}-{}-{hash}.tar.zst", self.slot),
        };
        (name, compress::zstd_one_frame(&tar, 1, None, false, false))
    }
}

/// Returns the bytes of the storage of a slot, if a snapshot has one there.
pub fn storage(slot: u64) -> Option<Vec<u8>> {
    let snapshot = Snapshot::at(slot.next_multiple_of(STEP))?;
    let from_the_end = snapshot.slot - slot;
    if from_the_end >= snapshot.storage_count() {
        return None;
    }
    let size = if snapshot.base().is_none() && from_the_end == 0 {
        LARGE_BYTES
    } else {
        let mut random = Random::of(&[slot, u64::from_le_bytes(*b"size    ")]);
        RECORD_BYTES_MIN + random.below(SMALL_BYTES_MAX - RECORD_BYTES_MIN)
    };
    let mut bytes = vec![0; crate::length(size)];
    content::fill_segment(Content::Tokens, snapshot.slot, slot, 0, &mut bytes);
    Some(bytes)
}

/// Returns hash and capitalization of storages.
pub fn totals(storages: &[(u64, &[u8])]) -> Totals {
    lattice::totals(|see| storages.iter().for_each(|(slot, bytes)| see(*slot, bytes)))
}

/// Returns the bank file of a slot, be there a snapshot or not.
pub fn bank_file(slot: u64, totals: &Totals, storages: &[Storage]) -> Vec<u8> {
    let lengths = storages.iter().map(|(slot, id, bytes)| (*slot, *id, bytes.len() as u64));
    bank::bank_file(&BankSpec {
        slot,
        lattice_hash: &totals.lattice_hash,
        capitalization: totals.capitalization,
        storages: &lengths.collect::<Vec<_>>(),
        vote_accounts: 2,
        seed: slot,
    })
}

/// Returns the status cache of a slot.
pub fn status_cache(slot: u64) -> Vec<u8> {
    bank::status_cache(slot, 1, slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::reference_entries;

    #[test]
    fn slots_tell_what_a_snapshot_is() {
        assert_eq!(Snapshot::at(0), None);
        assert_eq!(Snapshot::at(FULL_EVERY + 1), None);
        assert_eq!(Snapshot::full_above(0).slot(), FULL_EVERY);
        assert_eq!(Snapshot::full_above(FULL_EVERY).slot(), 2 * FULL_EVERY);
        assert_eq!(Snapshot::incremental_above(0).slot(), FULL_EVERY + STEP);
        assert_eq!(Snapshot::incremental_above(2 * FULL_EVERY - 1).slot(), 2 * FULL_EVERY + STEP);
        assert_eq!(Snapshot::incremental_above(FULL_EVERY + 101).base(), Some(FULL_EVERY));
    }

    #[test]
    fn a_storage_tells_what_it_must_hold_and_no_two_hold_the_same() {
        let full = Snapshot::full_above(0);
        let next = Snapshot::incremental_above(full.slot());
        let storages = [full.storages(), next.storages()].concat();
        assert_eq!(storages.len() as u64, FULL_STORAGES + INCREMENTAL_STORAGES);
        for (slot, _, bytes) in &storages {
            assert_eq!(storage(*slot).as_ref(), Some(bytes));
            assert_eq!(storages.iter().filter(|(_, _, other)| other == bytes).count(), 1);
        }
        assert_eq!(storage(full.slot() - FULL_STORAGES), None);
        assert_eq!(storage(full.slot() + 1), None);
    }

    #[test]
    fn archives_hold_the_storages() {
        for snapshot in [Snapshot::full_above(0), Snapshot::incremental_above(FULL_EVERY)] {
            let (name, archive) = snapshot.archive();
            assert!(name.contains(&format!("-{}-", snapshot.slot())), "{name}");
            let entries = reference_entries(&archive).unwrap();
            for (slot, id, bytes) in snapshot.storages() {
                let path = account_path(slot, id);
                let entry = entries.iter().find(|entry| entry.path == path).unwrap();
                assert!(entry.bytes == bytes, "{path}");
            }
        }
    }
}
