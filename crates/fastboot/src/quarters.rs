//! Quarters: the directories of a ready state, and those of its successor, beside the validator's
//! own.
//!
//! They are laid out like a validator's directories ([`Places::beside`], [`Places::next`]), so the
//! same functions prepare, survey and clear states in all of them. Each has a lock of its own, which
//! is not the ledger's lock that a running validator holds. The successor is locked while it is
//! prepared; the ready state only while it is examined and moved, so that it can be adopted
//! meanwhile. Who needs both locks that of the successor first.
//!
//! ```text
//! <snapshots>/.unsnap-ready/snapshots/<slot>/   the ready state, with its mark
//! <accounts>/.unsnap-ready/run/                 its storages
//! <accounts>/.unsnap-ready/unsnap-shadow/       their second names
//! <...>/.unsnap-next/                           its successor, complete or not
//! <snapshots>/.unsnap-ready.lock, .unsnap-next.lock
//! ```
//!
//! A complete successor takes the place of the ready state in this order, each step durable before
//! the next: the directories of the ready state are moved aside, the one with its mark first; those
//! of the successor get their names, the one with its mark last. If this is interrupted, no mark is
//! in the directories of the ready state, and that of the successor is without its storages, which
//! no program takes for a whole state.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
    process::geteuid,
};
use unsnap_commit::{CommitError, is_same_mount, journal_written};
use unsnap_failure::{Failure, Remedy};
use unsnap_pass::Progress;
use unsnap_ring::Syscalls;
use unsnap_state::format::{FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX};
use unsnap_state::{Format, RUN_DIRECTORY, SHADOW_DIRECTORY, STAGED_STATE};

use crate::{
    Condition, FastbootError, Places, StateSurvey, Survey,
    files::{failed, open_directory, read_small},
    own_lock::{MOMENT, OwnLock},
    places::DIRECTORY_MODE,
    removal::{Removal, move_aside},
};

/// Longest wait of a complete successor for a process that is adopting the ready state, which
/// examines 430,000 storages. A guess.
const ADOPTED_WITHIN: Duration = Duration::from_mins(1);

/// Quarters of a state, locked.
pub(crate) struct Quarters {
    /// The directories.
    pub places: Places,
    /// The validator's own directories.
    adopted_to: Places,
    _lock: OwnLock,
}

impl Quarters {
    /// Locks the quarters of the ready state, whether they exist or not. Fails with
    /// [`FastbootError::Locked`] if another process works there.
    pub fn ready(calls: &Syscalls, adopted_to: &Places) -> Result<Self, FastbootError> {
        Self::lock(calls, adopted_to.beside(), adopted_to, MOMENT)
    }

    /// Locks the quarters of its successor in the same way.
    pub fn next(calls: &Syscalls, adopted_to: &Places) -> Result<Self, FastbootError> {
        Self::lock(calls, adopted_to.next(), adopted_to, MOMENT)
    }

    fn lock(
        calls: &Syscalls,
        places: Places,
        adopted_to: &Places,
        within: Duration,
    ) -> Result<Self, FastbootError> {
        let lock = OwnLock::take(calls, &places.lock_file(), &places.snapshots, within)?;
        lock.sign(calls);
        Ok(Self { places, adopted_to: adopted_to.clone(), _lock: lock })
    }

    /// Locks the quarters of the ready state if they exist.
    pub fn find_ready(
        calls: &Syscalls,
        adopted_to: &Places,
    ) -> Result<Option<Self>, FastbootError> {
        let exist = exist(calls, &adopted_to.beside())?;
        exist.then(|| Self::ready(calls, adopted_to)).transpose()
    }

    /// Locks the quarters of its successor if they exist.
    pub fn find_next(calls: &Syscalls, adopted_to: &Places) -> Result<Option<Self>, FastbootError> {
        let exist = exist(calls, &adopted_to.next())?;
        exist.then(|| Self::next(calls, adopted_to)).transpose()
    }

    /// Fails with [`FastbootError::Locked`] if another process works on a successor.
    pub fn refuse_next_locked(calls: &Syscalls, adopted_to: &Places) -> Result<(), FastbootError> {
        let next = adopted_to.next();
        OwnLock::refuse_held(calls, &next.lock_file(), &next.snapshots, MOMENT)
    }

    /// Fails with [`FastbootError::Locked`] if another process works on the ready state.
    pub fn refuse_ready_locked(calls: &Syscalls, adopted_to: &Places) -> Result<(), FastbootError> {
        let ready = adopted_to.beside();
        OwnLock::refuse_held(calls, &ready.lock_file(), &ready.snapshots, MOMENT)
    }

