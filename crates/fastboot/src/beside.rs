//! Preparation of a ready state beside the validator's own directories.

use std::path::PathBuf;

use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;
use unsnap_unpack::{Report, Verify};

use crate::{
    Condition, FastbootError, LedgerLock, Outcome, Pair, Places, Repaired, Request, StateSurvey,
    Survey,
    bad_archives::BadArchives,
    prepare::Site,
    quarters::{Quarters, whole_state},
    removal::{Removal, Remover},
    request::Work,
};

/// Ensures that a state as new as the newest good pair of archives is ready, without touching any
/// file that a validator uses, whether one is running or not: see [`Places::beside`].
/// [`adopt_ready`](crate::adopt_ready) or [`prepare`](crate::prepare) adopts the ready state when
/// the ledger is free. The ledger's lock is never taken.
///
/// The ready state is complete and durable, or there is none. An older ready state stays, and can be
/// adopted by other processes when this one is killed, until its successor ([`Places::next`]) is
/// complete and takes its place by renames. Only if there is no room for both is it cleared first,
/// with a warning, when the bank files of the new archives have matched their names. Bad archives
/// are renamed, but only when the validator has something else to start from.
///
/// Returns [`Outcome::Prepared`] if the state was made now, and [`Outcome::Ready`] if it existed or if
/// the validator has a state as new.
///
/// Fails with [`PassError::Request`](unsnap_pass::PassError::Request) if renames alone could not adopt
/// the state, for example because `run` is a mount point, and with [`FastbootError::Locked`] if
/// another unsnap is preparing a ready state, or is at work on the ledger.
///
/// [`Request::replace`] concerns the ready state only: no state is adopted over an equally new one.
///
/// If `cancel` is cancelled, or the process killed, the complete storages of the full archive stay,
/// unless accounts are verified. The next run goes on with them, if it prepares the same full archive.
/// After any other error they are removed.
///
/// Old files are removed slowly, to the end or until `cancel` is cancelled. What earlier runs have
/// left is removed before anything is unpacked, so that leftovers never exceed two states, however
/// often runs are cancelled.
pub fn prepare_beside(
    request: &Request,
    calls: &Syscalls,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Outcome, FastbootError> {
    let places = request.places.settle()?;
    places.refuse_links()?;
    LedgerLock::refuse_ours(calls, &places.ledger)?;
    let work = Work { request, calls, progress, cancel };
    let next = Quarters::next(calls, &places)?;
    let mut site = Beside { work, places: &places, ready: places.beside(), next };
    let result = site.prepare();
    if let Err(error) = site.tidy(&result) {
        tracing::warn!(%error, "leftovers of earlier runs remain; the next run will remove them");
    }
    result
}

/// The quarters of a ready state's successor.
struct Beside<'a> {
    work: Work<'a>,
    /// The validator's own directories.
    places: &'a Places,
    /// Directories of the ready state. Others may adopt it at any time.
    ready: Places,
    next: Quarters,
}

