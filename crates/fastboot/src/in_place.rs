//! Preparation of a state in the validator's own directories.

use std::{path::PathBuf, time::Instant};

use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;
use unsnap_unpack::{Report, Verify};

use crate::{
    Attempts, FastbootError, LedgerLock, Outcome, Pair, Places, Repaired, Request, Survey,
    adopt::adopt,
    bad_archives::BadArchives,
    clear::{clear, old_files},
    cluster::Cluster,
    outcome::micros,
    prepare::Site,
    quarters::Quarters,
    removal::{Removal, Remover, reclaim},
    repair::repair_locked,
    request::Work,
};

/// Ensures that a validator finds a state as new as the newest good pair of archives.
///
/// Refused while a validator is running on the ledger ([`FastbootError::Running`]); nothing is
/// changed then. A state made by [`prepare_beside`](crate::prepare_beside) is adopted if it is whole,
/// as new as the archives, or at most [`Request::max_behind`] slots older, and newer than the
/// existing state. That takes milliseconds.
///
/// Old states are cleared only after a pair of archives has been found whose bank files match their
/// names, and for which there is room. From then on there is no state until the new one is complete
/// and durable. The removal of their files ends when `cancel` is cancelled; the next run removes
/// the rest. On an error, files of the unfinished state are removed, and the validator unpacks
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
    let (places, lock) = request.places.settle_locked()?;
    places.refuse_links()?;
    let work = Work { request, calls, progress, cancel };
    let mut site = InPlace {
        work,
        places: &places,
        lock: &lock,
        cluster: Cluster::of(calls, &request.places.ledger, &request.cluster)?,
        found: Found::look(work, &places),
        adoptable: true,
        was_wrong: false,
    };
    work.prepare_newest(&places, &mut site)
}

/// The ready state and its successor.
struct Found {
    ready: Option<Quarters>,
    next: Option<Quarters>,
    /// The process that works on one of them, if it is to be waited for.
    other: Option<FastbootError>,
}

impl Found {
    /// Finds both. They must not stop us if they are defective, or if others work on them who are not
    /// waited for: the archives can be unpacked.
    fn look(work: Work<'_>, places: &Places) -> Self {
        let Work { request, calls, progress, .. } = work;
        let mut other = None;
        let mut without = |error: FastbootError, then: &str| {
            if request.defers() && matches!(error, FastbootError::Locked { .. }) {
                other.get_or_insert(error);
            } else {
                tracing::warn!(%error, "{then}");
            }
            None
        };
        // Whoever makes the successor's directories holds its lock before.
        let next = Quarters::refuse_next_locked(calls, places)
            .and_then(|()| Quarters::find_next(calls, places))
            .and_then(|next| {
                let format = request.format;
                let mut found = next.iter();
                let promoted =
                    found.try_for_each(|next| next.promote_finished(calls, format, progress));
                promoted.map(|()| next)
            });
        let next = next.unwrap_or_else(|error| {
            without(error, "the successor of the ready state is left alone")
        });
        let ready = Quarters::find_ready(calls, places).unwrap_or_else(|error| {
            without(error, "the ready state cannot be used; unpacking the archives instead")
        });
        Self { ready, next, other }
    }
}

/// The validator's own directories. The ledger is locked.
struct InPlace<'a> {
    work: Work<'a>,
    places: &'a Places,
    lock: &'a LedgerLock,
    cluster: Cluster<'a>,
    /// Removed together with old states.
    found: Found,
    /// False after adoption has failed.
    adoptable: bool,
    /// Whether a state was withdrawn whose accounts were wrong. Perhaps its archives are.
    was_wrong: bool,
}

impl Site for InPlace<'_> {
    fn target(&self) -> &Places {
        self.places
    }

    fn verify(&self) -> Verify {
        match self.work.request.verify {
            Verify::None | Verify::Structure if self.was_wrong => {
                Verify::Accounts { memory_bytes: None }
            }
            asked => asked,
        }
    }

    /// A validator waits, and recording what is durable takes time from each run.
    fn resumes(&self) -> bool {
        false
    }

    fn existing(
        &mut self,
        pair: &Pair,
        bad: &mut BadArchives,
    ) -> Result<Option<Outcome>, FastbootError> {
        let existing = self.find(pair, bad)?;
        match self.found.other.take().filter(|_| existing.is_none()) {
            Some(other) => Err(other),
            None => Ok(existing),
        }
    }

    fn begin(&mut self) -> Result<(), FastbootError> {
        Ok(())
    }

    fn to_clear(&self) -> Result<Vec<PathBuf>, FastbootError> {
        let mut paths = old_files(self.work.calls, self.places)?;
        paths.extend(
            self.found.ready.iter().chain(&self.found.next).flat_map(Quarters::directories),
        );
        Ok(paths)
    }

    fn clear(&mut self, _all: bool) -> Result<Removal, FastbootError> {
        self.places.refuse_used()?;
        let mut removal = clear(self.work.calls, self.places)?;
        removal.extend(self.discard_quarters()?.paths());
        Ok(removal)
    }

    fn start_removal(&self, removal: Removal) -> Remover {
        removal.start(self.work, true)
    }

    fn finish(
        &mut self,
        slot: u64,
        _report: &mut Report,
    ) -> Result<(PathBuf, Removal), FastbootError> {
        Ok((self.places.state(slot), Removal::default()))
    }
}

