//! Withdrawal of states that are not to be served, and what takes it back.

use std::path::Path;

use rustix::io::Errno;
use unsnap_failure::Failure;
use unsnap_ring::Syscalls;
use unsnap_state::format::FASTBOOT_VERSION;

use super::{Attempts, StateName};
use crate::{
    FastbootError, LedgerLock, Places,
    files::{failed, open_directory},
    states::{marked_states, state_directories},
};

/// Name of a withdrawn state's mark. To rename it takes no space on a full disk, in either direction.
const WITHDRAWN_MARK: &str = ".unsnap-withdrawn";

impl Attempts {
    /// Withdraws states that are not to be served, in place and beside, durably: their marks are
    /// renamed, and the next preparation removes the rest. `name` tells the full name of the state of
    /// a slot. Returns the slots. Refused while a validator is running.
    pub fn withdraw_suspects(
        &self,
        calls: &Syscalls,
        places: &Places,
        name: impl Fn(u64) -> StateName,
    ) -> Result<Vec<u64>, FastbootError> {
        let found = |places: &Places| {
            let mut states = marked_states(calls, places)?;
            states.retain(|(slot, _)| self.is_suspect(&name(*slot)));
            Ok::<_, FastbootError>(states)
        };
        let mut states = found(places)?;
        states.extend(found(&places.beside())?);
        states.extend(found(&places.next())?);
        if states.is_empty() {
            return Ok(Vec::new());
        }
        let _lock = LedgerLock::take(&places.ledger)?;
        for (_, directory) in &states {
            hide_mark(calls, directory)?;
        }
        Ok(states.into_iter().map(|(slot, _)| slot).collect())
    }

    /// Takes back the withdrawal of the validator's newest state, durably, if there is no other state: a
    /// validator that takes nothing but states, or has no room to unpack archives, does not start without
    /// one. Returns its slot. Refused while a validator is running.
    pub fn restore_withdrawn(
        &mut self,
        calls: &Syscalls,
        places: &Places,
        name: impl Fn(u64) -> StateName,
    ) -> Result<Option<u64>, FastbootError> {
        if !marked_states(calls, places)?.is_empty() {
            return Ok(None);
        }
        let mut states = state_directories(calls, places)?;
        states.sort_by_key(|(slot, _)| std::cmp::Reverse(*slot));
        let _lock = LedgerLock::take(&places.ledger)?;
        for (slot, directory) in states {
            let state = name(slot);
            if self.is_suspect(&state) && show_mark(calls, &directory)? {
                let restored = self.suspects.iter_mut().filter(|one| one.state.may_be(&state));
                restored.for_each(|suspect| suspect.withdrawn = false);
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }
}

fn hide_mark(calls: &Syscalls, state: &Path) -> Result<bool, FastbootError> {
    rename(calls, state, FASTBOOT_VERSION, WITHDRAWN_MARK, "withdraw the state in")
}

fn show_mark(calls: &Syscalls, state: &Path) -> Result<bool, FastbootError> {
    rename(calls, state, WITHDRAWN_MARK, FASTBOOT_VERSION, "restore the state in")
}

/// Renames a file of a state, durably. Returns whether it existed.
fn rename(
    calls: &Syscalls,
    state: &Path,
    from: &str,
    to: &str,
    step: &'static str,
) -> Result<bool, FastbootError> {
    let directory = match open_directory(calls, state) {
        Ok(directory) => directory,
        Err(error) if matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR)) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let renamed = calls.renameat(&directory, from, &directory, to);
    // `fstat` on an XFS directory reports that the file system has shut down; `fsync` does not (see
    // `staging` in the crate `unsnap-commit`).
    let synced =
        renamed.and_then(|()| calls.fsync(&directory)).and_then(|()| calls.fstat(&directory));
    match synced {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(failed(step, state, errno)),
    }
}
