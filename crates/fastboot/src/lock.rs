//! The lock that a validator holds on its ledger.

use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, fstat, major, minor},
    io::Errno,
};
use unsnap_failure::Failure;
use unsnap_ring::Syscalls;
use unsnap_tarstream::printable;

use crate::{
    FastbootError,
    own_lock::{MOMENT, OwnLock},
};

/// Name of the lock file, as in `agave-validator` 4.2.2, `lib.rs`. It is locked with `flock` and
/// stays when the validator exits.
const LOCK_NAME: &str = "ledger.lock";

/// Lock file of unsnap's own, beside the other. Whoever holds the ledger's lock without this one is
/// a validator.
const OWN_LOCK_NAME: &str = ".unsnap-ledger.lock";

/// Largest part of `/proc/locks` that is read. It has some 60 bytes for each lock of the machine. A
/// guess.
const LOCKS_BYTES_MAX: u64 = 4 << 20;

/// The lock on a ledger. No validator starts there while it is held. Closed, and so released, on
/// exec.
#[derive(Debug)]
pub struct LedgerLock {
    // Released first: whoever finds the ledger's lock held must find the other one held as well.
    _file: OwnedFd,
    _own: Option<OwnLock>,
    since: Instant,
}

impl LedgerLock {
    /// Takes the lock. Fails with [`FastbootError::Running`] if a validator holds it, and with
    /// [`FastbootError::Locked`] if another unsnap does.
    pub fn take(ledger: &Path) -> Result<Self, FastbootError> {
        Self::take_unless(ledger, || Ok(()))
    }

    /// Takes the lock unless `refuse` fails, which is asked once our own lock is held.
    pub(crate) fn take_unless(
        ledger: &Path,
        refuse: impl FnOnce() -> Result<(), FastbootError>,
    ) -> Result<Self, FastbootError> {
        let calls = Syscalls::default();
        let own = match OwnLock::take(&calls, &ledger.join(OWN_LOCK_NAME), ledger, MOMENT) {
            Ok(own) => Some(own),
            Err(error @ FastbootError::Locked { .. }) => return Err(error),
            // On a full disk it cannot be made. Then others may take this process for a validator,
            // and leave the ledger alone as well.
            Err(error) => {
                tracing::warn!(%error, "the ledger is locked without a name");
                None
            }
        };
        refuse()?;
        let file = Self::lock(ledger, OFlags::CREATE)?;
        let since = Instant::now();
        if let Some(own) = &own {
            own.sign(&calls);
        }
        Ok(Self { _file: file, _own: own, since })
    }

    /// Returns for how long it has been held.
    pub fn held(&self) -> Duration {
        self.since.elapsed()
    }

    /// Releases it. Returns for how long it was held.
    pub fn release(self) -> Duration {
        let Self { _file: file, _own: own, since } = self;
        drop(file);
        let held = since.elapsed();
        drop(own);
        held
    }

    /// Fails as [`take`](Self::take) does, but makes no file. The lock is held only for the moment
    /// of the check.
    pub(crate) fn check(ledger: &Path) -> Result<(), FastbootError> {
        Self::refuse_ours(&Syscalls::default(), ledger)?;
        match Self::lock(ledger, OFlags::empty()) {
            // A ledger that was never locked.
            Err(error) if error.errno() == Some(Errno::NOENT) => Ok(()),
            locked => locked.map(drop),
        }
    }

    /// Locks the file that validators lock.
    fn lock(ledger: &Path, create: OFlags) -> Result<OwnedFd, FastbootError> {
        let path: PathBuf = ledger.join(LOCK_NAME);
        let at = |step, errno| FastbootError::file(step, &path, errno);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | create;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644));
        let file = file.map_err(|errno| at("open", errno))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(file),
            Err(Errno::WOULDBLOCK) => {
                let holder = Holder::of(&file);
                let holder =
                    holder.map(|Holder { process, name }| format!("process {process}, {name}"));
                Err(FastbootError::Running { ledger: ledger.to_owned(), holder })
            }
            Err(errno) => Err(at("lock", errno)),
        }
    }

    /// Fails with [`FastbootError::Locked`] if another unsnap is at work on the ledger. Takes no lock.
    pub fn refuse_ours(calls: &Syscalls, ledger: &Path) -> Result<(), FastbootError> {
        OwnLock::refuse_held(calls, &ledger.join(OWN_LOCK_NAME), ledger, MOMENT)
    }

    /// Waits until no other unsnap is working on a ledger, for so long at most. A validator does not
    /// wait for the lock, but ends.
    pub fn wait_for_ours(ledger: &Path, within: Duration) -> Result<(), FastbootError> {
        let calls = Syscalls::default();
        OwnLock::refuse_held(&calls, &ledger.join(OWN_LOCK_NAME), ledger, within)
    }
}