impl InPlace<'_> {
    /// Returns the outcome if a state as new as a pair of archives exists, or can be adopted.
    fn find(
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
        let Some(slot) = loadable.filter(|slot| *slot >= request.oldest(pair)) else {
            return Ok(None);
        };
        self.cluster.refuse_state(calls, &self.places.state(slot), slot)?;
        let state = repair_locked(calls, self.places, &survey, progress)?;
        if matches!(state, Repaired::Withdrawn { .. } | Repaired::NoState) {
            tracing::warn!(slot, "the state cannot be repaired and was withdrawn");
            return self.adopt(pair, None, bad);
        }
        if self.work.withdraw_wrong_locked(self.places)? {
            self.was_wrong = true;
            return self.adopt(pair, None, bad);
        }
        let behind = pair.slot().saturating_sub(slot);
        let set_aside = bad.rename(calls);
        self.tidy(Removal::default());
        Ok(Some(Outcome::Ready { slot, state, behind, set_aside }))
    }

    /// Adopts the ready state if it is as new as a pair of archives, or not too far behind it, and
    /// newer than slot `above`. If that fails, there is no state, and the archives remain.
    fn adopt(
        &mut self,
        pair: &Pair,
        above: Option<u64>,
        bad: &mut BadArchives,
    ) -> Result<Option<Outcome>, FastbootError> {
        let since = Instant::now();
        let Work { request, calls, progress, .. } = self.work;
        let Some(ready) = self.found.ready.as_ref().filter(|_| self.adoptable) else {
            return Ok(None);
        };
        let state = ready.state(calls, request.format, progress).unwrap_or_else(|error| {
            tracing::warn!(%error, "the ready state cannot be examined");
            None
        });
        let oldest = request.oldest(pair);
        let is_wanted = |slot| slot >= oldest && above.is_none_or(|above| slot > above);
        let Some(state) = state.filter(|state| is_wanted(state.slot)) else { return Ok(None) };
        let slot = state.slot;
        if Attempts::read(calls, &self.places.snapshots).is_suspect_slot(slot) {
            tracing::warn!(
                slot,
                "not adopting the ready state: validators have ended early with it"
            );
            return Ok(None);
        }
        let directory = ready.places.state(slot);
        if let Err(error) = self.cluster.refuse_state(calls, &directory, slot) {
            tracing::warn!(%error, slot, "the ready state cannot be adopted");
            return Ok(None);
        }
        if let Err(error) = ready.assert_adoptable(calls) {
            tracing::warn!(%error, slot, "the ready state cannot be adopted");
            return Ok(None);
        }
        self.places.refuse_used()?;
        let set_aside = bad.rename(calls);
        let (directory, storages) = (self.places.state(slot), state.condition.storages());
        match adopt(calls, &ready.places, self.places, slot, request.shadow) {
            Ok(removal) => {
                let elapsed_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                let behind = pair.slot().saturating_sub(slot);
                let ledger_locked_us = micros(self.lock.held());
                self.tidy(removal);
                Ok(Some(Outcome::Adopted {
                    slot,
                    directory,
                    storages,
                    elapsed_ms,
                    ledger_locked_us,
                    behind,
                    set_aside,
                }))
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

    fn discard_quarters(&mut self) -> Result<Removal, FastbootError> {
        let mut removal = Removal::default();
        for quarters in [self.found.ready.take(), self.found.next.take()].into_iter().flatten() {
            removal.extend(quarters.discard(self.work.calls)?.paths());
        }
        Ok(removal)
    }

    /// Removes leftovers, for a bounded time: a validator may be waiting.
    fn tidy(&mut self, mut removal: Removal) {
        let Work { calls, .. } = self.work;
        match reclaim(calls, self.places).and_then(|()| self.discard_quarters()) {
            Ok(discarded) => removal.extend(discarded.paths()),
            Err(error) => tracing::warn!(
                %error,
                "outdated files cannot be moved aside; the next run will try again"
            ),
        }
        removal.finish_in_time(self.work);
        Removal::tidy(self.work, self.places);
    }
}
