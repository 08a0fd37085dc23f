//! The lock that a validator holds on its ledger.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
};
use unsnap_unpack::Error;

/// As in `agave-validator` 4.2.2, `lib.rs`: locked by `flock`, kept when the validator has ended.
const LOCK_NAME: &str = "ledger.lock";

/// The lock on a ledger: while it is held no validator starts there. Closed on exec, and so released.
#[derive(Debug)]
pub struct LedgerLock {
    _file: OwnedFd,
}

impl LedgerLock {
    /// Takes the lock. A running validator is [`Error::Running`].
    pub fn take(ledger: &Path) -> Result<Self, Error> {
        let path: PathBuf = ledger.join(LOCK_NAME);
        let at = |step, errno| Error::Staging { step, path: path.clone(), errno };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644));
        let file = file.map_err(|errno| at("open", errno))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(Error::Running { ledger: ledger.to_owned() }),
            Err(errno) => Err(at("lock", errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it() {
        let scratch = tempfile::tempdir().unwrap();
        let lock = LedgerLock::take(scratch.path()).unwrap();
        let refused = LedgerLock::take(scratch.path()).unwrap_err();
        assert!(matches!(refused, Error::Running { .. }), "{refused}");
        drop(lock);
        LedgerLock::take(scratch.path()).unwrap();
    }
}
