//! Adoption of a ready state by renames alone.

use std::path::Path;

use rustix::io::Errno;
use unsnap_failure::Failure;
use unsnap_ring::Syscalls;
use unsnap_state::{RUN_DIRECTORY, SHADOW_DIRECTORY};

use crate::{
    FastbootError, Places,
    clear::clear,
    files::{failed, open_directory},
    removal::Removal,
    withdraw::unmark_one,
};

/// Clears old states and moves the state in `ready`, which must be complete and durable, into
/// place. The ledger and the ready state must be locked.
///
/// Storages move first, durably; the state's directory, which holds the mark, moves last. If this
/// is interrupted, a validator finds no state, and the ready directories hold a mark without
/// storages, which is never taken for a whole state.
pub(crate) fn adopt(
    calls: &Syscalls,
    ready: &Places,
    places: &Places,
    slot: u64,
    shadow: bool,
) -> Result<Removal, FastbootError> {
    let removal = clear(calls, places)?;
    for (from, to) in ready.accounts.iter().zip(&places.accounts) {
        // Replaces an empty directory.
        take(calls, from, to, RUN_DIRECTORY, false)?;
        if shadow {
            match take(calls, from, to, SHADOW_DIRECTORY, true) {
                // The state was prepared without a shadow.
                Err(error) if error.errno() == Some(Errno::NOENT) => {}
                result => result?,
            }
        }
        sync(calls, from, to)?;
    }
    let (from, to, name) = (ready.states(), places.states(), slot.to_string());
    let taken = take(calls, &from, &to, &name, true).and_then(|()| sync(calls, &from, &to));
    if let Err(error) = taken {
        // A validator must not see a state that cannot be made durable.
        let _ = unmark_one(calls, &places.state(slot));
        return Err(error);
    }
    Ok(removal)
}

fn take(
    calls: &Syscalls,
    from: &Path,
    to: &Path,
    name: &str,
    is_new: bool,
) -> Result<(), FastbootError> {
    let (source, target) = (open_directory(calls, from)?, open_directory(calls, to)?);
    let renamed = if is_new {
        calls.rename_to_own(&source, name, &target, name)
    } else {
        calls.renameat(&source, name, &target, name)
    };
    renamed.map_err(|errno| failed("adopt", &from.join(name), errno))
}

/// Syncs the new parent first: files must not be lost with their old names.
fn sync(calls: &Syscalls, from: &Path, to: &Path) -> Result<(), FastbootError> {
    for path in [to, from] {
        let directory = open_directory(calls, path)?;
        // `fstat` on an XFS directory reports that the file system has shut down; `fsync` does not
        // (see `staging` in the crate `unsnap-commit`).
        let synced = calls.fsync(&directory).and_then(|()| calls.fstat(&directory));
        synced.map_err(|errno| failed("sync", path, errno))?;
    }
    Ok(())
}
