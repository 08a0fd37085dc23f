//! Making a state whole again from its shadow.

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

/// What came of looking after a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Repaired {
    /// There is no state that a validator would load.
    NoState,
    /// Nothing was to be done.
    WasWhole {
        /// Slot of the state.
        slot: u64,
    },
    /// It is whole again.
    Relinked {
        /// Slot of the state.
        slot: u64,
        /// Storages that were lost.
        storages: u64,
    },
    /// It could not be made whole, and is withdrawn: the validator goes to the archives.
    Withdrawn {
        /// Slot of the state.
        slot: u64,
    },
    /// It may be good or not: it was not prepared by unsnap, and its form is not known.
    LeftAlone {
        /// Slot of the state.
        slot: u64,
        /// What is not known.
        reason: String,
    },
}

/// Looks after the newest state: links storages that are lost from their shadow, or withdraws the
/// state if that is impossible. Refused while a validator is running.
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
            // What counts is what is there then.
            let linked = relink(calls, places, progress);
            match linked.and_then(|()| Survey::of_states(calls, places, progress)) {
                Ok(now) => {
                    let whole = now.newest().map(|state| &state.condition);
                    if let Some(Condition::Whole { .. }) = whole {
                        return Ok(Repaired::Relinked { slot, storages: *lost });
                    }
                }
                // A validator must not meet what may be half done.
                Err(error) => tracing::warn!(%error, slot, "the state cannot be made whole"),
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

/// Gives every storage of the shadows its name in `run` again, durably, and removes whatever else has
/// that name.
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

/// Removes storages that are in another accounts path than their second names.
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
        Err(errno) => return Err(at("look at", errno)),
    }
    calls.linkat(shadow, name.as_str(), run, name.as_str()).map_err(|errno| at("link", errno))
}