    /// Makes the directories. Fails if a state could not be adopted from there by renames alone.
    /// What was there is moved aside, and left over, except the files of an interrupted run that can
    /// be [resumed](Self::unfinished_since).
    pub fn make(&self, calls: &Syscalls) -> Result<(), FastbootError> {
        let places = &self.places;
        if self.unfinished_since(calls)?.is_none() {
            self.discard(calls)?;
        }
        make_own(calls, &places.snapshots)?;
        open_own(calls, &places.snapshots)?;
        make_own(calls, &places.states())?;
        for path in &places.accounts {
            make_own(calls, path)?;
            open_own(calls, path)?;
            make_own(calls, &path.join(RUN_DIRECTORY))?;
        }
        self.assert_adoptable(calls)
    }

    /// Returns when an interrupted run, which can be resumed, last recorded what is durable; `None`
    /// if there is no such run. It has published nothing: a run that was interrupted while it did
    /// is not resumed.
    pub fn unfinished_since(&self, calls: &Syscalls) -> Result<Option<SystemTime>, FastbootError> {
        for accounts in &self.places.accounts {
            let run = match open_own(calls, &accounts.join(RUN_DIRECTORY)) {
                Ok(run) => calls.entries(run).map_err(|errno| failed("read", accounts, errno))?,
                Err(error) if error.errno() == Some(Errno::NOENT) => Vec::new(),
                Err(error) => return Err(error),
            };
            let has_shadow = calls.lstatat(CWD, accounts.join(SHADOW_DIRECTORY)).is_ok();
            if !run.is_empty() || has_shadow {
                return Ok(None);
            }
        }
        let path = self.places.snapshots.join(STAGED_STATE);
        let written = match open_own(calls, &path) {
            Ok(staged) => journal_written(calls, &staged),
            Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
        };
        written.map_err(|errno| failed("examine", &path, errno))
    }

    /// Returns all directories.
    pub fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.places.accounts.iter().chain([&self.places.snapshots]).cloned()
    }

    /// Fails if a state could not be adopted by renames alone.
    pub fn assert_adoptable(&self, calls: &Syscalls) -> Result<(), FastbootError> {
        let (from, to) = (&self.places, &self.adopted_to);
        assert_renames(calls, &from.states(), &to.states())?;
        for (path, adopted_to) in from.accounts.iter().zip(&to.accounts) {
            let run = path.join(RUN_DIRECTORY);
            assert_renames(calls, &run, adopted_to)?;
            assert_renames(calls, &run, &adopted_to.join(RUN_DIRECTORY))?;
        }
        Ok(())
    }

    /// Returns the state if it is whole and has the wanted format.
    pub fn state(
        &self,
        calls: &Syscalls,
        format: Format,
        progress: &Progress,
    ) -> Result<Option<StateSurvey>, FastbootError> {
        whole_state(calls, &self.places, format, progress)
    }

    /// Lets this successor take the place of the ready state if it is whole and newer: an
    /// interrupted run has completed it. What is moved aside for it is left over.
    pub fn promote_finished(
        &self,
        calls: &Syscalls,
        format: Format,
        progress: &Progress,
    ) -> Result<(), FastbootError> {
        let Some(next) = self.state(calls, format, progress)? else { return Ok(()) };
        let ready = Self::ready(calls, &self.adopted_to)?;
        let older = ready.state(calls, format, progress)?;
        if older.is_some_and(|older| older.slot >= next.slot) {
            return Ok(());
        }
        tracing::info!(slot = next.slot, "an interrupted run had completed this state");
        self.promote_over(calls, &ready).map(drop)
    }

    /// Lets this successor, which must be complete and durable, take the place of the ready state.
    /// Waits while another process adopts that. Returns what was moved aside. After an error there
    /// may be no ready state, but none that looks whole and is not.
    pub fn promote(&self, calls: &Syscalls) -> Result<Removal, FastbootError> {
        let (own, within) = (&self.adopted_to, ADOPTED_WITHIN);
        let ready = Self::lock(calls, own.beside(), own, within)?;
        self.promote_over(calls, &ready)
    }

    fn promote_over(&self, calls: &Syscalls, ready: &Self) -> Result<Removal, FastbootError> {
        let removal = ready.discard(calls)?;
        let (from, to) = (&self.places, &ready.places);
        for (from, to) in from.accounts.iter().zip(&to.accounts) {
            rename(calls, from, to)?;
        }
        rename(calls, &from.snapshots, &to.snapshots)?;
        Ok(removal)
    }

    /// Moves the directories to where old files are removed, the one with the mark first. All old
    /// files are removed from one level: what was moved aside is never moved again.
    pub fn discard(&self, calls: &Syscalls) -> Result<Removal, FastbootError> {
        let (from, to, mut removal) = (&self.places, &self.adopted_to, Removal::default());
        removal.extend(move_aside(calls, &from.snapshots, &to.snapshots)?);
        for (path, holder) in from.accounts.iter().zip(&to.accounts) {
            removal.extend(move_aside(calls, path, holder)?);
        }
        Ok(removal)
    }
}

