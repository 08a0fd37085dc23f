//! What states there are, and whether they are whole.

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
use unsnap_state::format::{
    FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX, Format, FormatError, OBSOLETE_ACCOUNTS,
    STATUS_CACHE, STORAGES_LIST, STORAGES_LIST_BYTES_MAX, Storage, VERSION, Version, bank_file,
};
use unsnap_state::{SHADOW_DIRECTORY, SHADOW_LIST, SHADOW_LIST_BYTES_MAX, ShadowList};

use crate::{
    FastbootError, Places, Unlisted,
    files::{failed, open_directory, read_small},
};

/// The states that a validator would find, the newest first.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// Each directory with a slot's name. A validator looks at the first only.
    pub states: Vec<StateSurvey>,
    /// The one that lies ready beside them, if there is one: no validator looks at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<StateSurvey>,
    /// Files among the storages that no state lists, if there are any and it can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<Unlisted>,
}

/// A state.
#[derive(Clone, Debug, Serialize)]
pub struct StateSurvey {
    /// Its slot.
    pub slot: u64,
    /// Its directory.
    pub directory: PathBuf,
    /// How it is.
    pub condition: Condition,
    /// Whether unsnap has prepared it: then there is a shadow to compare it with.
    pub prepared: bool,
}

/// How a state is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Condition {
    /// A validator takes it, and all it lists is there.
    Whole {
        /// Storages.
        storages: u64,
    },
    /// A validator takes it, and would fail.
    Damaged {
        /// Storages that are not there, or not as they were.
        lost: u64,
        /// Storages that are listed.
        storages: u64,
        /// Whether all of these can be had from the shadow.
        repairable: bool,
    },
    /// A validator does not take it, and goes to the archives.
    NotLoadable {
        /// Why.
        reason: String,
    },
    /// A validator may take it, but in which form it is, is not known here.
    Unknown {
        /// What is not known.
        reason: String,
    },
}

/// Its lists are missing or damaged: that fails at every start.
const HOPELESS: Condition = Condition::Damaged { lost: 0, storages: 0, repairable: false };

impl Condition {
    /// Whether a validator that starts would load it, be it to its harm.
    pub fn is_loadable(&self) -> bool {
        !matches!(self, Self::NotLoadable { .. })
    }

    /// Storages that are listed, as far as that is known.
    pub fn storages(&self) -> u64 {
        match self {
            Self::Whole { storages } | Self::Damaged { storages, .. } => *storages,
            Self::NotLoadable { .. } | Self::Unknown { .. } => 0,
        }
    }
}

impl Survey {
    /// Looks at all there is. Changes nothing.
    pub fn of(
        calls: &Syscalls,
        places: &Places,
        progress: &Progress,
    ) -> Result<Self, FastbootError> {
        let ready = Self::of_states(calls, &places.beside(), progress)?.states.into_iter().next();
        let unlisted = Unlisted::find(calls, places)?;
        Ok(Self { ready, unlisted, ..Self::of_states(calls, places, progress)? })
    }

    /// Looks at the states of these places only.
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
                // A link to nothing, or a number written in another way: no state.
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
            let condition = condition(calls, places, slot, &state, mine, progress)
                .map_err(|errno| failed("look at the state in", &path, errno))?;
            states.push(StateSurvey { slot, directory, condition, prepared });
        }
        Ok(Self { states, ready: None, unlisted: None })
    }

    /// The one that a validator would look at.
    pub fn newest(&self) -> Option<&StateSurvey> {
        self.states.first()
    }

    /// The same, if that would load it, be it to its harm.
    pub(crate) fn loadable(&self) -> Option<&StateSurvey> {
        self.newest().filter(|state| state.condition.is_loadable())
    }
}

/// The states that have the mark of one that can be loaded, the newest first. Whether they are whole is
/// not looked at, and so this is quick: see [`Survey`] for that.
pub fn marked_states(
    calls: &Syscalls,
    places: &Places,
) -> Result<Vec<(u64, PathBuf)>, FastbootError> {
    let mut states = state_directories(calls, places)?;
    states.retain(|(_, path)| path.join(FASTBOOT_VERSION).is_file());
    Ok(states)
}

