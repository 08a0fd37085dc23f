//! Preparing a state within a deadline, where a panic is just another failure.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use unsnap_failure::{Failure as _, Family};
use unsnap_fastboot::{
    Candidates, FastbootError, Outcome, Places, Repaired, Request, check_newest, marked_states,
    prepare, repair, withdraw_wrong,
};
use unsnap_pass::{CancelToken, Phase, Progress};
use unsnap_ring::Syscalls;
use unsnap_settings::format_duration;
use unsnap_unpack::Verify;

use crate::{
    memory::{Mark, withdraw_given_up},
    record::now,
    wait::{Deadline, SystemClock, Vain, WAIT_MAX, Wait},
};

/// Reason why no state was prepared.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of the library.
    #[error(transparent)]
    Failed(#[from] FastbootError),
    /// Another unsnap, which the error names, did not end in time.
    #[error("{0}; it did not end within {after}", after = format_duration(WAIT_MAX))]
    WaitedTooLong(FastbootError),
    /// The deadline has passed. Holds the time limit.
    #[error("no state was ready within the deadline of {}", format_duration(*.0))]
    Expired(Duration),
    /// Earlier attempts have failed. Holds the reason.
    #[error("nothing is prepared: {0}")]
    Pointless(String),
    /// There can be no thread.
    #[error("cannot start a thread: {0}")]
    NoThread(io::Error),
    /// A bug of unsnap. The panic's message has been printed already.
    #[error("unsnap has panicked: please report this bug")]
    Panicked,
}

impl Failure {
    /// Returns the error for the printer and the exit code.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            // The program's own log has told of the wait.
            Self::Failed(error) | Self::WaitedTooLong(error) => error.into(),
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
    /// None. The archives that the validator is to unpack are checked, and bad ones set aside.
    GoodArchives,
}

/// End of a preparation.
#[derive(Debug)]
pub enum End {
    /// It has succeeded or failed.
    Done(Result<Outcome, Failure>),
    /// The state of this slot is complete, and the time is up or a signal has come while old files
    /// were still being removed. The removal ends with this process; the next run does the rest.
    Tidying(u64),
}

/// A preparation.
pub struct Preparation {
    /// The request.
    pub request: Request,
    /// The state that the validator can use.
    pub wanted: Wanted,
    /// Whether the validator can be told to ignore archives that are newer than the state.
    pub takes_older: bool,
    /// Oldest slot of a state that is of use.
    pub oldest: u64,
    /// The time limit.
    pub deadline: Deadline,
    /// The mark that it has begun; `None` if it is not remembered.
    pub mark: Option<Mark>,
}

/// Tells of another unsnap that is waited for.
pub type Say = Box<dyn FnOnce(&FastbootError) + Send>;

/// Prepares a state, on a thread of its own. Turns panics into failures. If another unsnap prepares
/// a state, that is waited for and its result used.
///
/// The deadline and `cancel` end the preparation, and the wait. What has been unpacked is removed
/// then, because the validator needs the space. Removing what is older than a complete state has no
/// such reason, and is not waited for: then other threads are still running on return.
///
/// `may_leave` says whether that removal may be left to itself at this moment.
///
/// The threads that prepare are confined, the calling thread is not.
pub fn prepare_guarded(
    mut preparation: Preparation,
    say: Say,
    progress: &Progress,
    cancel: &CancelToken,
    may_leave: impl Fn() -> bool,
) -> End {
    let (deadline, places) = (preparation.deadline, preparation.request.places.clone());
    let work = {
        let (progress, cancel) = (progress.clone(), cancel.clone());
        let mut mark = preparation.mark.take();
        move || preparation.carry_out(mark.as_mut(), say, &progress, &cancel)
    };
    // No phase of removal precedes the removal of old marks, so this state is the new one.
    let complete = || {
        let states = marked_states(&Syscalls::default(), &places).ok()?;
        let is_removing = progress.snapshot().phase == Phase::Removing;
        (is_removing && may_leave()).then_some(states.first()?.0)
    };
    within(deadline, cancel, complete, work)
}