/// The holder of a lock.
#[derive(Debug)]
struct Holder {
    process: u32,
    name: String,
}

impl Holder {
    /// Finds the holder of the lock on a file. Returns `None` if there is none or it is invisible:
    /// on btrfs and overlayfs, where the kernel names other devices than `stat`, and for processes
    /// in another pid namespace.
    #[allow(clippy::disallowed_methods, reason = "procfs")]
    fn of(file: impl AsFd) -> Option<Self> {
        let stat = fstat(file).ok()?;
        let (major, minor) = (major(stat.st_dev), minor(stat.st_dev));
        let locked = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
        let mut locks = String::new();
        File::open("/proc/locks").ok()?.take(LOCKS_BYTES_MAX).read_to_string(&mut locks).ok()?;
        let process = holder_in(&locks, &locked)?;
        let mut name = Vec::new();
        // The kernel's names have at most 16 bytes.
        File::open(format!("/proc/{process}/comm")).ok()?.take(64).read_to_end(&mut name).ok()?;
        let name = printable(name.trim_ascii());
        Some(Self { process, name })
    }
}

/// Finds a lock in `/proc/locks`, which has lines like
/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`. Waiting processes have `->` after the number.
fn holder_in(locks: &str, locked: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, process, file, ..] if file == locked => process.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it() {
        let scratch = tempfile::tempdir().unwrap();
        LedgerLock::check(scratch.path()).unwrap();
        assert!(!scratch.path().join(LOCK_NAME).exists(), "to ask makes nothing");
        let lock = LedgerLock::take(scratch.path()).unwrap();
        LedgerLock::check(scratch.path()).unwrap_err();
        let refused = LedgerLock::take(scratch.path()).unwrap_err();
        assert!(matches!(refused, FastbootError::Locked { .. }), "{refused}");
        let calls = Syscalls::default();
        assert!(LedgerLock::refuse_ours(&calls, scratch.path()).is_err());
        drop(lock);
        LedgerLock::refuse_ours(&calls, scratch.path()).unwrap();
        LedgerLock::take(scratch.path()).unwrap();
        assert!(Holder::of(File::open(scratch.path().join(LOCK_NAME)).unwrap()).is_none());
    }

    #[test]
    fn who_waits_for_another_unsnap_goes_on_when_it_ends() {
        let scratch = tempfile::tempdir().unwrap();
        LedgerLock::wait_for_ours(scratch.path(), Duration::ZERO).unwrap();
        let lock = LedgerLock::take(scratch.path()).unwrap();
        let refused = LedgerLock::wait_for_ours(scratch.path(), Duration::ZERO).unwrap_err();
        assert!(refused.is_in_the_way(), "{refused}");
        std::thread::scope(|scope| {
            // Longer than any test takes.
            let wait = || LedgerLock::wait_for_ours(scratch.path(), Duration::from_mins(10));
            let waits = scope.spawn(wait);
            drop(lock);
            waits.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_validator_is_who_holds_only_the_ledgers_lock_whatever_its_name() {
        let scratch = tempfile::tempdir().unwrap();
        // A name of ours in the file, from a process that has ended.
        drop(LedgerLock::take(scratch.path()).unwrap());
        let validator = File::create(scratch.path().join(LOCK_NAME)).unwrap();
        rustix::fs::flock(&validator, FlockOperation::NonBlockingLockExclusive).unwrap();
        let refused = LedgerLock::take(scratch.path()).unwrap_err();
        assert!(matches!(refused, FastbootError::Running { .. }), "{refused}");
        LedgerLock::refuse_ours(&Syscalls::default(), scratch.path()).unwrap();
    }

    #[test]
    fn the_holder_is_found_among_all_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 08:01:7 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 08:01:7 0 EOF\n\
                     4: FLOCK  ADVISORY\n";
        assert_eq!(holder_in(locks, "08:01:7"), Some(14));
        assert_eq!(holder_in(locks, "08:01:77"), Some(12));
        assert_eq!(holder_in(locks, "08:02:7"), None);
    }
}
