//! A state that lies ready takes its place, by renames alone.

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

/// Clears away what is old, and puts a state there that is complete and durable in `ready`. The ledger
/// must be locked, and the ready places, too.
///
/// Storages go first, and durably; the state's directory, which holds the mark, last. If that is cut
/// short, a validator finds no state, and the ready places hold a mark without storages, which nobody
/// takes for a whole state.
pub(crate) fn adopt(
    calls: &Syscalls,
    ready: &Places,
    places: &Places,
    slot: u64,
    shadow: bool,
) -> Result<Removal, FastbootError> {
    let removal = clear(calls, places)?;
    for (from, to) in ready.accounts.iter().zip(&places.accounts) {
        // Over an empty directory.
        take(calls, from, to, RUN_DIRECTORY, false)?;
        if shadow {
            match take(calls, from, to, SHADOW_DIRECTORY, true) {
                // It was prepared without one.
                Err(error) if error.errno() == Some(Errno::NOENT) => {}
                result => result?,
            }
        }
        sync(calls, from, to)?;
    }
    let (from, to, name) = (ready.states(), places.states(), slot.to_string());
    let taken = take(calls, &from, &to, &name, true).and_then(|()| sync(calls, &from, &to));
    if let Err(error) = taken {
        // Of what cannot be made durable a validator shall not see anything.
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

/// First where things are now: they must not be lost with their old names.
fn sync(calls: &Syscalls, from: &Path, to: &Path) -> Result<(), FastbootError> {
    for path in [to, from] {
        let directory = open_directory(calls, path)?;
        // Asked for its attributes a directory of an XFS tells that it has shut down, which its
        // fsync does not (see `staging` in the crate unpack).
        let synced = calls.fsync(&directory).and_then(|()| calls.fstat(&directory));
        synced.map_err(|errno| failed("sync", path, errno))?;
    }
    Ok(())
}
