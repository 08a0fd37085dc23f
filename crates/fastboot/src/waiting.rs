//! Waiting: how the start of a validator and another unsnap that is at work know of each other.
//!
//! Who waits puts up a notice, the file `.unsnap-waiting` in the snapshots directory. It is locked,
//! and tells the oldest slot of a state that is of use. A daemon that sees it hurries, or makes way.
//! Who waits sees by the locks of unsnap, and by the states that are marked, when to try again.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD};
use unsnap_ring::Syscalls;

use crate::{
    FastbootError, LedgerLock, Places, files::failed, own_lock::OwnLock, quarters::Quarters,
    states::marked_states,
};

/// Name of the notice, in the snapshots directory. Validators ignore names that they do not know.
pub const WAITING_FILE: &str = ".unsnap-waiting";

/// Word in front of the slot in the notice.
const OLDEST: &str = "oldest";

/// The notice that the start of a validator waits, until it is dropped.
#[derive(Debug)]
pub struct WaitingNotice {
    calls: Syscalls,
    path: PathBuf,
    _lock: OwnLock,
}

impl WaitingNotice {
    /// Puts up the notice: states of slot `oldest` or newer are of use. Fails with
    /// [`FastbootError::Locked`] if another process waits already.
    pub fn put_up(calls: &Syscalls, places: &Places, oldest: u64) -> Result<Self, FastbootError> {
        let path = places.snapshots.join(WAITING_FILE);
        let lock = OwnLock::take_in_a_moment(calls, &path, &places.snapshots)?;
        lock.sign_with(calls, &format!("{OLDEST} {oldest}\n"));
        Ok(Self { calls: calls.clone(), path, _lock: lock })
    }
}

impl Drop for WaitingNotice {
    fn drop(&mut self) {
        // Before it is unlocked: an unlocked one is that of a process that was killed.
        if let Err(errno) = self.calls.unlinkat(CWD, &self.path, AtFlags::empty()) {
            let error = failed("remove", &self.path, errno);
            tracing::debug!(%error, "the notice of a start that waits remains");
        }
    }
}

/// The start of a validator that waits for another unsnap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingStart {
    /// Oldest slot of a state that it would adopt; 0 if it does not say.
    pub oldest: u64,
}

impl WaitingStart {
    /// Looks for the notice. That of a process that has died is not locked, and means nothing.
    pub fn look(calls: &Syscalls, places: &Places) -> Option<Self> {
        let text = OwnLock::text_if_held(calls, &places.snapshots.join(WAITING_FILE))?;
        let slot = |line: &str| line.strip_prefix(OLDEST)?.trim().parse().ok();
        Some(Self { oldest: text.lines().find_map(slot).unwrap_or(0) })
    }
}

/// What other processes of unsnap are doing in a validator's directories.
#[derive(Debug)]
pub struct Situation {
    /// [`FastbootError::Locked`] if one is at work.
    pub at_work: Result<(), FastbootError>,
    /// Slots of the states that are marked, in place and beside.
    marked: Vec<u64>,
}

impl Situation {
    /// Looks. That costs a few system calls, and a moment if somebody is at work.
    pub fn look(calls: &Syscalls, places: &Places) -> Self {
        let at_work = LedgerLock::refuse_ours(calls, &places.ledger)
            .and_then(|()| Quarters::refuse_next_locked(calls, places))
            .and_then(|()| Quarters::refuse_ready_locked(calls, places));
        let slots = |places: &Places| marked_states(calls, places).unwrap_or_default();
        let marked = slots(places).into_iter().chain(slots(&places.beside()));
        Self { at_work, marked: marked.map(|(slot, _)| slot).collect() }
    }

    /// Returns whether an attempt that failed in `before` may succeed now.
    pub fn is_better_than(&self, before: &Self) -> bool {
        self.at_work.is_ok() || self.marked != before.marked || self.who() != before.who()
    }

    /// Returns the place where somebody is at work, and who.
    fn who(&self) -> Option<(&Path, Option<&str>)> {
        match &self.at_work {
            Err(FastbootError::Locked { path, holder }) => Some((path, holder.as_deref())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn a_start_waits_as_long_as_its_notice_is_up() {
        let scratch = tempfile::tempdir().unwrap();
        let (calls, places) = (Syscalls::default(), Places::new(scratch.path()));
        let path = scratch.path().join(WAITING_FILE);
        assert_eq!(WaitingStart::look(&calls, &places), None);
        let notice = WaitingNotice::put_up(&calls, &places, 47).unwrap();
        assert_eq!(WaitingStart::look(&calls, &places), Some(WaitingStart { oldest: 47 }));
        let second = WaitingNotice::put_up(&calls, &places, 39).unwrap_err();
        assert!(matches!(second, FastbootError::Locked { .. }), "{second}");
        assert_eq!(WaitingStart::look(&calls, &places), Some(WaitingStart { oldest: 47 }));
        drop(notice);
        assert!(!path.exists());
        // Left behind by a process that was killed, and one that says nothing.
        fs::write(&path, "12 unsnap-validator\noldest 47\n").unwrap();
        assert_eq!(WaitingStart::look(&calls, &places), None);
        fs::write(&path, "").unwrap();
        let file = File::open(&path).unwrap();
        file.lock().unwrap();
        assert_eq!(WaitingStart::look(&calls, &places), Some(WaitingStart { oldest: 0 }));
    }

    #[test]
    fn a_lock_that_is_released_and_a_new_state_make_the_situation_better() {
        let scratch = tempfile::tempdir().unwrap();
        let (calls, places) = (Syscalls::default(), Places::new(scratch.path()));
        let look = || Situation::look(&calls, &places);
        assert!(look().at_work.is_ok());
        for name in [".unsnap-ledger.lock", ".unsnap-next.lock", ".unsnap-ready.lock"] {
            let lock = File::create(scratch.path().join(name)).unwrap();
            lock.lock().unwrap();
            fs::write(scratch.path().join(name), "12 unpackd\n").unwrap();
            let before = look();
            let told = before.at_work.as_ref().unwrap_err().to_string();
            assert!(told.contains("(process 12, unpackd)"), "{name}: {told}");
            assert!(!look().is_better_than(&before), "{name}");
            drop(lock);
            assert!(look().is_better_than(&before), "{name}");
        }
        let next = File::create(scratch.path().join(".unsnap-next.lock")).unwrap();
        next.lock().unwrap();
        let before = look();
        let ready = places.beside().state(7);
        fs::create_dir_all(&ready).unwrap();
        assert!(!look().is_better_than(&before));
        fs::write(ready.join("fastboot_version"), "3.0.0").unwrap();
        assert!(look().is_better_than(&before));
        // Somebody else is still at work elsewhere.
        let ledger = File::create(scratch.path().join(".unsnap-ledger.lock")).unwrap();
        ledger.lock().unwrap();
        let before = look();
        assert!(!look().is_better_than(&before));
        drop(ledger);
        assert!(look().at_work.is_err() && look().is_better_than(&before));
    }
}
