//! Directories of states, their conditions, and their lists of storages.

use std::{os::fd::OwnedFd, path::PathBuf};

use rustix::{fs::FileType, io::Errno};
use serde::Serialize;
use unsnap_failure::Failure;
use unsnap_ring::Syscalls;
use unsnap_state::format::{
    FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX, Format, FormatError, STORAGES_LIST,
    STORAGES_LIST_BYTES_MAX, Storage, Version,
};

use crate::{
    FastbootError, Places,
    files::{failed, open_directory, read_small},
};

/// Condition of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Condition {
    /// A validator loads the state, and every listed storage exists.
    Whole {
        /// Number of listed storages.
        storages: u64,
    },
    /// A validator tries to load the state and fails.
    Damaged {
        /// Number of storages that are missing or have another size than before.
        lost: u64,
        /// Number of listed storages.
        storages: u64,
        /// Whether the shadow has all lost storages.
        repairable: bool,
    },
    /// A validator ignores the state and unpacks the archives.
    NotLoadable {
        /// The reason, in words.
        reason: String,
    },
    /// A validator may load the state, but its form is unknown to this version of unsnap.
    Unknown {
        /// The unknown property, in words.
        reason: String,
    },
}

/// Condition of a state whose lists are missing or damaged. Loading it fails at every start.
pub(crate) const HOPELESS: Condition =
    Condition::Damaged { lost: 0, storages: 0, repairable: false };

impl Condition {
    /// Returns whether a validator that starts would try to load the state, even if that fails.
    pub fn is_loadable(&self) -> bool {
        !matches!(self, Self::NotLoadable { .. })
    }

    /// Returns whether a validator fails to load the state, and it cannot be repaired.
    pub(crate) fn is_hopeless(&self) -> bool {
        matches!(self, Self::Damaged { repairable: false, .. })
    }

    /// Returns the number of listed storages; 0 if it is unknown.
    pub fn storages(&self) -> u64 {
        match self {
            Self::Whole { storages } | Self::Damaged { storages, .. } => *storages,
            Self::NotLoadable { .. } | Self::Unknown { .. } => 0,
        }
    }
}

/// Returns the states that are marked as loadable, newest first, with their directories. This is
/// quick, since it does not check whether they are whole: see [`Survey`](crate::Survey) for that.
pub fn marked_states(
    calls: &Syscalls,
    places: &Places,
) -> Result<Vec<(u64, PathBuf)>, FastbootError> {
    let mut states = state_directories(calls, places)?;
    states.retain(|(_, path)| path.join(FASTBOOT_VERSION).is_file());
    Ok(states)
}

/// Returns the directories with a slot's name, newest first.
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

/// Reads `fastboot_version` and the list of storages. The inner error is the condition of a state
/// without a usable list.
pub(crate) fn listed(
    calls: &Syscalls,
    state: &OwnedFd,
) -> Result<Result<Vec<Storage>, Condition>, Errno> {
    let not_loadable = |reason: &str| Ok(Err(Condition::NotLoadable { reason: reason.to_owned() }));
    let mark = read_small(calls, state, FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX);
    let mark = match mark {
        Ok(Some(mark)) => mark,
        Ok(None) => return not_loadable("its mark (fastboot_version) is missing"),
        Err(Errno::FBIG) => return not_loadable("its mark (fastboot_version) is damaged"),
        Err(errno) => return Err(errno),
    };
    let Ok(version) = Version::parse(&mark) else {
        return not_loadable("its mark (fastboot_version) is damaged");
    };
    let unknown = |reason: String| Ok(Err(Condition::Unknown { reason }));
    let format = match Format::of(version) {
        Ok(format) => format,
        Err(error) => return unknown(error.to_string()),
    };
    match read_small(calls, state, STORAGES_LIST, STORAGES_LIST_BYTES_MAX) {
        Ok(Some(list)) => match format.decode_storages(&list) {
            Ok(storages) => Ok(Ok(storages)),
            // Validators write such lists; unsnap does not read them.
            Err(error @ FormatError::Split { .. }) => unknown(error.to_string()),
            // A validator that loads this list fails.
            Err(_) => Ok(Err(HOPELESS)),
        },
        Ok(None) | Err(Errno::FBIG) => Ok(Err(HOPELESS)),
        Err(errno) => Err(errno),
    }
}
