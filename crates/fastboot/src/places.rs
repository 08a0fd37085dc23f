//! Directories of a validator.

use std::path::{Path, PathBuf};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags},
    io::Errno,
    process::geteuid,
};
use unsnap_failure::Remedy;
use unsnap_pass::PassError;
use unsnap_state::{AccountsPaths, RUN_DIRECTORY};

use crate::{FastbootError, LedgerLock, SearchDirs, open_files::user_below};

/// Directory below an accounts path. Unsnap stores nothing there, but Agave 4.2 removes an accounts
/// path that lacks it, with all its content (`solana-accounts-db` 4.2.2, `utils.rs`,
/// `create_accounts_run_and_snapshot_dirs`).
const LEGACY_DIRECTORY: &str = "snapshot";

/// Directory of states, below the snapshots directory.
const BANK_SNAPSHOTS_DIRECTORY: &str = "snapshots";

/// Directory of a ready state, below the snapshots directory and each accounts path. Agave ignores
/// names that it does not know there.
const READY_DIRECTORY: &str = ".unsnap-ready";

/// Directory in which the successor of a ready state is prepared, in the same places.
const NEXT_DIRECTORY: &str = ".unsnap-next";

pub(crate) const DIRECTORY_MODE: u32 = 0o755;

/// Directories of a validator, as given on its command line. Made by [`Places::new`], then adjusted
/// field by field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// `--ledger`. Must exist.
    pub ledger: PathBuf,
    /// `--snapshots`: archives, and states in its subdirectory `snapshots`.
    pub snapshots: PathBuf,
    /// `--full-snapshot-archive-path`.
    pub full_archives: PathBuf,
    /// `--incremental-snapshot-archive-path`.
    pub incremental_archives: PathBuf,
    /// `--accounts`: storages are in the subdirectory `run` of each.
    pub accounts: Vec<PathBuf>,
}

impl Places {
    /// Returns the validator's defaults for a ledger.
    pub fn new(ledger: impl Into<PathBuf>) -> Self {
        let ledger = ledger.into();
        Self {
            snapshots: ledger.clone(),
            full_archives: ledger.clone(),
            incremental_archives: ledger.clone(),
            accounts: vec![ledger.join("accounts")],
            ledger,
        }
    }

    /// Returns the directories that are searched for archives.
    pub fn search_dirs(&self) -> SearchDirs {
        SearchDirs {
            full: self.full_archives.clone(),
            incremental: self.incremental_archives.clone(),
        }
    }

    /// Returns the directory that holds the states.
    pub fn states(&self) -> PathBuf {
        self.snapshots.join(BANK_SNAPSHOTS_DIRECTORY)
    }

    /// Returns the directory of a state.
    pub fn state(&self, slot: u64) -> PathBuf {
        self.states().join(slot.to_string())
    }

    /// Returns the accounts paths of a state. Fails if there are none.
    pub(crate) fn accounts_paths(&self) -> Result<AccountsPaths, FastbootError> {
        AccountsPaths::new(self.accounts.clone()).ok_or_else(|| {
            FastbootError::request("there is no accounts path", Some(Remedy::NameAccounts))
        })
    }

    /// Returns the directories that hold the storages.
    pub(crate) fn run_directories(&self) -> impl Iterator<Item = PathBuf> {
        self.accounts.iter().map(|path| path.join(RUN_DIRECTORY))
    }

    /// Returns the directories of a ready state, which is prepared beside a running validator: on
    /// the same file systems, under names that validators ignore.
    #[must_use]
    pub fn beside(&self) -> Self {
        self.below(READY_DIRECTORY)
    }

    /// Returns the directories in which the successor of a ready state is prepared. It takes the
    /// place of the ready state when it is complete: a program that adopts states need not look
    /// here.
    #[must_use]
    pub fn next(&self) -> Self {
        self.below(NEXT_DIRECTORY)
    }

    /// Returns the lock file of these directories, if they are those of a state beside a
    /// validator's own. It is not in them, and stays when they are moved.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.snapshots.with_added_extension("lock")
    }

    fn below(&self, directory: &str) -> Self {
        Self {
            ledger: self.ledger.clone(),
            snapshots: self.snapshots.join(directory),
            full_archives: self.full_archives.clone(),
            incremental_archives: self.incremental_archives.clone(),
            accounts: self.accounts.iter().map(|path| path.join(directory)).collect(),
        }
    }

    /// Locks the ledger, then calls [`settle`](Self::settle), so that nothing is made in a ledger
    /// in use.
    pub(crate) fn settle_locked(&self) -> Result<(Self, LedgerLock), FastbootError> {
        let lock = LedgerLock::take(&self.own_ledger()?)?;
        Ok((self.settle()?, lock))
    }

    /// Makes the directories that a validator would make, and resolves links as it does. Refuses
    /// directories that the validator would refuse or could not use.
    pub(crate) fn settle(&self) -> Result<Self, FastbootError> {
        let ledger = self.own_ledger()?;
        let snapshots = settle(&self.snapshots)?;
        let accounts = self.accounts_paths()?;
        let accounts: Vec<PathBuf> =
            accounts.iter().map(|path| settle(path)).collect::<Result<_, _>>()?;
        if accounts.contains(&snapshots) {
            let reason = format!(
                "{} is both a snapshots directory and an accounts path",
                snapshots.display()
            );
            let remedy =
                Remedy::advice("give different directories: a validator refuses equal ones");
            return Err(FastbootError::request(reason, Some(remedy)));
        }
        let settled = Self {
            full_archives: settle(&self.full_archives)?,
            incremental_archives: settle(&self.incremental_archives)?,
            ledger,
            snapshots,
            accounts,
        };
        make(&settled.states())?;
        for path in &settled.accounts {
            make(&path.join(RUN_DIRECTORY))?;
            make(&path.join(LEGACY_DIRECTORY))?;
        }
        Ok(settled)
    }

    /// Returns the ledger's path without links. Refuses a ledger of another user.
    pub(crate) fn own_ledger(&self) -> Result<PathBuf, FastbootError> {
        let ledger = resolve(&self.ledger)?;
        let owner =
            rustix::fs::stat(&ledger).map_err(|errno| at("examine", &ledger, errno))?.st_uid;
        let user = geteuid().as_raw();
        if user == owner {
            return Ok(ledger);
        }
        let reason = format!(
            "{} belongs to user {owner}, but this process runs as user {user}; a validator can use \
             only files of its own user",
            ledger.display()
        );
        let remedy = Remedy::advice("run this as the validator's user (sudo -u ...)");
        Err(FastbootError::request(reason, Some(remedy)))
    }
}

