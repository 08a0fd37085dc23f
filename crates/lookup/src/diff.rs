//! Comparison of two archives.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    num::NonZeroUsize,
};

use serde::{Serialize, Serializer};
use twox_hash::xxhash3_64;
use unsnap_pass::{Archive, Archives, Handles, Options};
use unsnap_unpack::Report;

use crate::{
    LookupError,
    records::{Storage, StorageTap},
    versions::{Remember, Version, Versions, newest},
};

/// Options for comparing archives.
#[derive(Clone, Copy, Debug)]
pub struct DiffOptions {
    /// Memory for remembered accounts in bytes; the rest goes to an unnamed temporary file.
    pub memory_bytes_max: usize,
    /// Number of threads that digest accounts.
    pub threads: NonZeroUsize,
}

/// Kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Number of items only in the second archive.
    Added,
    /// Number of items only in the first archive.
    Removed,
    /// In both archives, with different content.
    Changed,
}

/// A difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Difference {
    /// The storage of a slot. Its number is not compared, since each node numbers storages by
    /// itself.
    Storage {
        /// Kind of the difference.
        change: Change,
        /// The slot.
        slot: u64,
        /// Its side in the first archive.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<StorageSide>,
        /// Its side in the second archive.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<StorageSide>,
    },
    /// The newest version of an account. An account exists if it has lamports. Accounts are equal
    /// if lamports, owner, executable flag and data are, as for a validator's hash of them.
    Account {
        /// Kind of the difference.
        change: Change,
        /// Its address.
        #[serde(serialize_with = "base58")]
        pubkey: [u8; 32],
        /// Its side in the first archive.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<AccountSide>,
        /// Its side in the second archive.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<AccountSide>,
    },
}

/// A storage in one of the archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StorageSide {
    /// Number in its name.
    pub id: u32,
    /// Its size.
    pub bytes: u64,
    /// Keyed digest, the same for equal content.
    #[serde(skip)]
    digest: u64,
}

/// The newest version of an account in one of the archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AccountSide {
    /// Slot of its storage.
    pub slot: u64,
    /// Balance in lamports.
    pub lamports: u64,
    /// Size of its data in bytes.
    pub data_bytes: u32,
}

/// Numbers of equal and different items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Number of items only in the second archive.
    pub added: u64,
    /// Number of items only in the first archive.
    pub removed: u64,
    /// Number of items in both archives with different content.
    pub changed: u64,
    /// Number of items in both archives with equal content.
    pub unchanged: u64,
}

/// Report of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct DiffReport {
    /// The first archive, as the caller named it.
    pub before: String,
    /// The second archive, as the caller named it.
    pub after: String,
    /// The incremental archive of the first, as the caller named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_incremental: Option<String>,
    /// The incremental archive of the second, as the caller named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_incremental: Option<String>,
    /// Slot of the first archive, or of its incremental one.
    pub before_slot: Option<u64>,
    /// Slot of the second archive, or of its incremental one.
    pub after_slot: Option<u64>,
    /// Storages, by slot.
    pub storages: Counts,
    /// Accounts, by address.
    pub accounts: Counts,
}

impl Counts {
    /// Returns whether there are no differences.
    pub fn is_same(&self) -> bool {
        self.added + self.removed + self.changed == 0
    }

    /// Counts an item and returns the kind of its difference.
    fn count<T>(
        &mut self,
        before: Option<&T>,
        after: Option<&T>,
        same: impl FnOnce(&T, &T) -> bool,
    ) -> Option<Change> {
        let (counter, change) = match (before, after) {
            (None, None) => return None,
            (None, Some(_)) => (&mut self.added, Some(Change::Added)),
            (Some(_), None) => (&mut self.removed, Some(Change::Removed)),
            (Some(one), Some(other)) if same(one, other) => (&mut self.unchanged, None),
            (Some(_), Some(_)) => (&mut self.changed, Some(Change::Changed)),
        };
        *counter += 1;
        change
    }
}

