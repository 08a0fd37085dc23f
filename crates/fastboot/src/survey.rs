//! Survey of the existing states and their conditions.

use std::{
    collections::{HashMap, HashSet},
    ffi::CStr,
    os::fd::OwnedFd,
    path::PathBuf,
};

use rustix::{
    fs::{FileType, Stat},
    io::Errno,
};
use serde::Serialize;
use unsnap_failure::Failure;
use unsnap_pass::{Phase, Progress};
use unsnap_ring::Syscalls;
use unsnap_state::format::{OBSOLETE_ACCOUNTS, STATUS_CACHE, Storage, VERSION, Version, bank_file};
use unsnap_state::{SHADOW_DIRECTORY, SHADOW_LIST, SHADOW_LIST_BYTES_MAX, ShadowList};

use crate::{
    Condition, FastbootError, Places, StrayFiles,
    files::{failed, open_directory, read_small},
    states::{HOPELESS, listed, state_directories},
};

/// Largest version that is read. A guess: it is `1.2.0`.
const VERSION_BYTES_MAX: u64 = 64;

/// The states that a validator would find.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// All directories with a slot's name, newest first. A validator examines only the first that
    /// is not [`incomplete`](StateSurvey::incomplete).
    pub states: Vec<StateSurvey>,
    /// The ready state, if there is one. No validator examines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<StateSurvey>,
    /// Files in the storage directories that no state lists, if there are any and all lists can be
    /// read.
    #[serde(rename = "unlisted", skip_serializing_if = "Option::is_none")]
    pub stray_files: Option<StrayFiles>,
}

/// A state.
#[derive(Clone, Debug, Serialize)]
pub struct StateSurvey {
    /// Slot of the state.
    pub slot: u64,
    /// Directory of the state.
    pub directory: PathBuf,
    /// Condition of the state.
    pub condition: Condition,
    /// Whether the directory is no state at all: its version, bank file or status cache is missing. A
    /// validator that starts removes it and examines the next one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// Whether unsnap prepared the state. If so, its storages are compared with the shadow's list.
    pub prepared: bool,
}

impl Survey {
    /// Examines all states, the ready state and stray files. Changes nothing.
    pub fn of(
        calls: &Syscalls,
        places: &Places,
        progress: &Progress,
    ) -> Result<Self, FastbootError> {
        let ready = Self::of_states(calls, &places.beside(), progress)?.states.into_iter().next();
        let stray_files = StrayFiles::find(calls, places)?;
        Ok(Self { ready, stray_files, ..Self::of_states(calls, places, progress)? })
    }

    /// Examines the states in these directories only.
    pub(crate) fn of_states(
        calls: &Syscalls,
        places: &Places,
        progress: &Progress,
    ) -> Result<Self, FastbootError> {
        progress.begin_files(Phase::LookingAtFiles);
        let shadows = Shadow::all(calls, places)?;
        let mut states = Vec::new();
        for (slot, directory) in state_directories(calls, places)? {
            let path = places.state(slot);
            let state = match open_directory(calls, &path) {
                Ok(state) => state,
                // A dangling link, or a number with leading zeros: not a state.
                Err(error)
                    if matches!(
                        error.errno(),
                        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let prepared = shadows
                .iter()
                .all(|shadow| shadow.list.as_ref().is_some_and(|list| list.slot == slot));
            let mine: &[Shadow] = if prepared { &shadows } else { &[] };
            let at = |errno| failed("examine the state in", &path, errno);
            let missing = missing(calls, slot, &state).map_err(at)?;
            let incomplete = missing.is_some();
            let condition = match missing {
                Some(reason) => Condition::NotLoadable { reason },
                None => condition(calls, places, slot, &state, mine, progress).map_err(at)?,
            };
            states.push(StateSurvey { slot, directory, condition, incomplete, prepared });
        }
        Ok(Self { states, ready: None, stray_files: None })
    }

    /// Returns the state that a validator would examine.
    pub fn newest(&self) -> Option<&StateSurvey> {
        self.states.iter().find(|state| !state.incomplete)
    }

    /// Returns the state that a validator would try to load, even if that fails.
    pub(crate) fn loadable(&self) -> Option<&StateSurvey> {
        self.newest().filter(|state| state.condition.is_loadable())
    }
}

/// The shadow of one accounts path: second names of all storages, and a list of them.
pub(crate) struct Shadow {
    /// The directory; `None` if it does not exist.
    pub directory: Option<OwnedFd>,
    /// The list; `None` if it is missing or damaged.
    pub list: Option<ShadowList>,
}

impl Shadow {
    /// Returns the slot of the state to which it belongs; `None` if that is unknown.
    pub fn slot(&self) -> Option<u64> {
        self.list.as_ref().map(|list| list.slot)
    }

    /// Opens the shadows of all accounts paths, in their order.
    pub fn all(calls: &Syscalls, places: &Places) -> Result<Vec<Self>, FastbootError> {
        places
            .accounts
            .iter()
            .map(|path| {
                let path = path.join(SHADOW_DIRECTORY);
                let directory = match open_directory(calls, &path) {
                    Ok(directory) => directory,
                    Err(error) if matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR)) => {
                        return Ok(Self { directory: None, list: None });
                    }
                    Err(error) => return Err(error),
                };
                let bytes = read_small(calls, &directory, SHADOW_LIST, SHADOW_LIST_BYTES_MAX);
                let list = match bytes {
                    Ok(Some(bytes)) => ShadowList::decode(&bytes).ok(),
                    Ok(None) | Err(Errno::FBIG) => None,
                    Err(errno) => return Err(failed("read the list in", &path, errno)),
                };
                Ok(Self { directory: Some(directory), list })
            })
            .collect()
    }
}

