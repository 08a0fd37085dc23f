//! The newest state is put where a validator finds it.

use std::time::Instant;

use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;

use crate::{
    FastbootError, Outcome, Pair, Places, Repaired, Request, Survey,
    adopt::adopt,
    clear::clear,
    prepare::{Bad, Ground, Work},
    ready::Ready,
    removal::{Removal, Remover},
    repair::repair_locked,
};

/// Sees to it that a validator finds a state as new as the newest good pair of archives.
///
/// Refused while a validator is running on the ledger ([`FastbootError::Running`]); nothing is touched then.
/// A state that [`prepare_beside`](crate::prepare_beside) has made is adopted, if it is whole, as new as
/// the archives and newer than what there is: that takes milliseconds.
///
/// What is old is cleared away when a pair of archives has been found whose bank files are those of
/// their names, and that there is room for; until then everything is as it was. From then on there
/// is no state until the new one is complete and durable. On an error what was begun is taken back,
/// and the validator goes to the archives.
///
/// Archives that prove bad are renamed, so that the validator does not choose them either, but only
/// when there is something else for it.
pub fn prepare(
    request: &Request,
    calls: &Syscalls,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Outcome, FastbootError> {
    let (places, _lock) = request.places.settle_locked()?;
    places.refuse_links()?;
    let work = Work { request, calls, progress, cancel };
    // Whatever is wrong with what lies ready: the archives are there.
    let ready = Ready::find(calls, &places).unwrap_or_else(|error| {
        tracing::warn!(%error, "what lies ready is left alone");
        None
    });
    let mut ground = InPlace { work, places: &places, ready, adoptable: true };
    work.newest(&places, &mut ground)
}

/// Where a validator looks. The ledger is locked.
struct InPlace<'a> {
    work: Work<'a>,
    places: &'a Places,
    /// What lies ready; goes away with what is old.
    ready: Option<Ready>,
    /// It has not been tried in vain.
    adoptable: bool,
}

impl Ground for InPlace<'_> {
    fn target(&self) -> &Places {
        self.places
    }

    fn there(&mut self, pair: &Pair, bad: &mut Bad) -> Result<Option<Outcome>, FastbootError> {
        let Work { request, calls, progress, .. } = self.work;
        if request.replace {
            return Ok(None);
        }
        let survey = Survey::of_states(calls, self.places, progress)?;
        let loadable = survey.loadable().map(|state| state.slot);
        if let Some(adopted) = self.adopt(pair, loadable, bad)? {
            return Ok(Some(adopted));
        }
        let Some(slot) = loadable.filter(|slot| *slot >= pair.slot()) else { return Ok(None) };
        let state = repair_locked(calls, self.places, &survey, progress)?;
        if matches!(state, Repaired::Withdrawn { .. } | Repaired::NoState) {
            tracing::warn!(slot, "the state cannot be made whole, and is withdrawn");
            return self.adopt(pair, None, bad);
        }
        let set_aside = bad.rename(calls)?;
        self.tidy(Removal::default());
        Ok(Some(Outcome::Ready { slot, state, set_aside }))
    }

    fn cleared(&self) -> Vec<&Places> {
        std::iter::once(self.places).chain(self.ready.as_ref().map(|ready| &ready.places)).collect()
    }

    fn clear(&mut self) -> Result<Removal, FastbootError> {
        let mut removal = clear(self.work.calls, self.places)?;
        if let Some(ready) = self.ready.take() {
            removal.extend(ready.discard(self.work.calls)?.paths());
        }
        Ok(removal)
    }

    fn remove(&self, removal: Removal) -> Remover {
        removal.start(self.work, None)
    }
}

impl InPlace<'_> {
    /// Adopts what lies ready if it is as new as a pair of archives, and newer than `above`. If that
    /// fails, there is no state, and the archives remain.
    fn adopt(
        &mut self,
        pair: &Pair,
        above: Option<u64>,
        bad: &mut Bad,
    ) -> Result<Option<Outcome>, FastbootError> {
        let since = Instant::now();
        let Work { request, calls, progress, .. } = self.work;
        let Some(ready) = self.ready.as_ref().filter(|_| self.adoptable) else { return Ok(None) };
        let state = ready.state(calls, request.format, progress).unwrap_or_else(|error| {
            tracing::warn!(%error, "what lies ready cannot be looked at");
            None
        });
        let is_newest = |slot| slot >= pair.slot() && above.is_none_or(|above| slot > above);
        let Some(state) = state.filter(|state| is_newest(state.slot)) else { return Ok(None) };
        let slot = state.slot;
        let set_aside = bad.rename(calls)?;
        let (directory, storages) = (self.places.state(slot), state.condition.storages());
        match adopt(calls, &ready.places, self.places, slot, request.shadow) {
            Ok(removal) => {
                let elapsed_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.tidy(removal);
                Ok(Some(Outcome::Adopted { slot, directory, storages, elapsed_ms, set_aside }))
            }
            Err(error) => {
                // Part of it may have been moved: then it is whole nowhere, and goes with what is old.
                tracing::warn!(%error, slot, "what lies ready cannot be adopted");
                self.adoptable = false;
                Ok(None)
            }
        }
    }

    /// Removes what is of no use, as far as there is time: a validator may be waiting.
    fn tidy(&mut self, mut removal: Removal) {
        let Work { calls, progress, .. } = self.work;
        if let Some(ready) = self.ready.take() {
            match ready.discard(calls) {
                Ok(discarded) => removal.extend(discarded.paths()),
                Err(error) => tracing::warn!(%error, "what lay ready is left to the next run"),
            }
        }
        removal.finish_in_time(calls, progress);
        Removal::tidy(calls, self.places, progress);
    }
}
