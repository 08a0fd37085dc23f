//! Removal of all but the newest version of each account.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use unsnap_layout::append_vec::RecordHeader;

use super::{
    AccountsError, StorageId,
    entries::{Entry, PARTITIONS, Place, sorting},
    look::{SecondLook, Wanted},
    pool::lock,
    scan::Sums,
    shared::Shared,
};
use crate::lattice::LatticeHasher;

/// Bytes of a candidate and its data structures in the second look.
const CANDIDATE_BYTES: usize =
    size_of::<Candidate>() + size_of::<Place>() + size_of::<Wanted>() + size_of::<bool>();

/// Totals of the duplicates.
pub(super) struct Resolved {
    /// Older versions, to be subtracted.
    pub(super) older: Sums,
    /// Records that were read again.
    pub(super) looked_at: u64,
}

/// A record whose fingerprint occurs more than once.
struct Candidate {
    entry: Entry,
    slot: u64,
    /// Not the newest record with its fingerprint, so presumably not the newest of its public key.
    older: bool,
    /// Known after the second look.
    pubkey: Option<[u8; 32]>,
}

/// Sorts all entries and resolves those with equal fingerprints, in as many rounds as the memory
/// budget requires.
pub(super) fn resolve<B: Send + Sync>(
    shared: &Shared<B>,
    storages: &[StorageId],
    look: &mut dyn SecondLook,
) -> Result<Resolved, AccountsError> {
    // Every entry of the partitions being sorted may be a candidate, so a round can grow to three
    // times its target.
    let fitting = sorting(&shared.entries, shared.memory_bytes_max)?;
    let threads = shared.workers.get().min(fitting);
    let candidates_max = (shared.memory_bytes_max / CANDIDATE_BYTES).max(1);

    let mut resolved = Resolved { older: Sums::new(), looked_at: 0 };
    let next = AtomicUsize::new(0);
    while next.load(Ordering::Relaxed) < PARTITIONS {
        let found = Mutex::new(Vec::new());
        let sort = || -> Result<(), AccountsError> {
            while lock(&found).len() < candidates_max {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= PARTITIONS {
                    break;
                }
                let mut entries = shared.entries.take(index)?;
                let candidates = candidates(&mut entries, storages);
                lock(&found).extend(candidates);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(sort)).collect();
            let mut result = sort();
            for other in others {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(other);
            }
            result
        })?;
        let mut candidates = std::mem::take(&mut *lock(&found));
        round(shared, storages, look, &mut candidates, &mut resolved)?;
    }
    Ok(resolved)
}

/// Returns the entries whose fingerprint occurs more than once.
fn candidates(entries: &mut [Entry], storages: &[StorageId]) -> Vec<Candidate> {
    entries.sort_unstable();
    let mut candidates = Vec::new();
    for group in entries.chunk_by(|one, other| one.fingerprint == other.fingerprint) {
        if group.len() == 1 {
            continue;
        }
        let slot = |entry: &Entry| storages[entry.place.storage()].slot;
        let newest = group.iter().map(slot).max();
        candidates.extend(group.iter().map(|&entry| {
            let slot = slot(&entry);
            Candidate { entry, slot, older: Some(slot) < newest, pubkey: None }
        }));
    }
    candidates
}

/// Reads the candidates again and subtracts the older ones.
fn round<B>(
    shared: &Shared<B>,
    storages: &[StorageId],
    look: &mut dyn SecondLook,
    candidates: &mut [Candidate],
    resolved: &mut Resolved,
) -> Result<(), AccountsError> {
    if candidates.is_empty() {
        return Ok(());
    }
    candidates.sort_unstable_by_key(|candidate| candidate.entry.place);
    let mut hasher = LatticeHasher::with(shared.vectors);
    let places: Vec<_> = candidates.iter().map(|candidate| candidate.entry.place).collect();
    look_at(look, storages, &places, &mut |index, header, data| {
        let candidate = &mut candidates[index];
        let unchanged = shared.fingerprints.of(&header.pubkey) == candidate.entry.fingerprint;
        if unchanged && candidate.pubkey.replace(header.pubkey).is_none() && candidate.older {
            hasher.add(header, data);
            resolved.older.count(header);
        }
        unchanged
    })?;
    resolved.looked_at += candidates.len() as u64;

    // Equal fingerprints do not imply equal keys: the newest record of each key stays.
    candidates.sort_unstable_by_key(|candidate| {
        (candidate.pubkey, std::cmp::Reverse(candidate.slot), candidate.entry.place)
    });
    let mut kept = Vec::new();
    for versions in candidates.chunk_by(|one, other| one.pubkey == other.pubkey) {
        if versions[0].older {
            kept.push(versions[0].entry.place);
        }
        let mut pairs = versions.iter().zip(&versions[1..]);
        if let Some((one, other)) = pairs.find(|(one, other)| one.slot == other.slot) {
            return Err(twice(storages, one, other));
        }
    }
    resolved.older.hash.add(&hasher.take());
    if kept.is_empty() {
        return Ok(());
    }
    kept.sort_unstable();
    let mut sums = Sums::new();
    look_at(look, storages, &kept, &mut |_, header, data| {
        hasher.add(header, data);
        sums.count(header);
        true
    })?;
    resolved.older.hash.subtract(&hasher.take());
    resolved.older.lamports -= sums.lamports;
    resolved.older.accounts -= sums.accounts;
    resolved.older.closed -= sums.closed;
    resolved.older.records -= sums.records;
    resolved.looked_at += kept.len() as u64;
    Ok(())
}

/// Reads records again, each of them once. `take` returns whether a record is unchanged.
fn look_at(
    look: &mut dyn SecondLook,
    storages: &[StorageId],
    places: &[Place],
    take: &mut dyn FnMut(usize, &RecordHeader, &[u8]) -> bool,
) -> Result<(), AccountsError> {
    let wanted: Vec<_> = places
        .iter()
        .map(|place| Wanted { storage: storages[place.storage()], offset: place.offset() })
        .collect();
    let mut seen = vec![false; wanted.len()];
    let mut changed = None;
    let looked = look.look(&wanted, &mut |index, header, data| {
        if !take(index, header, data) || std::mem::replace(&mut seen[index], true) {
            changed.get_or_insert(index);
        }
    });
    looked.map_err(AccountsError::of_look)?;
    match changed.or_else(|| seen.iter().position(|seen| !seen)) {
        Some(index) => Err(AccountsError::of_look(wanted[index].changed())),
        None => Ok(()),
    }
}

fn twice(storages: &[StorageId], one: &Candidate, other: &Candidate) -> AccountsError {
    let [first, second] = [one, other].map(|candidate| {
        let StorageId { slot, id, .. } = storages[candidate.entry.place.storage()];
        (slot, id, candidate.entry.place.offset())
    });
    AccountsError::Twice {
        pubkey: bs58::encode(one.pubkey.unwrap_or_default()).into_string(),
        slot: first.0,
        first_id: first.1,
        first_offset: first.2,
        second_id: second.1,
        second_offset: second.2,
    }
}
