//! Adoption of a ready state by itself.

use std::time::Instant;

use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;

use crate::{
    Attempts, Candidates, FastbootError, LedgerLock, Outcome, Pair, Places, Request, StateSurvey,
    Survey,
    adopt::adopt,
    bad_archives::BadArchives,
    outcome::micros,
    quarters::{Quarters, exist},
    request::Work,
    states::marked_states,
};

/// Moves the ready state into the validator's directories, if it is whole, newer than the state
/// there, and at most [`Request::max_behind`] slots older than the newest pair of archives.
///
/// Returns `None` if there is no such state, or no archive, and no other process is preparing one.
/// Fails with [`FastbootError::Running`] if a validator is running or being started, with
/// [`FastbootError::AccountsInUse`] if another process uses storages there, with
/// [`FastbootError::Locked`] if another unsnap is at work on the ledger or on the ready state, or is
/// preparing its successor and nothing else can be adopted, and with
/// [`PassError::Request`](unsnap_pass::PassError::Request) if renames alone cannot adopt the state. Nothing is changed then. After any other error, the
/// validator finds its old state, the new one, or none, and unpacks the archives.
///
/// States are examined before the ledger is locked. The lock is held for renames only, some
/// milliseconds. Old files are removed afterwards, for at most ten seconds; the next run removes the
/// rest.
///
/// [`Request::pair`] is the pair to compare with, if it is given. [`Request::replace`] is ignored.
pub fn adopt_ready(
    request: &Request,
    calls: &Syscalls,
    progress: &Progress,
) -> Result<Option<Outcome>, FastbootError> {
    let since = Instant::now();
    let unsettled = &request.places;
    if !exist(calls, &unsettled.beside())? && !exist(calls, &unsettled.next())? {
        return Ok(None);
    }
    let places = unsettled.settle()?;
    places.refuse_links()?;
    // A running validator is noticed before 430,000 storages are examined.
    let mut locked = LedgerLock::take_beside(&places)?.release();
    // Another process may be preparing a successor. The ready state can be adopted all the same.
    match Quarters::find_next(calls, &places) {
        Ok(Some(next)) => next.promote_finished(calls, request.format, progress)?,
        Ok(None) | Err(FastbootError::Locked { .. }) => {}
        Err(error) => return Err(error),
    }
    // If there is nothing to adopt yet, it is worth waiting for the successor.
    let nothing = || Quarters::refuse_next_locked(calls, &places).map(|()| None);
    let Some(ready) = Quarters::find_ready(calls, &places)? else { return nothing() };
    let Some(state) = ready.state(calls, request.format, progress)? else { return nothing() };
    if Attempts::read(calls, &places.snapshots).is_suspect_slot(state.slot) {
        let slot = state.slot;
        tracing::info!(slot, "not adopting the ready state: validators have ended early with it");
        return nothing();
    }
    let mut bad = BadArchives::new(&request.known_bad, places.search_dirs());
    let Some(pair) = newest_pair(request, &places, &bad)? else { return nothing() };
    if state.slot < request.oldest(&pair) {
        let (slot, newest) = (state.slot, pair.slot());
        tracing::info!(slot, newest, "the ready state is too old to be adopted");
        return nothing();
    }
    let marked = marked_states(calls, &places)?;
    if !is_newer(calls, &places, &state, progress)? {
        return nothing();
    }
    ready.assert_adoptable(calls)?;
    places.refuse_used()?;
    let set_aside = bad.rename(calls);

    let lock = LedgerLock::take_beside(&places)?;
    if marked_states(calls, &places)? != marked {
        tracing::info!("a validator has written a state in the meantime");
        return Ok(None);
    }
    let adopted = adopt(calls, &ready.places, &places, state.slot, request.shadow);
    locked += lock.release();

    let mut removal = adopted?;
    let elapsed_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    match ready.discard(calls) {
        Ok(empty) => removal.extend(empty.paths()),
        Err(error) => tracing::warn!(%error, "the empty directories of the ready state remain"),
    }
    drop(ready);
    let cancel = CancelToken::default();
    removal.finish_in_time(Work { request, calls, progress, cancel: &cancel });
    let slot = state.slot;
    Ok(Some(Outcome::Adopted {
        slot,
        directory: places.state(slot),
        storages: state.condition.storages(),
        elapsed_ms,
        ledger_locked_us: micros(locked),
        behind: pair.slot().saturating_sub(slot),
        set_aside,
    }))
}

/// Returns the pair that a validator would unpack if it were not known to be bad.
fn newest_pair(
    request: &Request,
    places: &Places,
    bad: &BadArchives,
) -> Result<Option<Pair>, FastbootError> {
    if let Some(pair) = &request.pair {
        return Ok(Some(pair.clone()));
    }
    let mut candidates = Candidates::find(&places.search_dirs())?;
    for path in bad.paths() {
        candidates.set_aside(path);
    }
    Ok(candidates.best())
}

/// Returns whether a state is newer than the one that a validator would load and not fail on.
fn is_newer(
    calls: &Syscalls,
    places: &Places,
    state: &StateSurvey,
    progress: &Progress,
) -> Result<bool, FastbootError> {
    let marked = marked_states(calls, places)?;
    if marked.first().is_none_or(|(slot, _)| *slot < state.slot) {
        return Ok(true);
    }
    let survey = Survey::of_states(calls, places, progress)?;
    let used = survey.loadable().filter(|used| !used.condition.is_hopeless());
    Ok(used.is_none_or(|used| used.slot < state.slot))
}
