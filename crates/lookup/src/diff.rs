//! What is different between two archives.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    num::NonZeroUsize,
};

use serde::{Serialize, Serializer};
use twox_hash::xxhash3_64;
use unsnap_pass::{Archive, Handles, Options};
use unsnap_unpack::Report;

use crate::{
    LookupError,
    records::Storage,
    versions::{Remember, StorageTap, Version, Versions, newest},
};

/// How two archives are compared.
#[derive(Clone, Copy, Debug)]
pub struct DiffOptions {
    /// For what is remembered of accounts; what is more goes to a file without a name.
    pub memory_bytes_max: usize,
    /// Threads that digest accounts.
    pub threads: NonZeroUsize,
}

/// In which way something is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is only in the second archive.
    Added,
    /// It is only in the first archive.
    Removed,
    /// It is in both, and not the same.
    Changed,
}

/// Something that is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Difference {
    /// The storage of a slot; its number is not compared, since each node counts for itself.
    Storage {
        /// In which way.
        change: Change,
        /// The slot.
        slot: u64,
        /// In the first archive.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<StorageSide>,
        /// In the second archive.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<StorageSide>,
    },
    /// The newest version of an account. It exists if it has lamports; it is the same if lamports,
    /// owner, executable flag and data are, as for a validator's hash of it.
    Account {
        /// In which way.
        change: Change,
        /// Its address.
        #[serde(serialize_with = "base58")]
        pubkey: [u8; 32],
        /// In the first archive.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<AccountSide>,
        /// In the second archive.
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
    /// Keyed, and the same for equal content.
    #[serde(skip)]
    digest: u64,
}

/// The newest version of an account in one of the archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AccountSide {
    /// Slot of the storage that it is in.
    pub slot: u64,
    /// Its balance.
    pub lamports: u64,
    /// Bytes of data.
    pub data_bytes: u32,
}

/// How many of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Only in the second archive.
    pub added: u64,
    /// Only in the first archive.
    pub removed: u64,
    /// In both, and not the same.
    pub changed: u64,
    /// In both, and the same.
    pub unchanged: u64,
}

/// What was compared, and how much of it is different.
#[derive(Clone, Debug, Serialize)]
pub struct DiffReport {
    /// The first archive, as it was given.
    pub before: String,
    /// The second archive, as it was given.
    pub after: String,
    /// Slot of the first.
    pub before_slot: Option<u64>,
    /// Slot of the second.
    pub after_slot: Option<u64>,
    /// Storages, by slot.
    pub storages: Counts,
    /// Accounts, by address.
    pub accounts: Counts,
}

impl Counts {
    /// Whether nothing is different.
    pub fn is_same(&self) -> bool {
        self.added + self.removed + self.changed == 0
    }

    /// Counts one, and says in which way it is different.
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

/// Compares two archives, one after the other, and shows `see` what is different: storages in the order
/// of their slots, then accounts in the order of their addresses. Nothing is shown before both archives
/// have proven to be whole.
pub fn diff(
    before: &Archive,
    after: &Archive,
    how: DiffOptions,
    options: &Options,
    handles: &Handles,
    mut see: impl FnMut(&Difference) -> std::io::Result<()>,
) -> Result<DiffReport, LookupError> {
    // Drawn anew in each run, so that no archives can be made whose differences are overlooked.
    let seed = RandomState::new().hash_one(0);
    let mut versions = Versions::new(how.memory_bytes_max);
    let mut read = |side, archive: &Archive| -> Result<(Report, Storages), LookupError> {
        let mut storages = Storages::new(seed);
        let (seed, threads) = (Some(seed), how.threads);
        let remember = Remember { archive, options, side, seed, threads, handles };
        let report = remember.all(&mut versions, &mut storages)?;
        Ok((report, storages))
    };
    let (before_report, before_storages) = read(0, before)?;
    let (after_report, after_storages) = read(1, after)?;
    let mut report = DiffReport {
        before: before_report.archive,
        after: after_report.archive,
        before_slot: before_report.slot,
        after_slot: after_report.slot,
        storages: Counts::default(),
        accounts: Counts::default(),
    };
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
    versions.each(&after.display_name(), |account| -> Result<(), LookupError> {
        let (old, new) = account.split_at(account.partition_point(|version| version.side == 0));
        let exists = |version: &&Version| version.lamports > 0;
        let old = newest(&before.display_name(), old)?.filter(exists);
        let new = newest(&after.display_name(), new)?.filter(exists);
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

/// The storages of one archive, digested as they pass by. 32 bytes for each.
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