impl Site for Beside<'_> {
    fn target(&self) -> &Places {
        &self.next.places
    }

    fn verify(&self) -> Verify {
        self.work.request.verify
    }

    fn resumes(&self) -> bool {
        true
    }

    fn existing(
        &mut self,
        pair: &Pair,
        bad: &mut BadArchives,
    ) -> Result<Option<Outcome>, FastbootError> {
        let Work { request, calls, progress, .. } = self.work;
        let ready = if request.replace {
            None
        } else {
            whole_state(calls, &self.ready, request.format, progress)?
        };
        let survey = Survey::of_states(calls, self.places, progress)?;
        let existing = newest_existing(pair, ready.as_ref(), survey.loadable());
        Ok(existing.map(|(slot, state)| Outcome::Ready {
            slot,
            state,
            behind: 0,
            set_aside: bad.rename(calls),
        }))
    }

    /// Removes leftovers first: otherwise each run that is cancelled would add to them.
    fn begin(&mut self) -> Result<(), FastbootError> {
        let Work { cancel, .. } = self.work;
        self.left_over()?.finish_slowly(self.work);
        if cancel.is_cancelled() { Err(FastbootError::CANCELLED) } else { Ok(()) }
    }

    fn to_clear(&self) -> Result<Vec<PathBuf>, FastbootError> {
        Ok(self.ready.accounts.iter().chain([&self.ready.snapshots]).cloned().collect())
    }

    fn clear(&mut self, all: bool) -> Result<Removal, FastbootError> {
        if all { self.discard_ready() } else { Ok(Removal::default()) }
    }

    fn start_removal(&self, removal: Removal) -> Remover {
        removal.start(self.work, false)
    }

    fn finish(
        &mut self,
        slot: u64,
        report: &mut Report,
    ) -> Result<(PathBuf, Removal), FastbootError> {
        let replaced = self.next.promote(self.work.calls)?;
        let (next, ready) = (&self.next.places, &self.ready);
        for path in &mut report.accounts_paths {
            let places = next.accounts.iter().zip(&ready.accounts);
            let mut moved = places.filter(|(next, _)| next.display().to_string() == path.path);
            if let Some((_, ready)) = moved.next_back() {
                path.path = ready.display().to_string();
            }
        }
        Ok((ready.state(slot), replaced))
    }
}

/// Returns the newest state that makes a pair of archives unnecessary: `ready`, or the state that the
/// validator would load.
fn newest_existing(
    pair: &Pair,
    ready: Option<&StateSurvey>,
    loadable: Option<&StateSurvey>,
) -> Option<(u64, Repaired)> {
    let is_new = |state: &&StateSurvey| state.slot >= pair.slot();
    let ready = ready.filter(is_new);
    let ready = ready.map(|state| (state.slot, Repaired::WasWhole { slot: state.slot }));
    let used = loadable.filter(is_new).and_then(usable);
    ready.into_iter().chain(used).max_by_key(|(slot, _)| *slot)
}

/// Returns a state that a validator may be using, unless the validator would fail to load it.
fn usable(state: &StateSurvey) -> Option<(u64, Repaired)> {
    let slot = state.slot;
    let left_alone = |reason: String| Some((slot, Repaired::LeftAlone { slot, reason }));
    match &state.condition {
        Condition::Whole { .. } => Some((slot, Repaired::WasWhole { slot })),
        Condition::Unknown { reason } => left_alone(reason.clone()),
        Condition::Damaged { lost, repairable: true, .. } => {
            left_alone(format!("{lost} storages will be linked again when the ledger is free"))
        }
        Condition::Damaged { .. } | Condition::NotLoadable { .. } => None,
    }
}

