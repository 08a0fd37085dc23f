//! Validators that are being started.

use std::time::{Duration, SystemTime};

use crate::{FastbootError, LedgerLock, Places};

/// Name of the file, in the snapshots directory. Validators ignore names that they do not know.
pub const ATTEMPTS_FILE: &str = ".unsnap-attempts";

/// Longest time from the record of a start until the validator has locked its ledger. A guess: it does
/// so before it reads anything large.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// Returns whether a validator's start was remembered a moment ago, so that a validator may be about
/// to lock the ledger. It does not wait for the lock, but ends: who works beside it keeps away, even
/// for milliseconds. A start that is dated in the future is none.
pub fn is_starting(places: &Places) -> bool {
    let changed = places.snapshots.join(ATTEMPTS_FILE).metadata();
    let changed = changed.and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| is_recent(changed, SystemTime::now()))
}

/// Fails with [`FastbootError::Running`] if a validator [is being started](is_starting).
fn refuse_starting(places: &Places) -> Result<(), FastbootError> {
    if !is_starting(places) {
        return Ok(());
    }
    let holder = Some("it is being started".to_owned());
    Err(FastbootError::Running { ledger: places.ledger.clone(), holder })
}

impl LedgerLock {
    /// Takes the lock as [`take`](Self::take) does, for somebody who works beside a validator. Also
    /// fails with [`FastbootError::Running`] if one is being started.
    ///
    /// Whoever starts a validator remembers the start, then waits until our own lock is free. Here, our
    /// own lock is taken before remembered starts are looked at. So one of both notices the other.
    pub fn take_beside(places: &Places) -> Result<Self, FastbootError> {
        Self::take_unless(&places.ledger, || refuse_starting(places))
    }
}

fn is_recent(changed: SystemTime, now: SystemTime) -> bool {
    now.duration_since(changed).is_ok_and(|age| age < STARTS_WITHIN)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_validator_is_being_started_for_a_moment_after_its_start_was_remembered() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(9);
        assert!(is_recent(now, now));
        assert!(!is_recent(now - STARTS_WITHIN, now));
        assert!(!is_recent(now + Duration::from_secs(1), now), "the clock was set back since");
        let scratch = tempfile::tempdir().unwrap();
        assert!(!is_starting(&Places::new(scratch.path())), "no start was remembered");
    }

    #[test]
    fn nobody_beside_takes_the_lock_of_a_validator_that_is_being_started() {
        let scratch = tempfile::tempdir().unwrap();
        let places = Places::new(scratch.path());
        drop(LedgerLock::take_beside(&places).unwrap());
        fs::write(places.snapshots.join(ATTEMPTS_FILE), "{}").unwrap();
        let refused = LedgerLock::take_beside(&places).unwrap_err();
        assert!(matches!(refused, FastbootError::Running { .. }), "{refused}");
        // Who starts the validator does not keep itself from anything.
        drop(LedgerLock::take(&places.ledger).unwrap());
    }
}