/// Returns whether one of the directories exists.
pub(crate) fn exist(calls: &Syscalls, places: &Places) -> Result<bool, FastbootError> {
    let mut paths = places.accounts.iter().chain([&places.snapshots]);
    paths.try_fold(false, |found, path| match calls.lstatat(CWD, path) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(found),
        Err(errno) => Err(failed("examine", path, errno)),
    })
}

/// Returns the newest state in these directories if it is whole and has the wanted format.
pub(crate) fn whole_state(
    calls: &Syscalls,
    places: &Places,
    format: Format,
    progress: &Progress,
) -> Result<Option<StateSurvey>, FastbootError> {
    for path in places.accounts.iter().chain([&places.snapshots]) {
        match open_own(calls, path) {
            // What is left of an interrupted run.
            Err(error) if error.errno() == Some(Errno::NOENT) => return Ok(None),
            result => result?,
        };
    }
    let survey = Survey::of_states(calls, places, progress)?;
    let Some(state) = survey.newest().cloned() else {
        return Ok(None);
    };
    if !matches!(state.condition, Condition::Whole { .. }) {
        let (slot, condition) = (state.slot, &state.condition);
        let directory = state.directory.display();
        tracing::warn!(slot, ?condition, %directory, "a state prepared beside is not whole");
        return Ok(None);
    }
    let directory = open_directory(calls, &state.directory)?;
    let mark = read_small(calls, &directory, FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX);
    let mark = mark.map_err(|errno| failed("read the mark in", &state.directory, errno))?;
    Ok(mark.is_some_and(|mark| mark == format.version().as_bytes()).then_some(state))
}

/// Renames a directory beside itself to a free name, durably.
fn rename(calls: &Syscalls, from: &Path, to: &Path) -> Result<(), FastbootError> {
    let (Some(parent), Some(name), Some(new_name)) =
        (from.parent(), from.file_name(), to.file_name())
    else {
        return Ok(());
    };
    let holder = open_directory(calls, parent)?;
    // `fstat` on an XFS directory reports that the file system has shut down; `fsync` does not
    // (see `staging` in the crate `unsnap-commit`).
    calls
        .rename_to_own(&holder, name, &holder, new_name)
        .and_then(|()| calls.fsync(&holder))
        .and_then(|()| calls.fstat(&holder))
        .map_err(|errno| failed("make ready", from, errno))?;
    Ok(())
}

/// Makes a directory durably, unless it exists.
fn make_own(calls: &Syscalls, path: &Path) -> Result<(), FastbootError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let holder = open_directory(calls, parent)?;
    match calls.mkdirat(CWD, path, Mode::from_raw_mode(DIRECTORY_MODE)) {
        Ok(()) => {
            calls.fsync(&holder).map_err(|errno| failed("sync the directory of", path, errno))
        }
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(failed("create", path, errno)),
    }
}

/// Opens a directory that must belong to this user. Where others may write, it could be a trap.
fn open_own(calls: &Syscalls, path: &Path) -> Result<OwnedFd, FastbootError> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let not_clean = |reason| Err(CommitError::NotClean { path: path.to_owned(), reason }.into());
    let directory = match calls.open(path, flags) {
        Ok(directory) => directory,
        Err(Errno::LOOP | Errno::NOTDIR) => return not_clean("is not a directory"),
        Err(errno) => return Err(failed("open", path, errno)),
    };
    let stat = calls.fstat(&directory).map_err(|errno| failed("examine", path, errno))?;
    if stat.st_uid != geteuid().as_raw() {
        return not_clean("belongs to another user");
    }
    Ok(directory)
}

/// Refuses two directories between which files cannot be renamed.
fn assert_renames(calls: &Syscalls, from: &Path, to: &Path) -> Result<(), FastbootError> {
    let (directory, other) = (open_directory(calls, from)?, open_directory(calls, to)?);
    let is_same = is_same_mount(calls, &directory, &other);
    if is_same.map_err(|errno| failed("examine", from, errno))? {
        return Ok(());
    }
    let reason = format!(
        "{} is on another file system than {}, or is a mount point: a state prepared beside a \
         running validator could not be moved there",
        to.display(),
        from.display()
    );
    let remedy = Remedy::advice(
        "mount the file system on the accounts path or the snapshots directory itself, or stop the \
         validator first",
    );
    Err(FastbootError::request(reason, Some(remedy)))
}
