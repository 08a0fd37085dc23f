//! Repair of a state from its shadow.

use std::{collections::HashMap, os::fd::OwnedFd, path::Path};

use rustix::{fs::AtFlags, io::Errno};
use serde::Serialize;
use unsnap_pass::{Phase, Progress};
use unsnap_ring::Syscalls;
use unsnap_state::format::Storage;

use crate::{
    Condition, FastbootError, Places, Survey,
    files::{failed, open_directory},
    survey::Shadow,
    withdraw::unmark_one,
};

/// Result of repairing a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Repaired {
    /// A validator would load no state.
    NoState,
    /// The state is whole; nothing was changed.
    WasWhole {
        /// Slot of the state.
        slot: u64,
    },
    /// The state is whole again.
    Relinked {
        /// Slot of the state.
        slot: u64,
        /// Number of storages that were linked again.
        storages: u64,
    },
    /// The state could not be repaired and was withdrawn: the validator unpacks the archives.
    Withdrawn {
        /// Slot of the state.
        slot: u64,
    },
    /// The state may be good or not: unsnap did not prepare it, and its form is unknown.
    LeftAlone {
        /// Slot of the state.
        slot: u64,
        /// The unknown property, in words.
        reason: String,
    },
}

/// Repairs the newest state: links lost storages from the shadow, or withdraws the state if that is
/// impossible. Refused while a validator is running.
pub fn repair(
    calls: &Syscalls,
    places: &Places,
    progress: &Progress,
) -> Result<Repaired, FastbootError> {
    let (places, _lock) = places.settle_locked()?;
    let survey = Survey::of_states(calls, &places, progress)?;
    repair_locked(calls, &places, &survey, progress)
}

pub(crate) fn repair_locked(
    calls: &Syscalls,
    places: &Places,
    survey: &Survey,
    progress: &Progress,
) -> Result<Repaired, FastbootError> {
    let Some(state) = survey.newest() else { return Ok(Repaired::NoState) };
    let slot = state.slot;
    match &state.condition {
        Condition::NotLoadable { .. } => Ok(Repaired::NoState),
        Condition::Unknown { reason } => Ok(Repaired::LeftAlone { slot, reason: reason.clone() }),
        Condition::Whole { .. } => Ok(Repaired::WasWhole { slot }),
        Condition::Damaged { lost, repairable: true, .. } => {
            // Surveyed again: only the result counts.
            let linked = relink(calls, places, progress);
            match linked.and_then(|()| Survey::of_states(calls, places, progress)) {
                Ok(now) => {
                    let whole = now.newest().map(|state| &state.condition);
                    if let Some(Condition::Whole { .. }) = whole {
                        return Ok(Repaired::Relinked { slot, storages: *lost });
                    }
                }
                // A validator must not load a state that may be half repaired.
                Err(error) => {
                    tracing::warn!(%error, slot, "linking lost storages from the shadow failed");
                }
            }
            unmark_one(calls, &state.directory)?;
            Ok(Repaired::Withdrawn { slot })
        }
        Condition::Damaged { .. } => {
            unmark_one(calls, &state.directory)?;
            Ok(Repaired::Withdrawn { slot })
        }
    }
}

/// Links every storage of the shadows into `run` again, durably, and removes other files with the
/// same names.
fn relink(calls: &Syscalls, places: &Places, progress: &Progress) -> Result<(), FastbootError> {
    let shadows = Shadow::all(calls, places)?;
    progress.begin_files(Phase::Linking);
    let listed = shadows.iter().filter_map(|shadow| shadow.list.as_ref());
    progress.expect_files(listed.map(|list| list.storages.len() as u64).sum());
    remove_strays(calls, places, &shadows)?;
    for (path, Shadow { directory, list }) in places.run_directories().zip(shadows) {
        let (Some(shadow), Some(list)) = (directory, list) else { continue };
        let run = open_directory(calls, &path)?;
        for (storage, _) in &list.storages {
            relink_one(calls, &shadow, &run, &path, *storage)?;
            progress.count_file();
        }
        calls.fsync(&run).map_err(|errno| failed("sync", &path, errno))?;
    }
    Ok(())
}

/// Removes storages from accounts paths other than that of their shadow.
fn remove_strays(
    calls: &Syscalls,
    places: &Places,
    shadows: &[Shadow],
) -> Result<(), FastbootError> {
    let lists = shadows.iter().map(|shadow| shadow.list.as_ref()).enumerate();
    let homes: HashMap<String, usize> = lists
        .filter_map(|(index, list)| Some((index, list?)))
        .flat_map(|(index, list)| {
            list.storages.iter().map(move |(storage, _)| (storage.to_string(), index))
        })
        .collect();
    for (index, path) in places.run_directories().enumerate() {
        let run = open_directory(calls, &path)?;
        for (name, _) in calls.entries(&run).map_err(|errno| failed("read", &path, errno))? {
            let home = name.to_str().ok().and_then(|name| homes.get(name));
            if home.is_some_and(|home| *home != index) {
                let removed = calls.unlinkat(&run, &*name, AtFlags::empty());
                removed.map_err(|errno| failed("remove a stray storage from", &path, errno))?;
            }
        }
    }
    Ok(())
}

fn relink_one(
    calls: &Syscalls,
    shadow: &OwnedFd,
    run: &OwnedFd,
    path: &Path,
    storage: Storage,
) -> Result<(), FastbootError> {
    let name = storage.to_string();
    let at = |step, errno| failed(step, &path.join(&name), errno);
    let kept =
        calls.lstatat(shadow, name.as_str()).map_err(|errno| at("find the link of", errno))?;
    match calls.lstatat(run, name.as_str()) {
        Ok(there) if (there.st_dev, there.st_ino) == (kept.st_dev, kept.st_ino) => return Ok(()),
        Ok(_) => {
            let removed = calls.unlinkat(run, name.as_str(), AtFlags::empty());
            removed.map_err(|errno| at("remove", errno))?;
        }
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(at("examine", errno)),
    }
    calls.linkat(shadow, name.as_str(), run, name.as_str()).map_err(|errno| at("link", errno))
}