/// Directories with a slot's name, the newest first.
pub(crate) fn state_directories(
    calls: &Syscalls,
    places: &Places,
) -> Result<Vec<(u64, PathBuf)>, FastbootError> {
    let path = places.states();
    let entries = match open_directory(calls, &path) {
        Ok(directory) => calls.entries(&directory).map_err(|errno| failed("read", &path, errno))?,
        Err(error) if error.errno() == Some(Errno::NOENT) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut found: Vec<(u64, PathBuf)> = entries
        .iter()
        .filter(|(_, kind)| matches!(kind, FileType::Directory | FileType::Symlink))
        .filter_map(|(name, _)| {
            let name = name.to_str().ok()?;
            Some((name.parse().ok()?, path.join(name)))
        })
        .collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}

/// The shadow of one accounts path.
pub(crate) struct Shadow {
    /// `None` if there is no such directory.
    pub directory: Option<OwnedFd>,
    /// `None` if it cannot be used.
    pub list: Option<ShadowList>,
}

impl Shadow {
    /// Those of all accounts paths, in their order.
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

/// What `fastboot_version` and the storages' list say; the error says in words why they do not.
pub(crate) fn listed(
    calls: &Syscalls,
    state: &OwnedFd,
) -> Result<Result<Vec<Storage>, Condition>, Errno> {
    let not_loadable = |reason: &str| Ok(Err(Condition::NotLoadable { reason: reason.to_owned() }));
    let mark = read_small(calls, state, FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX);
    let mark = match mark {
        Ok(Some(mark)) => mark,
        Ok(None) => return not_loadable("it is not marked as complete"),
        Err(Errno::FBIG) => return not_loadable("its mark is damaged"),
        Err(errno) => return Err(errno),
    };
    let Ok(version) = Version::parse(&mark) else {
        return not_loadable("its mark is damaged");
    };
    let unknown = |reason: String| Ok(Err(Condition::Unknown { reason }));
    let format = match Format::of(version) {
        Ok(format) => format,
        Err(error) => return unknown(error.to_string()),
    };
    match read_small(calls, state, STORAGES_LIST, STORAGES_LIST_BYTES_MAX) {
        Ok(Some(list)) => match format.decode_storages(&list) {
            Ok(storages) => Ok(Ok(storages)),
            // Those are of a validator's own making.
            Err(error @ FormatError::Split { .. }) => unknown(error.to_string()),
            // A validator that begins with that ends with it.
            Err(_) => Ok(Err(HOPELESS)),
        },
        Ok(None) | Err(Errno::FBIG) => Ok(Err(HOPELESS)),
        Err(errno) => Err(errno),
    }
}

fn condition(
    calls: &Syscalls,
    places: &Places,
    slot: u64,
    state: &OwnedFd,
    shadows: &[Shadow],
    progress: &Progress,
) -> Result<Condition, Errno> {
    let bank = bank_file(slot);
    let mut cut = false;
    for name in [VERSION, STATUS_CACHE, &bank] {
        match calls.lstatat(state, name) {
            Ok(stat) if stat.st_size > 0 => {}
            // That these are there is all that a validator looks at before it loads them.
            Ok(_) if name != VERSION => cut = true,
            Ok(_) | Err(Errno::NOENT) => {
                return Ok(Condition::NotLoadable {
                    reason: format!("{name} is missing or empty"),
                });
            }
            Err(errno) => return Err(errno),
        }
    }
    let storages = match listed(calls, state)? {
        Ok(storages) => storages,
        Err(condition) => return Ok(condition),
    };
    match calls.lstatat(state, OBSOLETE_ACCOUNTS) {
        // It begins with a number of 8 bytes.
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
        // Without a list of sizes that it is not empty is all that can be told.
        let good = match (found, size) {
            (Some(Some(found)), Some(size)) => *found == size,
            (Some(Some(found)), None) => *found > 0,
            // Which of two a validator takes is not known.
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

/// Files in the directories of storages, with their sizes; `None` for one that is there twice.
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

/// What a name stands for, if it is a file and still there.
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

/// Whether the shadows have all of these, with the sizes they had.
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
