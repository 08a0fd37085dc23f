//! Files in the storage directories that belong to no state.

use std::collections::HashSet;

use rustix::{fs::FileType, io::Errno};
use serde::Serialize;
use unsnap_failure::Failure;
use unsnap_ring::Syscalls;
use unsnap_state::format::Storage;
use unsnap_tarstream::printable;

use crate::{
    FastbootError, Places,
    files::{failed, open_directory},
    states::{Condition, listed, state_directories},
};

/// Number of paths that are reported: enough to recognise the kind of files.
const NAMES_MAX: usize = 5;

/// Files in the directories `run` of the accounts paths that no state lists.
///
/// They were written by a running validator, or put there by another program. A validator that
/// starts from a state removes those with names of storages and ignores the others (Agave 4.2 to
/// 4.5). Their cost is their space, and the time to examine them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StrayFiles {
    /// Number of files.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// Paths of some of them, escaped where not printable: at most five, in the order of names,
    /// from the first accounts paths.
    pub some: Vec<String>,
}

impl StrayFiles {
    /// Looks for them. Returns `None` if there are none, or if the list of a state has an unknown
    /// form.
    pub(crate) fn find(calls: &Syscalls, places: &Places) -> Result<Option<Self>, FastbootError> {
        let Some(known) = all_listed(calls, places)? else { return Ok(None) };
        let mut stray = Self::default();
        for run in places.run_directories() {
            let at = |errno| failed("examine", &run, errno);
            let directory = match open_directory(calls, &run) {
                Ok(directory) => directory,
                Err(error) if error.errno() == Some(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            };
            let mut names: Vec<_> = calls.entries(&directory).map_err(at)?;
            names.retain(|(name, kind)| {
                *kind == FileType::RegularFile && !name.to_str().is_ok_and(|it| known.contains(it))
            });
            names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            for (name, _) in names {
                match calls.lstatat(&directory, &*name) {
                    Ok(stat) => stray.bytes += u64::try_from(stat.st_size).unwrap_or(0),
                    // Removed since the directory was read.
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(at(errno)),
                }
                stray.files += 1;
                if stray.some.len() < NAMES_MAX {
                    let name = printable(name.to_bytes());
                    stray.some.push(format!("{}/{name}", run.display()));
                }
            }
        }
        Ok(Some(stray).filter(|stray| stray.files > 0))
    }
}

/// Returns the names of the storages that states list; `None` if the form of a list is unknown.
fn all_listed(calls: &Syscalls, places: &Places) -> Result<Option<HashSet<String>>, FastbootError> {
    let mut names = HashSet::new();
    for (slot, _) in state_directories(calls, places)? {
        let path = places.state(slot);
        let state = match open_directory(calls, &path) {
            Ok(state) => state,
            Err(error)
                if matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        match listed(calls, &state).map_err(|errno| failed("examine the state in", &path, errno))? {
            Ok(storages) => names.extend(storages.iter().map(Storage::to_string)),
            Err(Condition::Unknown { .. }) => return Ok(None),
            // No validator loads such a state.
            Err(_) => {}
        }
    }
    Ok(Some(names))
}
