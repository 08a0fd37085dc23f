//! Withdrawal of states.

use std::path::Path;

use rustix::io::Errno;
use unsnap_failure::Failure;
use unsnap_pass::Progress;
use unsnap_ring::Syscalls;
use unsnap_state::SHADOW_DIRECTORY;
use unsnap_state::format::FASTBOOT_VERSION;

use crate::{
    FastbootError, Places,
    files::{failed, open_directory, remove_durably},
    quarters::Quarters,
    removal::{Removal, move_aside, reclaim},
    states::state_directories,
};

/// Withdraws all states, so that a validator unpacks the archives at its next start. Their marks
/// are removed first, durably, then their directories and shadows. Storages in `run` remain; the
/// validator removes them when it unpacks. Returns the slots of the withdrawn states.
///
/// The ready state is withdrawn as well, since it would be adopted otherwise.
///
/// Refused while a validator is running or a state is being prepared beside it. On an error, no
/// state whose mark could be removed is loadable.
pub fn withdraw(
    calls: &Syscalls,
    places: &Places,
    progress: &Progress,
) -> Result<Vec<u64>, FastbootError> {
    let (places, _lock) = places.settle_locked()?;
    Quarters::refuse_next_locked(calls, &places)?;
    let beside = [Quarters::find_next(calls, &places)?, Quarters::find_ready(calls, &places)?];
    let mut slots = unmark(calls, &places)?;
    reclaim(calls, &places)?;
    let mut removal = Removal::left_over(calls, &places)?;
    for quarters in beside.iter().flatten() {
        slots.extend(unmark(calls, &quarters.places)?);
        removal.extend(quarters.discard(calls)?.paths());
    }
    removal.staged(calls, &places)?;
    for (_, path) in state_directories(calls, &places)? {
        removal.extend(move_aside(calls, &path, &places.snapshots)?);
    }
    for accounts in &places.accounts {
        removal.extend(move_aside(calls, &accounts.join(SHADOW_DIRECTORY), accounts)?);
    }
    removal.finish(calls, progress)?;
    Ok(slots)
}

/// Withdraws only the ready state. A validator may be running. Returns the slots of the withdrawn
/// states.
pub fn withdraw_beside(
    calls: &Syscalls,
    places: &Places,
    progress: &Progress,
) -> Result<Vec<u64>, FastbootError> {
    let places = places.settle()?;
    Quarters::refuse_next_locked(calls, &places)?;
    let beside = [Quarters::find_next(calls, &places)?, Quarters::find_ready(calls, &places)?];
    let (mut slots, mut removal) = (Vec::new(), Removal::default());
    for quarters in beside.iter().flatten() {
        slots.extend(unmark(calls, &quarters.places)?);
        removal.extend(quarters.discard(calls)?.paths());
    }
    removal.finish(calls, progress)?;
    Ok(slots)
}

/// Removes the marks of all states, durably. Returns the slots of states that had one.
pub(crate) fn unmark(calls: &Syscalls, places: &Places) -> Result<Vec<u64>, FastbootError> {
    let mut slots = Vec::new();
    for (slot, path) in state_directories(calls, places)? {
        if unmark_one(calls, &path)? {
            slots.push(slot);
        }
    }
    Ok(slots)
}

/// Removes the mark of a state, durably. Returns whether it had one.
pub(crate) fn unmark_one(calls: &Syscalls, path: &Path) -> Result<bool, FastbootError> {
    let state = match open_directory(calls, path) {
        Ok(state) => state,
        // Only a directory can be a state.
        Err(error) if matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR)) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let removed = remove_durably(calls, &state, FASTBOOT_VERSION);
    removed.map_err(|errno| failed("withdraw the state in", path, errno))
}