/// Returns what makes a directory no state for a validator, in words (`agave-snapshots` and
/// `solana-runtime` 4.2.2, `BankSnapshotInfo::new_from_dir`); `None` if it is one.
fn missing(calls: &Syscalls, slot: u64, state: &OwnedFd) -> Result<Option<String>, Errno> {
    match read_small(calls, state, VERSION, VERSION_BYTES_MAX) {
        Ok(Some(version)) if Version::parse(&version).is_ok() => {}
        Ok(Some(version)) if version.is_empty() => {
            return Ok(Some(format!("{VERSION} is missing or empty")));
        }
        Ok(Some(_)) | Err(Errno::FBIG) => return Ok(Some(format!("{VERSION} is damaged"))),
        Ok(None) => return Ok(Some(format!("{VERSION} is missing or empty"))),
        Err(errno) => return Err(errno),
    }
    for name in [STATUS_CACHE, &bank_file(slot)] {
        match calls.lstatat(state, name) {
            Ok(_) => {}
            Err(Errno::NOENT) => return Ok(Some(format!("{name} is missing or empty"))),
            Err(errno) => return Err(errno),
        }
    }
    Ok(None)
}

/// Examines a state of which no file is [`missing`].
fn condition(
    calls: &Syscalls,
    places: &Places,
    slot: u64,
    state: &OwnedFd,
    shadows: &[Shadow],
    progress: &Progress,
) -> Result<Condition, Errno> {
    let mut cut = false;
    for name in [STATUS_CACHE, &bank_file(slot)] {
        // Before it loads these files, not every release checks more than that they exist.
        cut |= calls.lstatat(state, name)?.st_size == 0;
    }
    let storages = match listed(calls, state)? {
        Ok(storages) => storages,
        Err(condition) => return Ok(condition),
    };
    match calls.lstatat(state, OBSOLETE_ACCOUNTS) {
        // The file begins with a number of 8 bytes.
        Ok(stat) if stat.st_size >= 8 && !cut => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(HOPELESS),
        Err(errno) => return Err(errno),
    }
    let present = present(calls, places, progress)?;
    let expected: HashMap<Storage, u64> = shadows
        .iter()
        .filter_map(|shadow| shadow.list.as_ref())
        .flat_map(|list| list.storages.iter().copied())
        .collect();
    let mut lost = HashSet::new();
    for storage in &storages {
        let size = expected.get(storage).copied();
        let found = present.get(&storage.to_string());
        // Without a list of sizes, all that can be checked is that the file is not empty.
        let good = match (found, size) {
            (Some(Some(found)), Some(size)) => *found == size,
            (Some(Some(found)), None) => *found > 0,
            // Of two files with one name, it is unknown which one a validator loads.
            (Some(None) | None, _) => false,
        };
        if !good {
            lost.insert(*storage);
        }
    }
    let count = storages.len() as u64;
    if lost.is_empty() {
        return Ok(Condition::Whole { storages: count });
    }
    let repairable = repairable(calls, shadows, &lost)?;
    Ok(Condition::Damaged { lost: lost.len() as u64, storages: count, repairable })
}

/// Returns the files in the storage directories with their sizes; `None` for a name that occurs in
/// two directories.
fn present(
    calls: &Syscalls,
    places: &Places,
    progress: &Progress,
) -> Result<HashMap<String, Option<u64>>, Errno> {
    let mut present = HashMap::new();
    for path in places.run_directories() {
        let directory = match open_directory(calls, &path) {
            Ok(directory) => directory,
            Err(error) if error.errno() == Some(Errno::NOENT) => continue,
            Err(error) => return Err(error.errno().unwrap_or(Errno::IO)),
        };
        let entries = calls.entries(&directory)?;
        progress.expect_files(entries.len() as u64);
        for (name, kind) in entries {
            progress.count_file();
            let Some(stat) = regular(calls, &directory, &name, kind)? else { continue };
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            present
                .entry(name.to_string_lossy().into_owned())
                .and_modify(|twice| *twice = None)
                .or_insert(Some(size));
        }
    }
    Ok(present)
}

/// Returns the attributes of a name, if it is a regular file that still exists.
fn regular(
    calls: &Syscalls,
    directory: &OwnedFd,
    name: &CStr,
    kind: FileType,
) -> Result<Option<Stat>, Errno> {
    if kind != FileType::RegularFile {
        return Ok(None);
    }
    match calls.lstatat(directory, name) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether the shadows have all lost storages with their original sizes.
fn repairable(
    calls: &Syscalls,
    shadows: &[Shadow],
    lost: &HashSet<Storage>,
) -> Result<bool, Errno> {
    let mut found = 0;
    for Shadow { directory, list } in shadows {
        let (Some(directory), Some(list)) = (directory, list) else { return Ok(false) };
        for (storage, size) in list.storages.iter().filter(|(storage, _)| lost.contains(storage)) {
            match calls.lstatat(directory, storage.to_string()) {
                Ok(stat) if u64::try_from(stat.st_size) == Ok(*size) => found += 1,
                Ok(_) | Err(Errno::NOENT) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(found == lost.len())
}
