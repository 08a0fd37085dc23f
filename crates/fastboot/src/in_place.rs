//! Preparation of a state in the validator's own directories.

use std::time::Instant;

use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;

use crate::{
    FastbootError, Outcome, Pair, Places, Repaired, Request, Survey,
    adopt::adopt,
    bad_archives::BadArchives,
    clear::clear,
    prepare::Site,
    ready::Ready,
    removal::{Removal, Remover},
    repair::repair_locked,
    request::Work,
};

/// Ensures that a validator finds a state as new as the newest good pair of archives.
///
/// Refused while a validator is running on the ledger ([`FastbootError::Running`]); nothing is
/// changed then. A state made by [`prepare_beside`](crate::prepare_beside) is adopted if it is whole,
/// as new as the archives and newer than the existing state. That takes milliseconds.
///
/// Old states are cleared only after a pair of archives has been found whose bank files match their
/// names, and for which there is room. From then on there is no state until the new one is complete
/// and durable. On an error, files of the unfinished state are removed, and the validator unpacks
/// the archives itself.
///
/// Bad archives are renamed, so that the validator does not choose them either, but only when it has
/// something else to start from.
pub fn prepare(
    request: &Request,
    calls: &Syscalls,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Outcome, FastbootError> {
    let (places, _lock) = request.places.settle_locked()?;
    places.refuse_links()?;
    let work = Work { request, calls, progress, cancel };
    // A defective ready state must not stop us: the archives can be unpacked.
    let ready = Ready::find(calls, &places).unwrap_or_else(|error| {
        tracing::warn!(%error, "the ready state cannot be used; unpacking the archives instead");
        None
    });
    let mut site = InPlace { work, places: &places, ready, adoptable: true };
    work.prepare_newest(&places, &mut site)
}

/// The validator's own directories. The ledger is locked.
struct InPlace<'a> {
    work: Work<'a>,
    places: &'a Places,
    /// The ready state. It is removed together with old states.
    ready: Option<Ready>,
    /// False after adoption has failed.
    adoptable: bool,
}

impl Site for InPlace<'_> {
    fn target(&self) -> &Places {
        self.places
    }

    fn existing(
        &mut self,
        pair: &Pair,
        bad: &mut BadArchives,
    ) -> Result<Option<Outcome>, FastbootError> {
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
            tracing::warn!(slot, "the state cannot be repaired and was withdrawn");
            return self.adopt(pair, None, bad);
        }
        let set_aside = bad.rename(calls)?;
        self.tidy(Removal::default());
        Ok(Some(Outcome::Ready { slot, state, set_aside }))
    }

    fn to_clear(&self) -> Vec<&Places> {
        std::iter::once(self.places).chain(self.ready.as_ref().map(|ready| &ready.places)).collect()
    }

    fn clear(&mut self) -> Result<Removal, FastbootError> {
        let mut removal = clear(self.work.calls, self.places)?;
        if let Some(ready) = self.ready.take() {
            removal.extend(ready.discard(self.work.calls)?.paths());
        }
        Ok(removal)
    }

    fn start_removal(&self, removal: Removal) -> Remover {
        removal.start(self.work, None)
    }
}

impl InPlace<'_> {
    /// Adopts the ready state if it is as new as a pair of archives and newer than slot `above`. If
    /// that fails, there is no state, and the archives remain.
    fn adopt(
        &mut self,
        pair: &Pair,
        above: Option<u64>,
        bad: &mut BadArchives,
    ) -> Result<Option<Outcome>, FastbootError> {
        let since = Instant::now();
        let Work { request, calls, progress, .. } = self.work;
        let Some(ready) = self.ready.as_ref().filter(|_| self.adoptable) else { return Ok(None) };
        let state = ready.state(calls, request.format, progress).unwrap_or_else(|error| {
            tracing::warn!(%error, "the ready state cannot be examined");
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
                // Part of the state may have been moved. It is whole nowhere then, and is removed
                // together with old states.
                tracing::warn!(%error, slot, "the ready state cannot be adopted");
                self.adoptable = false;
                Ok(None)
            }
        }
    }

    /// Removes leftovers, for a bounded time: a validator may be waiting.
    fn tidy(&mut self, mut removal: Removal) {
        let Work { calls, progress, .. } = self.work;
        if let Some(ready) = self.ready.take() {
            match ready.discard(calls) {
                Ok(discarded) => removal.extend(discarded.paths()),
                Err(error) => tracing::warn!(
                    %error,
                    "an outdated ready state cannot be moved aside; the next run will try again"
                ),
            }
        }
        removal.finish_in_time(calls, progress);
        Removal::tidy(calls, self.places, progress);
    }
}
