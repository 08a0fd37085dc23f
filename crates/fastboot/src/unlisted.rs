//! Files among storages that belong to no state.

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
    survey::{Condition, listed, state_directories},
};

/// Names that are told. Enough to see what they are like.
const NAMES_MAX: usize = 5;

/// Files in the directories `run` of the accounts paths that no state lists.
///
/// A validator at work has written them, or somebody has left them there. One that starts from a
/// state removes those of them that have names of storages, and passes over the others (Agave 4.2
/// to 4.5); so they cost space, and a look at them, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unlisted {
    /// Their number.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Paths of some of them, with what cannot be shown escaped: at most five, the least by name of
    /// each accounts path.
    pub some: Vec<String>,
}

impl Unlisted {
    /// `None` if there are none, or a list cannot be read, because of its form.
    pub(crate) fn find(calls: &Syscalls, places: &Places) -> Result<Option<Self>, FastbootError> {
        let Some(known) = all_listed(calls, places)? else { return Ok(None) };
        let mut unlisted = Self::default();
        for run in places.run_directories() {
            let at = |errno| failed("look at", &run, errno);
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
                    Ok(stat) => unlisted.bytes += u64::try_from(stat.st_size).unwrap_or(0),
                    // Whoever wrote it has removed it since.
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(at(errno)),
                }
                unlisted.files += 1;
                if unlisted.some.len() < NAMES_MAX {
                    let name = printable(name.to_bytes());
                    unlisted.some.push(format!("{}/{name}", run.display()));
                }
            }
        }
        Ok(Some(unlisted).filter(|unlisted| unlisted.files > 0))
    }
}

/// Names of the storages that states list; `None` if that cannot be told.
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
        match listed(calls, &state).map_err(|errno| failed("look at the state in", &path, errno))? {
            Ok(storages) => names.extend(storages.iter().map(Storage::to_string)),
            Err(Condition::Unknown { .. }) => return Ok(None),
            // No validator gets to the end of its list.
            Err(_) => {}
        }
    }
    Ok(Some(names))
}
