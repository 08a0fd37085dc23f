//! Preparing a state within a deadline, where a panic is just another failure.

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
use unsnap_settings::format_duration;

/// Reason why no state was prepared.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of the library.
    #[error(transparent)]
    Failed(#[from] FastbootError),
    /// The deadline has passed. Holds the time limit.
    #[error("no state was ready within the deadline of {}", format_duration(*.0))]
    Expired(Duration),
    /// A bug of unsnap. The panic's message has been printed already.
    #[error("unsnap has panicked: please report this bug")]
    Panicked,
}

impl Failure {
    /// Returns the error for the printer and the exit code.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Self::Failed(error) => error.into(),
            other => other.into(),
        }
    }
}

/// The state that the validator can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A state as new as the newest archives.
    Newest,
    /// Any state: the validator ignores archives.
    Any,
}

/// Prepares a state. Turns panics into failures.
///
/// The threads that read archives are confined, the calling thread is not.
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

/// Repairs the existing state, and prepares one only if there is none. It does not replace an older
/// state: if that failed, the validator would have none.
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

/// Repairs an older state after a failure, or withdraws it: no state that looks loadable and is known
/// to be broken may stay. The files of the failed preparation have been removed already.
pub fn repair_older_state(request: &Request, failure: &Failure) {
    if let Failure::Failed(error) = failure
        && (error.is_in_the_way() || error.family() == Family::Cancelled)
    {
        // Another process is using the ledger, or the operator interrupted this one.
        return;
    }
    match guarded(|| repair(&Syscalls::default(), &request.places, &Progress::default())) {
        Ok(Repaired::Withdrawn { slot }) => {
            tracing::warn!(slot, "withdrew an older state, which was damaged");
        }
        Ok(Repaired::NoState) => {}
        Err(Failure::Failed(error)) if error.family() == Family::Request => {}
        Ok(state) => tracing::info!(?state, "kept an older state"),
        Err(error) => tracing::warn!(%error, "cannot check older states"),
    }
}

/// Turns a panic into a failure.
fn guarded<T>(work: impl FnOnce() -> Result<T, FastbootError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Panicked),
    }
}

/// Cancels the preparation when the time is up.
struct Deadline {
    after: Duration,
    /// Ends the thread when it is dropped.
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
            tracing::warn!(%error, "cannot watch the deadline");
        }
        Self { after, waits, thread: thread.ok() }
    }

    /// Ends the thread. Returns the time limit if it has passed.
    fn end(self) -> Option<Duration> {
        drop(self.waits);
        let expired = self.thread.is_some_and(|thread| thread.join().unwrap_or(false));
        (expired || self.after.is_zero()).then_some(self.after)
    }
}

#[cfg(test)]
mod tests;
