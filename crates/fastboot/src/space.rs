//! Space that states take beside a running validator, and giving it back when space is short.
//!
//! | what | space | cost of giving it back |
//! |---|---|---|
//! | the shadow of the state in use | storages that the validator has removed since | that state cannot be repaired after a crash: the validator unpacks the archives |
//! | the ready state | all of it | the next start unpacks the archives, or waits for the next preparation |
//!
//! While no validator runs, nothing is given back here: preparing clears what is old by itself.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ffi::{CStr, CString},
    path::Path,
};

use rustix::{
    fs::{AtFlags, FileType, OFlags},
    io::Errno,
};
use unsnap_failure::Failure;
use unsnap_fit::{FileSystem, MinFree, Reserve};
use unsnap_ring::Syscalls;
use unsnap_state::{SHADOW_DIRECTORY, SHADOW_LIST};

use crate::{
    FastbootError, LedgerLock, Places,
    clear::Taken,
    files::{failed, open_directory},
    is_starting,
    quarters::Quarters,
    removal::{Removal, move_aside},
    survey::Shadow,
    withdraw::{unmark, unmark_one},
};

/// Space on one of the file systems that hold a validator's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemSpace {
    /// Device number, as in `stat`.
    pub device: u64,
    /// The validator's directories on it, for messages.
    pub name: String,
    /// What is to stay free, and what is free.
    pub min_free: MinFree,
}

/// Measures the file systems of the snapshots directory and the accounts paths. Leaves out those
/// that do not report their free space and those of which nothing is to stay free, and all if a
/// directory is missing.
pub fn measure(
    calls: &Syscalls,
    places: &Places,
    min_free: Reserve,
) -> Result<Vec<SystemSpace>, FastbootError> {
    let mut directories = Vec::new();
    for path in std::iter::once(&places.snapshots).chain(&places.accounts) {
        match open(calls, path) {
            Ok(directory) => directories.push((directory, path.clone())),
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => return Err(failed("open", path, errno)),
        }
    }
    let mut measured = Vec::new();
    for system in FileSystem::of(calls, directories)? {
        let system = system.keeping(min_free);
        if let Some(min_free) = system.free()?.min_free {
            measured.push(SystemSpace { device: system.device, name: system.name(), min_free });
        }
    }
    Ok(measured)
}

/// Space that can be given back on one file system. All figures are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returnable {
    /// Moved aside and not yet removed.
    pub leaving: u64,
    /// Storages of the state in use that only its shadow keeps on the disk.
    pub shadow: u64,
    /// The ready state.
    pub ready: u64,
    /// Its successor, as far as it is made. While nobody works on it, it goes with the leftovers.
    pub next: u64,
}

/// Determines what can be given back on a file system, by looking at every file: a second or more
/// for a large state.
pub fn returnable(
    calls: &Syscalls,
    places: &Places,
    device: u64,
) -> Result<Returnable, FastbootError> {
    let beside = places.beside();
    let mut leaving = Removal::left_over(calls, places)?.paths();
    leaving.extend(Removal::left_over(calls, &beside)?.paths());
    let all = |places: &Places| {
        let paths = std::iter::once(&places.snapshots).chain(&places.accounts).cloned();
        Ok::<_, FastbootError>(Taken::by(calls, &paths.collect::<Vec<_>>(), device)?.bytes)
    };
    Ok(Returnable {
        leaving: Taken::by(calls, &leaving, device)?.bytes,
        shadow: pinned(calls, places, Some(device))?,
        ready: all(&beside)?,
        next: all(&places.next())?,
    })
}

/// Determines the same on each file system of the snapshots directory and the accounts paths.
pub fn kept(calls: &Syscalls, places: &Places) -> Result<BTreeMap<u64, Returnable>, FastbootError> {
    let mut kept = BTreeMap::new();
    for path in std::iter::once(&places.snapshots).chain(&places.accounts) {
        let at = |errno| failed("examine", path, errno);
        let directory = match open(calls, path) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(at(errno)),
        };
        let device = calls.fstat(&directory).map_err(at)?.st_dev;
        if let Entry::Vacant(entry) = kept.entry(device) {
            entry.insert(returnable(calls, places, device)?);
        }
    }
    Ok(kept)
}

/// Returns the bytes of storages that only the shadow keeps on the disk: files of the shadows with
/// one name. Looks at every file.
pub(crate) fn shadow_bytes(calls: &Syscalls, places: &Places) -> Result<u64, FastbootError> {
    pinned(calls, places, None)
}

fn pinned(calls: &Syscalls, places: &Places, device: Option<u64>) -> Result<u64, FastbootError> {
    places.accounts.iter().try_fold(0, |sum, accounts| {
        let (on, bytes) = pinned_in(calls, &accounts.join(SHADOW_DIRECTORY))?;
        Ok(sum + if device.is_none_or(|device| on == Some(device)) { bytes } else { 0 })
    })
}

/// Returns the device of a shadow and the bytes of its storages without another name.
pub(crate) fn pinned_in(
    calls: &Syscalls,
    shadow: &Path,
) -> Result<(Option<u64>, u64), FastbootError> {
    // The shadow's own list has one name, too, but no slot.
    let is_pinned = |name: &[u8], names| names == 1 && name.first().is_some_and(u8::is_ascii_digit);
    bytes_in(calls, shadow, is_pinned)
}

