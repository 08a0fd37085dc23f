//! The newest state is prepared beside a running validator.

use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;

use crate::{
    Condition, FastbootError, LedgerLock, Outcome, Pair, Places, Repaired, Request, StateSurvey,
    Survey,
    clear::clear,
    prepare::{Bad, Ground, Work},
    ready::Ready,
    removal::{Removal, Remover},
};

/// Sees to it that a state as new as the newest good pair of archives lies ready, without touching
/// anything that a running validator uses: see [`Places::beside`]. [`prepare`](crate::prepare) adopts it
/// when the ledger is free.
///
/// It is complete and durable, or there is none. There is at most one: an older one is cleared away
/// when the archives of the new one have proven to be those of their names, and there is room.
/// Archives that prove bad are renamed, but only when there is something else for the validator.
///
/// [`Outcome::Prepared`]: it lies ready now. [`Outcome::Ready`]: it did already, or the validator has a
/// state as new. An [`FastbootError::Request`] where it could not be adopted by renames alone, as
/// when `run` is a mount point; [`CommitError::Locked`] if another unsnap is at work there, or
/// on the ledger.
///
/// [`Request::replace`] is about what lies ready only: nothing is adopted over a state as new.
///
/// What is cleared away is removed slowly, to the end, or until `cancel` is.
pub fn prepare_beside(
    request: &Request,
    calls: &Syscalls,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Outcome, FastbootError> {
    let places = request.places.settle()?;
    places.refuse_links()?;
    LedgerLock::refuse_ours(&places.ledger)?;
    let work = Work { request, calls, progress, cancel };
    let ready = Ready::make(calls, &places, progress)?;
    let mut ground = Beside { work, places: &places, ready };
    let taken_over = Removal::take_over(calls, &places, &ground.ready.places);
    let result = taken_over.and_then(|()| work.newest(&places, &mut ground));
    let is_prepared = matches!(result, Ok(Outcome::Prepared(_)));
    if let Err(error) = ground.tidy(is_prepared) {
        tracing::warn!(%error, "what is of no use is left to the next run");
    }
    result
}

/// The places of a ready state, locked.
struct Beside<'a> {
    work: Work<'a>,
    /// Those that a validator looks at.
    places: &'a Places,
    ready: Ready,
}

impl Ground for Beside<'_> {
    fn target(&self) -> &Places {
        &self.ready.places
    }

    fn there(&mut self, pair: &Pair, bad: &mut Bad) -> Result<Option<Outcome>, FastbootError> {
        let Work { request, calls, progress, .. } = self.work;
        let ready = if request.replace {
            None
        } else {
            self.ready.state(calls, request.format, progress)?
        };
        let ready = ready.filter(|state| state.slot >= pair.slot());
        let ready = ready.map(|state| (state.slot, Repaired::WasWhole { slot: state.slot }));
        let survey = Survey::of_states(calls, self.places, progress)?;
        let used = survey.loadable().filter(|state| state.slot >= pair.slot()).and_then(as_good);
        let newest = ready.into_iter().chain(used).max_by_key(|(slot, _)| *slot);
        newest
            .map(|(slot, state)| Ok(Outcome::Ready { slot, state, set_aside: bad.rename(calls)? }))
            .transpose()
    }

    fn cleared(&self) -> Vec<&Places> {
        vec![&self.ready.places]
    }

    fn clear(&mut self) -> Result<Removal, FastbootError> {
        clear(self.work.calls, &self.ready.places)
    }

    fn remove(&self, removal: Removal) -> Remover {
        removal.start(self.work, Some(self.work.cancel))
    }
}

/// What a state is good for that a validator may be using.
fn as_good(state: &StateSurvey) -> Option<(u64, Repaired)> {
    let slot = state.slot;
    let left_alone = |reason: String| Some((slot, Repaired::LeftAlone { slot, reason }));
    match &state.condition {
        Condition::Whole { .. } => Some((slot, Repaired::WasWhole { slot })),
        Condition::Unknown { reason } => left_alone(reason.clone()),
        Condition::Damaged { lost, repairable: true, .. } => {
            left_alone(format!("{lost} storages are to be linked again when the ledger is free"))
        }
        Condition::Damaged { .. } | Condition::NotLoadable { .. } => None,
    }
}

impl Beside<'_> {
    /// Removes what is of no use: what others have left, a ready state that is not newer than the
    /// validator's, the places themselves if nothing is in them. What has just been prepared stays.
    fn tidy(self, is_prepared: bool) -> Result<(), FastbootError> {
        let Self { work, places, ready } = self;
        let Work { calls, progress, .. } = work;
        let is_of_use = || {
            let used = Survey::of_states(calls, places, progress)?;
            let used = used.loadable().and_then(as_good).map(|(slot, _)| slot);
            let state = Survey::of_states(calls, &ready.places, progress)?;
            let state = state.loadable().map(|state| state.slot);
            Ok::<_, FastbootError>(state.is_some_and(|slot| used.is_none_or(|used| slot > used)))
        };
        if is_prepared || is_of_use()? {
            Removal::default().staged(calls, &ready.places)?;
            Removal::left_over(calls, &ready.places)?.finish_slowly(work);
        } else {
            ready.discard(calls)?.finish_slowly(work);
        }
        Ok(())
    }
}
