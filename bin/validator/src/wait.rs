//! Waiting for another unsnap that is at work for this validator.

use std::{
    os::fd::OwnedFd,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use unsnap_fastboot::{FastbootError, Outcome};
use unsnap_pass::CancelToken;
use unsnap_ring::Syscalls;

/// Name of the file in the snapshots directory that tells a daemon that a validator waits for its
/// job. It is locked while that is so, and removed at the end.
const WAITING: &str = ".unsnap-waiting";

/// Interval at which the other unsnap is looked for. A guess: adoption takes milliseconds, and the
/// look costs a few system calls.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Longest wait if there is no deadline. A guess: several times what unpacking takes. A job that is
/// paused must not keep a validator from starting for ever.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Attempts something again and again while another unsnap is in the way, until `cancel` is cancelled
/// or an hour has passed. `say` is called once, with who is waited for.
pub fn until_free(
    snapshots: &Path,
    cancel: &CancelToken,
    say: impl FnOnce(&FastbootError),
    attempt: impl FnMut() -> Result<Outcome, FastbootError>,
) -> Result<Outcome, FastbootError> {
    let since = Instant::now();
    let rest = || {
        thread::sleep(LOOK_EVERY);
        since.elapsed() < WAIT_MAX
    };
    until_free_or(snapshots, cancel, say, rest, attempt)
}

fn until_free_or(
    snapshots: &Path,
    cancel: &CancelToken,
    say: impl FnOnce(&FastbootError),
    mut rest: impl FnMut() -> bool,
    mut attempt: impl FnMut() -> Result<Outcome, FastbootError>,
) -> Result<Outcome, FastbootError> {
    let (mut say, mut notice) = (Some(say), None);
    loop {
        match attempt() {
            // Not somebody who unpacks to the same place by chance: that look costs more than a lock.
            Err(error @ FastbootError::Locked { .. }) => {
                if cancel.is_cancelled() {
                    return Err(FastbootError::CANCELLED);
                }
                if let Some(say) = say.take() {
                    say(&error);
                    notice = Notice::put_up(snapshots);
                }
                if !rest() {
                    return Err(error);
                }
            }
            result => {
                drop(notice);
                return result;
            }
        }
    }
}

/// The file that tells a daemon that a validator waits.
struct Notice {
    calls: Syscalls,
    directory: OwnedFd,
    _locked: OwnedFd,
}

impl Notice {
    /// Creates and locks the file. Without it the daemon's job takes longer, which is no reason to
    /// fail.
    fn put_up(snapshots: &Path) -> Option<Self> {
        let calls = Syscalls::default();
        let make = || {
            let directory = calls.open(snapshots, OFlags::DIRECTORY | OFlags::CLOEXEC)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = calls.openat(&directory, WAITING, flags, Mode::from_raw_mode(0o644))?;
            calls.lock(&file)?;
            Ok::<_, Errno>((directory, file))
        };
        match make() {
            Ok((directory, locked)) => Some(Self { calls, directory, _locked: locked }),
            Err(errno) => {
                let path = snapshots.join(WAITING);
                tracing::warn!(%errno, path = %path.display(), "no daemon can see that this waits");
                None
            }
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        // Removed before it is unlocked: whoever sees it unlocked knows that this process was killed.
        let _ = self.calls.unlinkat(&self.directory, WAITING, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs};

    use unsnap_failure::{Code, Failure as _};
    use unsnap_fastboot::{LedgerLock, Repaired};

    use super::*;

    fn ready() -> Result<Outcome, FastbootError> {
        let state = Repaired::WasWhole { slot: 7 };
        Ok(Outcome::Ready { slot: 7, state, behind: 0, set_aside: Vec::new() })
    }

    #[test]
    fn another_unsnap_is_waited_for_and_told() {
        let scratch = tempfile::tempdir().unwrap();
        let (notice, calls) = (scratch.path().join(WAITING), Syscalls::default());
        let lock = Cell::new(Some(LedgerLock::take(scratch.path()).unwrap()));
        let (said, rests) = (Cell::new(0), Cell::new(0));
        let result = until_free_or(
            scratch.path(),
            &CancelToken::default(),
            |error| {
                assert!(error.to_string().contains("another unsnap"), "{error}");
                said.set(said.get() + 1);
            },
            || {
                let file = fs::File::open(&notice).unwrap();
                assert_eq!(calls.lock(&file), Err(Errno::WOULDBLOCK));
                rests.set(rests.get() + 1);
                if rests.get() == 3 {
                    drop(lock.take());
                }
                true
            },
            || LedgerLock::take(scratch.path()).and_then(|_| ready()),
        );
        assert!(matches!(result, Ok(Outcome::Ready { slot: 7, .. })), "{result:?}");
        assert_eq!((said.get(), rests.get(), notice.exists()), (1, 3, false));
    }

    #[test]
    fn the_wait_ends_when_it_is_cancelled_or_too_long() {
        let scratch = tempfile::tempdir().unwrap();
        let _lock = LedgerLock::take(scratch.path()).unwrap();
        let attempt = || LedgerLock::take(scratch.path()).and_then(|_| ready());
        let cancel = CancelToken::default();
        let cancelled = until_free_or(
            scratch.path(),
            &cancel,
            |_| {},
            || {
                cancel.cancel();
                true
            },
            attempt,
        );
        assert_eq!(cancelled.unwrap_err().code(), Code::Cancelled);
        let cancel = CancelToken::default();
        let late = until_free_or(scratch.path(), &cancel, |_| {}, || false, attempt).unwrap_err();
        assert_eq!(late.code(), Code::Locked);
        assert!(!scratch.path().join(WAITING).exists());
    }

    #[test]
    fn other_errors_are_not_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let fail = || Err(FastbootError::CANCELLED);
        let (cancel, never) = (CancelToken::default(), || panic!("waited"));
        until_free_or(scratch.path(), &cancel, |_| {}, never, fail).unwrap_err();
    }
}
