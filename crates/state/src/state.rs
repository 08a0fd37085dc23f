//! A state to be made, and its destinations.

use std::{
    ops::Deref,
    path::{Path, PathBuf},
};

use unsnap_commit::{CommitError, Existing, Spot, Target};
use unsnap_create::FileSink;
use unsnap_fit::{FileSystem, FitError, Reserve};

use crate::{AccountsSpread, Format, Linker};

/// Directory below an accounts path in which a validator keeps its storages.
pub const RUN_DIRECTORY: &str = "run";

/// Directory below an accounts path with second names of a state's storages; see [`State::shadow`].
pub const SHADOW_DIRECTORY: &str = "unsnap-shadow";

/// Name of the staging directory of a state. Unlike that of a tree it does not end in
/// `.unsnap-staging`: an interrupted run to a tree `<accounts path>/run` may be resumed, and its
/// files must not be taken for those of a state.
pub const STAGED_STATE: &str = ".unsnap-staged-state";
/// As [`STAGED_STATE`], for its storages and their second names.
const STAGED_RUN: &str = ".unsnap-staged-run";
const STAGED_SHADOW: &str = ".unsnap-staged-shadow";

/// Names of the staging directories of states. A staging directory without a lock (`flock`) was
/// left by an interrupted run.
pub const STAGED: [&str; 3] = [STAGED_STATE, STAGED_RUN, STAGED_SHADOW];

/// A state that a validator starts from.
#[derive(Clone, Debug)]
pub struct State {
    /// The bank snapshot's directory, `<snapshots>/snapshots/<slot>`.
    pub directory: PathBuf,
    /// The accounts paths. Storages go to the directory `run` of each.
    pub accounts: AccountsPaths,
    /// Format of the list of storages.
    pub format: Format,
    /// Whether every storage gets a second name, a hard link below `unsnap-shadow` of its accounts
    /// path. If a validator removes files of the state, it can be repaired from these.
    pub shadow: bool,
}

/// The accounts paths of a state: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountsPaths(Vec<PathBuf>);

impl AccountsPaths {
    /// Returns the paths; `None` if there are none.
    pub fn new(paths: Vec<PathBuf>) -> Option<Self> {
        (!paths.is_empty()).then_some(Self(paths))
    }

    /// Returns a single path.
    pub fn one(path: impl Into<PathBuf>) -> Self {
        Self(vec![path.into()])
    }
}

impl Deref for AccountsPaths {
    type Target = [PathBuf];

    fn deref(&self) -> &[PathBuf] {
        &self.0
    }
}

impl State {
    /// Returns the number of destinations of the archives' files: the state's directory, and each
    /// accounts path.
    pub fn destinations(&self) -> usize {
        1 + self.accounts.len()
    }

    /// Returns the staged directories: the destinations, then the shadows.
    pub fn spots(&self) -> Vec<Spot> {
        let cleared = |path: PathBuf, stage_in, stage_as| Spot {
            path,
            existing: Existing::WillBeCleared { stage_in, stage_as },
        };
        // A validator that starts removes every directory beside the state's directory that is not
        // a complete state. So the state is staged one directory above.
        let above = self.directory.parent().and_then(Path::parent).map(Path::to_owned);
        let mut spots = vec![cleared(self.directory.clone(), above, STAGED_STATE)];
        let below = |name, staged| {
            self.accounts.iter().map(move |path| cleared(path.join(name), None, staged))
        };
        spots.extend(below(RUN_DIRECTORY, STAGED_RUN));
        if self.shadow {
            spots.extend(below(SHADOW_DIRECTORY, STAGED_SHADOW));
        }
        spots
    }

    /// Prepares the spread of storages over the accounts paths, of which `min_free` stays free for
    /// other processes.
    ///
    /// Fails if a staging directory cannot be opened or its file system examined.
    pub fn spread(&self, target: &Target, min_free: Reserve) -> Result<AccountsSpread, StateError> {
        let paths = target.staging.directories()?.into_iter().skip(1).zip(self.accounts.iter());
        let paths = paths.map(|(directory, accounts)| {
            let systems = FileSystem::of(&target.calls, vec![directory])?;
            let name = accounts.display().to_string();
            Ok(systems.into_iter().map(move |system| (system.keeping(min_free), name.clone())))
        });
        let paths = paths.collect::<Result<Vec<_>, StateError>>()?;
        Ok(AccountsSpread::new(paths.into_iter().flatten()))
    }

    /// Starts the thread that links storages into the shadows; returns `None` if the state has
    /// none. Also returns the sink to which creators report complete files. They are passed on to
    /// `files`.
    ///
    /// Fails if a staging directory cannot be opened or the thread not started.
    pub fn linker(
        &self,
        target: &Target,
        files: Option<FileSink>,
    ) -> Result<Option<(Linker, FileSink)>, StateError> {
        if !self.shadow {
            return Ok(None);
        }
        let directories = target.staging.directories()?.into_iter().skip(1);
        let mut directories: Vec<_> = directories.map(|(directory, _)| directory).collect();
        let shadows = directories.split_off(self.accounts.len());
        let pairs = directories.into_iter().zip(shadows).collect();
        let started = Linker::start(target.calls.clone(), pairs, files);
        started.map(Some).map_err(StateError::Thread)
    }
}

/// Error in preparing the destinations of a state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A staging directory failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A file system does not report its free space.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// Storages of an earlier state cannot be linked. It can be made without them.
    #[error("cannot link the storages of an earlier state: {reason}")]
    NotLinked {
        /// The reason, in words.
        reason: String,
    },
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The kernel refused to start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_staged_above_its_directory_and_storages_in_their_accounts_paths() {
        let mut state = State {
            directory: "/snapshots/snapshots/100".into(),
            accounts: AccountsPaths::new(vec!["/one".into(), "/two".into()]).unwrap(),
            format: Format::V3,
            shadow: false,
        };
        let spots = |state: &State| {
            let spots = state.spots().into_iter().map(|spot| match spot.existing {
                Existing::WillBeCleared { stage_in, stage_as } => {
                    (spot.path, stage_in, stage_as.to_owned())
                }
                Existing::MustBeEmpty => panic!("{spot:?}"),
            });
            spots.collect::<Vec<_>>()
        };
        let at = |path: &str, stage_in: Option<&str>, stage_as: &str| {
            (PathBuf::from(path), stage_in.map(PathBuf::from), stage_as.to_owned())
        };
        let mut expected = vec![
            at("/snapshots/snapshots/100", Some("/snapshots"), ".unsnap-staged-state"),
            at("/one/run", None, ".unsnap-staged-run"),
            at("/two/run", None, ".unsnap-staged-run"),
        ];
        assert_eq!(spots(&state), expected);
        assert_eq!(state.destinations(), 3);
        state.shadow = true;
        expected.push(at("/one/unsnap-shadow", None, ".unsnap-staged-shadow"));
        expected.push(at("/two/unsnap-shadow", None, ".unsnap-staged-shadow"));
        assert_eq!(spots(&state), expected);
        // Shadows take no files of archives.
        assert_eq!(state.destinations(), 3);
        assert!(expected.iter().all(|(_, _, staged)| STAGED.contains(&staged.as_str())));
    }
}