/// Returns the device of a directory and the bytes of those of its files that `counts` selects by
/// their name and their number of names. A missing directory has no device and no files.
pub(crate) fn bytes_in(
    calls: &Syscalls,
    path: &Path,
    counts: impl Fn(&[u8], u64) -> bool,
) -> Result<(Option<u64>, u64), FastbootError> {
    let at = |errno| failed("examine", path, errno);
    let directory = match open(calls, path) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok((None, 0)),
        Err(errno) => return Err(at(errno)),
    };
    let device = calls.fstat(&directory).map_err(at)?.st_dev;
    let mut bytes = 0;
    for (name, kind) in calls.entries(&directory).map_err(at)? {
        if kind != FileType::RegularFile {
            continue;
        }
        match calls.lstatat(&directory, &*name) {
            Ok(stat) if counts(name.to_bytes(), stat.st_nlink) => {
                bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
            }
            // Removed since the directory was read.
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(at(errno)),
        }
    }
    Ok((Some(device), bytes))
}

fn open(calls: &Syscalls, path: &Path) -> Result<std::os::fd::OwnedFd, Errno> {
    calls.open(path, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY)
}

/// Moves the shadow of the state in use aside; the caller removes it. Returns `None`, and does
/// nothing, unless a validator is running.
///
/// A state that needed its shadow is no longer loadable then: if storages are missing from it, its
/// mark is removed first, so that no validator tries.
pub fn give_back_shadow(
    calls: &Syscalls,
    places: &Places,
) -> Result<Option<Removal>, FastbootError> {
    if !is_validator_running(places)? {
        return Ok(None);
    }
    if shadow_bytes(calls, places)? > 0 {
        for slot in Shadow::all(calls, places)?.iter().filter_map(Shadow::slot) {
            if unmark_one(calls, &places.state(slot))? {
                tracing::info!(slot, "the state in use has lost storages and is withdrawn");
            }
        }
    }
    let mut removal = Removal::default();
    for accounts in &places.accounts {
        let shadow = accounts.join(SHADOW_DIRECTORY);
        match move_aside(calls, &shadow, accounts) {
            // A rename takes space on XFS, and there may be none.
            Err(error) if matches!(error.errno(), Some(Errno::NOSPC | Errno::DQUOT)) => {
                empty_shadow(calls, &shadow)?;
            }
            moved => removal.extend(moved?),
        }
    }
    Ok(Some(removal))
}

/// Removes everything in a shadow, its list first: without that it is none. The directory stays, and is
/// removed when there is space.
fn empty_shadow(calls: &Syscalls, shadow: &Path) -> Result<(), FastbootError> {
    let directory = open_directory(calls, shadow)?;
    let remove = |name: &CStr| match calls.unlinkat(&directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed("remove files of", shadow, errno)),
    };
    let list = CString::new(SHADOW_LIST).unwrap_or_default();
    remove(&list)?;
    let entries = calls.entries(&directory).map_err(|errno| failed("read", shadow, errno))?;
    entries.iter().try_for_each(|(name, _)| remove(name))
}

/// Withdraws the ready state and moves it aside; the caller removes it. Also returns the slots of
/// the states that were ready. Returns `None`, and does nothing, if there is none, or unless a
/// validator is running: without one, the state is to be adopted.
///
/// Fails with [`CommitError::Locked`](unsnap_commit::CommitError::Locked) if another unsnap is at
/// work on it.
pub fn give_back_ready(
    calls: &Syscalls,
    places: &Places,
) -> Result<Option<(Vec<u64>, Removal)>, FastbootError> {
    if !is_validator_running(places)? {
        return Ok(None);
    }
    let Some(ready) = Quarters::find_ready(calls, places)? else { return Ok(None) };
    let slots = unmark(calls, &ready.places)?;
    Ok(Some((slots, ready.discard(calls)?)))
}

/// Returns whether a validator holds the ledger's lock. If nobody does, this takes and releases it.
fn is_validator_running(places: &Places) -> Result<bool, FastbootError> {
    if is_starting(places) {
        return Ok(false);
    }
    match LedgerLock::check(&places.ledger) {
        Ok(()) => Ok(false),
        Err(FastbootError::Running { .. }) => Ok(true),
        Err(error) if error.is_in_the_way() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rustix::fs::{FlockOperation, flock};
    use unsnap_ring::{Call, FaultPlan};

    use super::*;

    #[test]
    fn a_shadow_that_cannot_be_moved_on_a_full_disk_is_emptied_where_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let places = Places::new(scratch.path());
        let shadow = places.accounts[0].join(SHADOW_DIRECTORY);
        fs::create_dir_all(&shadow).unwrap();
        for name in ["7.1", "8.2", SHADOW_LIST] {
            fs::write(shadow.join(name), "x").unwrap();
        }
        let lock = File::create(places.ledger.join("ledger.lock")).unwrap();
        let give_back = |plan: &FaultPlan| {
            give_back_shadow(&Syscalls::with_faults(plan.clone()), &places).map(|it| it.is_some())
        };
        let full = FaultPlan::new(0).fail_nth(Call::RenameToNew, 0, Errno::NOSPC);
        assert!(!give_back(&full).unwrap(), "no validator is running");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(give_back(&full).unwrap());
        assert_eq!(full.injected().len(), 1);
        assert_eq!(fs::read_dir(&shadow).unwrap().count(), 0);
        let other = FaultPlan::new(0).fail_nth(Call::RenameToNew, 0, Errno::IO);
        assert!(give_back(&other).is_err());
    }
}