/// Compares two snapshots and shows each difference to `see`: storages in the order of their slots,
/// then accounts in the order of their addresses. The archives are read one after the other; nothing is
/// shown before all of them have proven to be whole.
pub fn diff(
    before: &Archives,
    after: &Archives,
    how: DiffOptions,
    options: &Options,
    handles: &Handles,
    mut see: impl FnMut(&Difference) -> std::io::Result<()>,
) -> Result<DiffReport, LookupError> {
    // A new key in each run, so that no archives can be made whose differences are overlooked.
    let seed = RandomState::new().hash_one(0);
    let mut versions = Versions::new(how.memory_bytes_max);
    let mut read = |side, archives: &Archives| -> Result<(Vec<Report>, Storages), LookupError> {
        let mut storages = Storages::new(seed);
        let (seed, threads) = (Some(seed), how.threads);
        let mut reports = Vec::new();
        for archive in archives.as_slice() {
            let remember = Remember { archive, options, side, seed, threads, handles };
            reports.push(remember.all(&mut versions, &mut storages)?);
        }
        Ok((reports, storages))
    };
    let (before_reports, before_storages) = read(0, before)?;
    let (after_reports, after_storages) = read(1, after)?;
    let name = |reports: &[Report], at: usize| reports.get(at).map(|one| one.archive.clone());
    let slot = |reports: &[Report]| reports.last().and_then(|one| one.slot);
    let mut report = DiffReport {
        before: name(&before_reports, 0).unwrap_or_default(),
        after: name(&after_reports, 0).unwrap_or_default(),
        before_incremental: name(&before_reports, 1),
        after_incremental: name(&after_reports, 1),
        before_slot: slot(&before_reports),
        after_slot: slot(&after_reports),
        storages: Counts::default(),
        accounts: Counts::default(),
    };
    let last_name = |archives: &Archives| archives.as_slice().last().map(Archive::display_name);
    let [before, after] = [before, after].map(|side| last_name(side).unwrap_or_default());
    let mut pairs: BTreeMap<u64, [Option<StorageSide>; 2]> = BTreeMap::new();
    for (side, storages) in [before_storages, after_storages].into_iter().enumerate() {
        for (slot, storage) in storages.by_slot {
            match pairs.entry(slot) {
                Entry::Vacant(entry) => entry.insert([None; 2])[side] = Some(storage),
                Entry::Occupied(mut entry) => entry.get_mut()[side] = Some(storage),
            }
        }
    }
    for (slot, [before, after]) in pairs {
        let same = |one: &StorageSide, other: &StorageSide| {
            (one.bytes, one.digest) == (other.bytes, other.digest)
        };
        if let Some(change) = report.storages.count(before.as_ref(), after.as_ref(), same) {
            let difference = Difference::Storage { change, slot, before, after };
            see(&difference).map_err(|error| LookupError::Output { error })?;
        }
    }
    versions.each(&after, |account| -> Result<(), LookupError> {
        let (old, new) = account.split_at(account.partition_point(|version| version.side == 0));
        let exists = |version: &&Version| version.lamports > 0;
        let old = newest(&before, old)?.filter(exists);
        let new = newest(&after, new)?.filter(exists);
        let same = |one: &Version, other: &Version| one.digest == other.digest;
        if let Some(change) = report.accounts.count(old, new, same) {
            let side = |version: &Version| AccountSide {
                slot: version.slot,
                lamports: version.lamports,
                data_bytes: version.data_len,
            };
            let (before, after) = (old.map(side), new.map(side));
            let pubkey = account[0].pubkey;
            let difference = Difference::Account { change, pubkey, before, after };
            see(&difference).map_err(|error| LookupError::Output { error })?;
        }
        Ok(())
    })?;
    Ok(report)
}

/// Digests of the storages of one archive. 32 bytes for each.
struct Storages {
    seed: u64,
    by_slot: Vec<(u64, StorageSide)>,
    hasher: xxhash3_64::Hasher,
}

impl Storages {
    fn new(seed: u64) -> Self {
        let hasher = xxhash3_64::Hasher::with_seed(seed);
        Self { seed, by_slot: Vec::new(), hasher }
    }
}

impl StorageTap for Storages {
    fn piece(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    fn end(&mut self, storage: Storage) {
        let next = xxhash3_64::Hasher::with_seed(self.seed);
        let digest = std::mem::replace(&mut self.hasher, next).finish();
        let side = StorageSide { id: storage.id, bytes: storage.size, digest };
        self.by_slot.push((storage.slot, side));
    }
}

fn base58<S: Serializer>(pubkey: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&bs58::encode(pubkey).into_string())
}
