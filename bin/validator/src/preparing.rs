//! Preparing, with everything that may come in between.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use unsnap_failure::{Failure as _, Family};
use unsnap_fastboot::{FastbootError, Outcome, Repaired, Request, prepare, repair};
use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;

/// What kept a state from being prepared.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What the library says.
    #[error(transparent)]
    Failed(#[from] FastbootError),
    /// Not in time.
    #[error("the state is not ready after {0:?}, which is the deadline")]
    Expired(Duration),
    /// A mistake of ours. What it was has been said already.
    #[error("unsnap has failed unexpectedly: please report it")]
    Panicked,
}

impl Failure {
    /// For the printer, and the exit code.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Self::Failed(error) => error.into(),
            other => other.into(),
        }
    }
}

/// Whether a state is to be put in the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One as new as the newest archives.
    Newest,
    /// Any: the validator does not look at archives.
    Any,
}

/// Prepares a state. Nothing that happens here is a panic, and on a failure there is no state that
/// looks loadable and is known not to be.
///
/// Threads that look at archives are confined, the calling thread is not.
pub fn prepare_guarded(
    request: &Request,
    wanted: Wanted,
    deadline: Option<Duration>,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Outcome, Failure> {
    let deadline = deadline.map(|after| Deadline::start(after, cancel.clone()));
    let prepared = guarded(|| match (wanted, request.replace) {
        (Wanted::Newest, _) | (Wanted::Any, true) => {
            prepare(request, &Syscalls::default(), progress, cancel)
        }
        (Wanted::Any, false) => prepare_any(request, progress, cancel),
    });
    let expired = deadline.and_then(Deadline::end);
    prepared.map_err(|failure| match (failure, expired) {
        (Failure::Failed(error), Some(after)) if error.family() == Family::Cancelled => {
            Failure::Expired(after)
        }
        (failure, _) => failure,
    })
}

/// If there is a state, it is looked after; a newer one is not put in its place: should that fail,
/// there would be none.
fn prepare_any(
    request: &Request,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Outcome, FastbootError> {
    let calls = Syscalls::default();
    let state = repair(&calls, &request.places, progress)?;
    match state {
        Repaired::NoState | Repaired::Withdrawn { .. } => {
            prepare(request, &calls, progress, cancel)
        }
        Repaired::WasWhole { slot }
        | Repaired::Relinked { slot, .. }
        | Repaired::LeftAlone { slot, .. } => {
            Ok(Outcome::Ready { slot, state, set_aside: Vec::new() })
        }
    }
}

/// After a failure: sees to it that a state from before is whole, or not marked as one. What was
/// begun has been taken back already.
pub fn look_after(request: &Request, failure: &Failure) {
    if let Failure::Failed(error) = failure
        && (error.is_in_the_way() || error.family() == Family::Cancelled)
    {
        // Others are at work on it; or the operator wants an end.
        return;
    }
    match guarded(|| repair(&Syscalls::default(), &request.places, &Progress::default())) {
        Ok(Repaired::Withdrawn { slot }) => {
            tracing::warn!(slot, "an older state was damaged, and is withdrawn");
        }
        Ok(Repaired::NoState) => {}
        Err(Failure::Failed(error)) if error.family() == Family::Request => {}
        Ok(state) => tracing::info!(?state, "an older state is left as it is"),
        Err(error) => tracing::warn!(%error, "older states could not be looked after"),
    }
}

/// What would unwind beyond here is a failure.
fn guarded<T>(work: impl FnOnce() -> Result<T, FastbootError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Panicked),
    }
}

/// Cancels when the time is up.
struct Deadline {
    after: Duration,
    /// Dropped, it ends the thread.
    waits: Sender<()>,
    thread: Option<JoinHandle<bool>>,
}

impl Deadline {
    fn start(after: Duration, cancel: CancelToken) -> Self {
        let (waits, ended) = channel();
        if after.is_zero() {
            cancel.cancel();
        }
        let watch = move || {
            let expired = ended.recv_timeout(after) == Err(RecvTimeoutError::Timeout);
            if expired {
                cancel.cancel();
            }
            expired
        };
        let thread = thread::Builder::new().name("unsnap-deadline".to_owned()).spawn(watch);
        if let Err(error) = &thread {
            tracing::warn!(%error, "the deadline cannot be watched");
        }
        Self { after, waits, thread: thread.ok() }
    }

    /// Gives the time, if it was up.
    fn end(self) -> Option<Duration> {
        drop(self.waits);
        let expired = self.thread.is_some_and(|thread| thread.join().unwrap_or(false));
        (expired || self.after.is_zero()).then_some(self.after)
    }
}

#[cfg(test)]
mod tests;