impl Beside<'_> {
    fn prepare(&mut self) -> Result<Outcome, FastbootError> {
        let Work { request, calls, progress, .. } = self.work;
        self.next.promote_finished(calls, request.format, progress)?;
        // Refused before the archives are read.
        self.next.make(calls)?;
        let (work, places) = (self.work, self.places);
        work.prepare_newest(places, self)
    }

    /// Removes leftovers of earlier runs, a ready state that is not newer than the validator's, and
    /// empty directories. A state that was just prepared stays, and so do the files of a cancelled
    /// run that can be resumed.
    fn tidy(self, result: &Result<Outcome, FastbootError>) -> Result<(), FastbootError> {
        let Work { request, calls, progress, cancel } = self.work;
        let is_prepared = matches!(result, Ok(Outcome::Prepared(_)));
        let is_needed = || {
            let used = Survey::of_states(calls, self.places, progress)?;
            let used = used.loadable().and_then(usable).map(|(slot, _)| slot);
            let state = Survey::of_states(calls, &self.ready, progress)?;
            let state = state.loadable().map(|state| state.slot);
            Ok::<_, FastbootError>(state.is_some_and(|slot| used.is_none_or(|used| slot > used)))
        };
        if !is_prepared && !is_needed()? {
            self.discard_ready()?;
        }
        let is_interrupted = result.is_err() && cancel.is_cancelled();
        let stays = is_interrupted && self.next.unfinished_since(calls)?.is_some();
        // Complete, if only its renames have failed.
        if !stays && self.next.state(calls, request.format, progress)?.is_none() {
            self.next.discard(calls)?;
        }
        self.left_over()?.finish_slowly(self.work);
        Ok(())
    }

    /// Moves the ready state aside, unless another process is adopting it.
    fn discard_ready(&self) -> Result<Removal, FastbootError> {
        let ready = Quarters::find_ready(self.work.calls, self.places)?;
        ready.map_or_else(|| Ok(Removal::default()), |ready| ready.discard(self.work.calls))
    }

    /// Returns what runs that have ended have left, in the validator's directories and beside.
    fn left_over(&self) -> Result<Removal, FastbootError> {
        let Work { calls, .. } = self.work;
        let mut removal = Removal::default();
        for places in [self.places, &self.ready] {
            Removal::default().staged(calls, places)?;
            removal.extend(Removal::left_over(calls, places)?.paths());
        }
        Ok(removal)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use unsnap_layout::ArchiveName;

    use super::*;
    use crate::Candidate;

    fn pair(slot: u64) -> Pair {
        let name = format!("snapshot-{slot}-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst");
        let archive = ArchiveName::parse(&name).unwrap();
        let full =
            Candidate { path: name.into(), name: archive, bytes: 1, remote: false, offered: None };
        Pair::new(full, None).unwrap()
    }

    fn state(slot: u64, condition: Condition) -> StateSurvey {
        let directory = PathBuf::new();
        StateSurvey { slot, directory, condition, incomplete: false, prepared: true }
    }

    fn whole(slot: u64) -> StateSurvey {
        state(slot, Condition::Whole { storages: 1 })
    }

    fn damaged(slot: u64, repairable: bool) -> StateSurvey {
        state(slot, Condition::Damaged { lost: 3, storages: 9, repairable })
    }

    #[test]
    fn a_state_as_new_as_the_archives_makes_them_unnecessary() {
        let slot_of = |pair_slot, ready: Option<StateSurvey>, used: Option<StateSurvey>| {
            newest_existing(&pair(pair_slot), ready.as_ref(), used.as_ref()).map(|(slot, _)| slot)
        };
        assert_eq!(slot_of(10, None, None), None);
        assert_eq!(slot_of(10, Some(whole(9)), Some(whole(9))), None);
        assert_eq!(slot_of(10, Some(whole(10)), None), Some(10));
        assert_eq!(slot_of(10, None, Some(whole(10))), Some(10));
        assert_eq!(slot_of(10, Some(whole(10)), Some(whole(12))), Some(12));
        assert_eq!(slot_of(10, Some(whole(12)), Some(whole(10))), Some(12));
        // The validator would fail to load it.
        assert_eq!(slot_of(10, None, Some(damaged(12, false))), None);
        let not_loadable = Condition::NotLoadable { reason: String::new() };
        assert_eq!(slot_of(10, None, Some(state(12, not_loadable))), None);
    }

    #[test]
    fn a_state_in_use_is_left_alone_if_it_can_be_repaired_or_is_unknown() {
        let newest = |used| newest_existing(&pair(10), None, Some(&used)).unwrap().1;
        assert_eq!(newest(whole(11)), Repaired::WasWhole { slot: 11 });
        let Repaired::LeftAlone { slot: 11, reason } = newest(damaged(11, true)) else { panic!() };
        assert!(reason.starts_with("3 storages"), "{reason}");
        let unknown = Condition::Unknown { reason: "version 9".to_owned() };
        let expected = Repaired::LeftAlone { slot: 11, reason: "version 9".to_owned() };
        assert_eq!(newest(state(11, unknown)), expected);
    }
}
