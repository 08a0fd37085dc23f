//! Preparation of a ready state beside a running validator.

use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;

use crate::{
    Condition, FastbootError, LedgerLock, Outcome, Pair, Places, Repaired, Request, StateSurvey,
    Survey,
    bad_archives::BadArchives,
    clear::clear,
    prepare::Site,
    ready::Ready,
    removal::{Removal, Remover},
    request::Work,
};

/// Ensures that a state as new as the newest good pair of archives is ready, without touching any
/// file that a running validator uses: see [`Places::beside`]. [`prepare`](crate::prepare) adopts the
/// ready state when the ledger is free.
///
/// The ready state is complete and durable, or there is none. There is at most one: an older one is
/// cleared when the bank files of the new archives have matched their names and there is room. Bad
/// archives are renamed, but only when the validator has something else to start from.
///
/// Returns [`Outcome::Prepared`] if the state was made now, and [`Outcome::Ready`] if it existed or if
/// the validator has a state as new.
///
/// Fails with [`PassError::Request`](unsnap_pass::PassError::Request) if renames alone could not adopt
/// the state, for example because `run` is a mount point, and with
/// [`CommitError::Locked`](unsnap_commit::CommitError::Locked) if another unsnap is at work on the
/// ready state or on the ledger.
///
/// [`Request::replace`] concerns the ready state only: no state is adopted over an equally new one.
///
/// Old files are removed slowly, to the end or until `cancel` is cancelled.
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
    let mut site = Beside { work, places: &places, ready };
    let taken_over = Removal::take_over(calls, &places, &site.ready.places);
    let result = taken_over.and_then(|()| work.prepare_newest(&places, &mut site));
    let is_prepared = matches!(result, Ok(Outcome::Prepared(_)));
    if let Err(error) = site.tidy(is_prepared) {
        tracing::warn!(%error, "leftovers of earlier runs remain; the next run will remove them");
    }
    result
}

/// The directories of a ready state, locked.
struct Beside<'a> {
    work: Work<'a>,
    /// The validator's own directories.
    places: &'a Places,
    ready: Ready,
}

impl Site for Beside<'_> {
    fn target(&self) -> &Places {
        &self.ready.places
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
            self.ready.state(calls, request.format, progress)?
        };
        let survey = Survey::of_states(calls, self.places, progress)?;
        newest_existing(pair, ready.as_ref(), survey.loadable())
            .map(|(slot, state)| Ok(Outcome::Ready { slot, state, set_aside: bad.rename(calls)? }))
            .transpose()
    }

    fn to_clear(&self) -> Vec<&Places> {
        vec![&self.ready.places]
    }

    fn clear(&mut self) -> Result<Removal, FastbootError> {
        clear(self.work.calls, &self.ready.places)
    }

    fn start_removal(&self, removal: Removal) -> Remover {
        removal.start(self.work, Some(self.work.cancel))
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
    /// Removes leftovers of earlier runs, a ready state that is not newer than the validator's, and
    /// empty directories. A state that was just prepared stays.
    fn tidy(self, is_prepared: bool) -> Result<(), FastbootError> {
        let Self { work, places, ready } = self;
        let Work { calls, progress, .. } = work;
        let is_needed = || {
            let used = Survey::of_states(calls, places, progress)?;
            let used = used.loadable().and_then(usable).map(|(slot, _)| slot);
            let state = Survey::of_states(calls, &ready.places, progress)?;
            let state = state.loadable().map(|state| state.slot);
            Ok::<_, FastbootError>(state.is_some_and(|slot| used.is_none_or(|used| slot > used)))
        };
        if is_prepared || is_needed()? {
            Removal::default().staged(calls, &ready.places)?;
            Removal::left_over(calls, &ready.places)?.finish_slowly(work);
        } else {
            ready.discard(calls)?.finish_slowly(work);
        }
        Ok(())
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
        let full = Candidate { path: name.into(), name: archive, bytes: 1, remote: false };
        Pair::new(full, None).unwrap()
    }

    fn state(slot: u64, condition: Condition) -> StateSurvey {
        StateSurvey { slot, directory: PathBuf::new(), condition, prepared: true }
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
