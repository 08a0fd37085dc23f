//! A state: where it goes, and what it is made of.

use std::path::{Path, PathBuf};

use unsnap_commit::{CommitError, Existing, Spot, Target};
use unsnap_create::FileSink;
use unsnap_fit::{FileSystem, FitError};

use crate::{AccountsSpread, Format, Linker};

/// Below an accounts path: where a validator keeps its storages.
pub const RUN_DIRECTORY: &str = "run";

/// Below an accounts path: second names of a state's storages, see [`State::shadow`].
pub const SHADOW_DIRECTORY: &str = "unsnap-shadow";

/// Names of staging directories.
const STAGED_STATE: &str = ".unsnap-state.unsnap-staging";
const STAGED_RUN: &str = ".run.unsnap-staging";
const STAGED_SHADOW: &str = ".unsnap-shadow.unsnap-staging";

/// Names of the staging directories of states. One without a lock (`flock`) was left by an
/// interrupted run.
pub const STAGED: [&str; 3] = [STAGED_STATE, STAGED_RUN, STAGED_SHADOW];

/// A state that a validator starts from.
#[derive(Clone, Debug)]
pub struct State {
    /// The bank snapshot's directory, `<snapshots>/snapshots/<slot>`.
    pub directory: PathBuf,
    /// The accounts paths. Storages go to `run` of each.
    pub accounts: Vec<PathBuf>,
    /// How the list of storages is written.
    pub format: Format,
    /// Whether every storage gets a second name, a hard link below `unsnap-shadow` of its accounts
    /// path. From these a state can be repaired when a validator has removed files of it.
    pub shadow: bool,
}

impl State {
    /// Destinations of the archives' files: the state's directory, and each accounts path.
    pub fn destinations(&self) -> usize {
        1 + self.accounts.len()
    }

    /// Returns where its files are staged: the destinations, then the shadows.
    pub fn spots(&self) -> Vec<Spot> {
        let cleared = |path: PathBuf, stage_in, stage_as| Spot {
            path,
            existing: Existing::WillBeCleared { stage_in, stage_as },
        };
        // A validator that starts removes every directory beside the state's that is not a complete
        // state itself.
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

    /// Prepares the spread of storages over the accounts paths.
    pub fn spread(&self, target: &Target) -> Result<AccountsSpread, StateError> {
        let paths = target.staging.directories()?.into_iter().skip(1).zip(&self.accounts);
        let paths = paths.map(|(directory, accounts)| {
            let systems = FileSystem::of(&target.calls, vec![directory])?;
            Ok(systems.into_iter().map(|system| (system, accounts.display().to_string())))
        });
        let paths = paths.collect::<Result<Vec<_>, StateError>>()?;
        Ok(AccountsSpread::new(paths.into_iter().flatten()))
    }

    /// Starts the thread that gives storages their second names, if they get any. Returns it with
    /// what the creators report finished files to; `files` are passed on to the caller's own sink.
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

/// A state's destinations cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A staging directory failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A file system does not say what is free.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The kernel refused to start a thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