impl Places {
    /// Refuses a `run` that is a link: it cannot be replaced by a directory of the same file
    /// system.
    pub(crate) fn refuse_links(&self) -> Result<(), FastbootError> {
        for run in self.run_directories() {
            let stat = rustix::fs::statat(CWD, &run, AtFlags::SYMLINK_NOFOLLOW);
            let stat = stat.map_err(|errno| at("examine", &run, errno))?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                let reason = format!("{} is a symbolic link and cannot be replaced", run.display());
                let remedy = Remedy::advice("make the accounts path itself the link");
                return Err(FastbootError::request(reason, Some(remedy)));
            }
        }
        Ok(())
    }
}

impl Places {
    /// Refuses storages that another process uses, such as a validator on another ledger: see
    /// [`open_files`](crate::open_files). The paths must be free of links.
    pub(crate) fn refuse_used(&self) -> Result<(), FastbootError> {
        let run_directories: Vec<PathBuf> = self.run_directories().collect();
        match user_below(&run_directories) {
            Some((process, path)) => Err(FastbootError::AccountsInUse { path, process }),
            None => Ok(()),
        }
    }
}

fn at(step: &'static str, path: &Path, errno: Errno) -> FastbootError {
    FastbootError::file(step, path, errno)
}

fn resolve(path: &Path) -> Result<PathBuf, FastbootError> {
    path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => PassError::no_directory(path).into(),
        _ => at("resolve", path, Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    })
}

/// Makes a directory unless it exists, and resolves links. Its parent must exist.
fn settle(path: &Path) -> Result<PathBuf, FastbootError> {
    make(path)?;
    resolve(path)
}

fn make(path: &Path) -> Result<(), FastbootError> {
    match rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(DIRECTORY_MODE)) {
        Ok(()) => {
            // Durably: a state must not be lost with its parent directory.
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            let above = above.unwrap_or(Path::new("."));
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(above, flags, Mode::empty())
                .and_then(|above| rustix::fs::fsync(&above))
                .map_err(|errno| at("sync", above, errno))
        }
        Err(Errno::EXIST) => {
            let stat = rustix::fs::statat(CWD, path, AtFlags::empty());
            let stat = stat.map_err(|errno| at("examine", path, errno))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Ok(()),
                _ => Err(at("use", path, Errno::NOTDIR)),
            }
        }
        // The holder of a directory is not made.
        Err(Errno::NOENT) => Err(PassError::no_directory(path.parent().unwrap_or(path)).into()),
        Err(errno) => Err(at("create", path, errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_made_as_a_validator_makes_them() {
        let scratch = tempfile::tempdir().unwrap();
        let ledger = scratch.path().join("ledger");
        std::fs::create_dir(&ledger).unwrap();
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&ledger, &link).unwrap();
        let places = Places::new(&link).settle().unwrap();
        let ledger = ledger.canonicalize().unwrap();
        assert_eq!(places, Places::new(&ledger));
        for made in ["snapshots", "accounts/run", "accounts/snapshot"] {
            assert!(ledger.join(made).is_dir(), "{made}");
        }
        // The second time, there is nothing to make.
        assert_eq!(places.settle().unwrap(), places);
    }

    #[test]
    fn what_a_validator_would_refuse_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let missing = Places::new(scratch.path().join("nowhere")).settle().unwrap_err();
        assert!(missing.to_string().contains("does not exist"), "{missing}");
        let mut places = Places::new(scratch.path());
        places.accounts = vec![scratch.path().to_owned()];
        assert!(places.settle().unwrap_err().to_string().contains("both"));
        places.accounts.clear();
        assert!(places.settle().unwrap_err().to_string().contains("no accounts path"));
        let file = scratch.path().join("file");
        std::fs::write(&file, "").unwrap();
        places.accounts = vec![file];
        assert!(places.settle().unwrap_err().to_string().contains("Not a directory"));
    }
}