impl Preparation {
    fn carry_out(
        &self,
        mut mark: Option<&mut Mark>,
        say: Say,
        progress: &Progress,
        cancel: &CancelToken,
    ) -> Result<Outcome, Failure> {
        let wait = Wait { places: &self.request.places, oldest: self.oldest };
        let is_over = || cancel.is_cancelled();
        let prepared = wait.for_others(&mut SystemClock::default(), is_over, say, |again| {
            if again && let Some(mark) = &mut mark {
                mark.set_again(now());
            }
            let result = self.attempt(again, progress, cancel);
            if let (Err(FastbootError::Locked { .. }), Some(mark)) = (&result, &mut mark) {
                mark.take_away();
            }
            result
        });
        prepared.map_err(|vain| match vain {
            Vain::Failed(error) => Failure::Failed(error),
            Vain::TooLong(error) => Failure::WaitedTooLong(error),
        })
    }

    fn attempt(
        &self,
        again: bool,
        progress: &Progress,
        cancel: &CancelToken,
    ) -> Result<Outcome, FastbootError> {
        let mut request = self.request.clone();
        if again {
            // The other unsnap may have completed such a state meanwhile.
            withdraw_given_up(&request.places)?;
            if self.takes_older && request.pair.is_none() {
                // What was as new as the archives when the wait began is new enough at its end.
                let newest = newest_slot(&request.places).unwrap_or(self.oldest);
                request.max_behind = request.max_behind.max(newest.saturating_sub(self.oldest));
            }
        }
        match (self.wanted, request.replace) {
            (Wanted::Newest, _) | (Wanted::Any, true) => {
                prepare(&request, &Syscalls::default(), progress, cancel)
            }
            (Wanted::Any, false) => prepare_any(&request, progress, cancel),
            (Wanted::GoodArchives, _) => {
                Err(check_newest(&request, &Syscalls::default(), progress, cancel))
            }
        }
    }
}

/// Returns the slot of the newest pair of archives.
pub fn newest_slot(places: &Places) -> Option<u64> {
    Some(Candidates::find(&places.search_dirs()).ok()?.best()?.slot())
}

/// Works on a thread of its own until the work is done, or until the deadline has passed or `cancel`
/// is cancelled while `complete` says that only tidying up is left.
fn within(
    deadline: Deadline,
    cancel: &CancelToken,
    complete: impl Fn() -> Option<u64>,
    work: impl FnOnce() -> Result<Outcome, Failure> + Send + 'static,
) -> End {
    if deadline.passed().is_some() {
        cancel.cancel();
    }
    let (done, ended) = channel();
    let work = move || {
        // The receiver is gone if nobody waits any longer.
        let _ = done.send(guarded(work));
    };
    let thread = thread::Builder::new().name("unsnap-prepare".to_owned()).spawn(work);
    if let Err(error) = thread {
        return End::Done(Err(Failure::NoThread(error)));
    }
    let mut expired = None;
    loop {
        if expired.is_none() {
            expired = deadline.passed();
        }
        if expired.is_some() {
            cancel.cancel();
        }
        match ended.recv_timeout(LOOK_EVERY) {
            Ok(result) => {
                return End::Done(result.map_err(|failure| match (failure, expired) {
                    (Failure::Failed(error), Some(after))
                        if error.family() == Family::Cancelled =>
                    {
                        Failure::Expired(after)
                    }
                    (failure, _) => failure,
                }));
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The thread sends in any case, unless it could not even unwind.
            Err(RecvTimeoutError::Disconnected) => return End::Done(Err(Failure::Panicked)),
        }
        if cancel.is_cancelled()
            && let Some(slot) = complete()
        {
            return End::Tidying(slot);
        }
    }
}

/// Interval at which the deadline and signals are looked at. A guess.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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
            if withdraw_wrong(request, &calls, progress, cancel)? {
                // Perhaps the archives are wrong as well.
                let verify = match request.verify {
                    Verify::None | Verify::Structure => Verify::Accounts { memory_bytes: None },
                    asked @ Verify::Accounts { .. } => asked,
                };
                let request = Request { verify, ..request.clone() };
                return prepare(&request, &calls, progress, cancel);
            }
            Ok(Outcome::Ready { slot, state, behind: 0, set_aside: Vec::new() })
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
    match guarded::<_, FastbootError>(|| {
        repair(&Syscalls::default(), &request.places, &Progress::default())
    }) {
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
fn guarded<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::Panicked),
    }
}

#[cfg(test)]
mod tests;
