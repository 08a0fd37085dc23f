//! Directories of a ready state, beside the validator's own.
//!
//! They have the layout of a validator's directories ([`Places::beside`]), so the same functions
//! prepare, survey and clear states in both. Every process that works there holds a lock on the
//! directory `<snapshots>/.unsnap-ready`. This is not the ledger's lock, which a running validator
//! holds.

use std::{os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{CWD, Mode, OFlags, StatxFlags},
    io::Errno,
    process::geteuid,
};
use unsnap_commit::CommitError;
use unsnap_failure::{Failure, Remedy};
use unsnap_pass::Progress;
use unsnap_ring::Syscalls;
use unsnap_state::format::{FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX};
use unsnap_state::{Format, RUN_DIRECTORY};

use crate::{
    Condition, FastbootError, Places, StateSurvey, Survey,
    files::{failed, open_directory, read_small},
    places::DIRECTORY_MODE,
    removal::{Removal, move_aside},
};

/// Number of attempts to lock the directory, which other processes may discard at any time. A
/// guess.
const ATTEMPTS_MAX: u32 = 100;

/// The directories of a ready state, locked.
pub(crate) struct Ready {
    pub places: Places,
    /// The validator's own directories.
    adopted_to: Places,
    _lock: OwnedFd,
}

impl Ready {
    /// Makes missing directories. Fails if a state could not be adopted from there by renames
    /// alone.
    pub fn make(
        calls: &Syscalls,
        adopted_to: &Places,
        progress: &Progress,
    ) -> Result<Self, FastbootError> {
        let ready = Self::lock(calls, adopted_to)?;
        let Err(error) = ready.fill(calls) else { return Ok(ready) };
        // An existing state may be adopted all the same.
        let is_empty =
            Survey::of_states(calls, &ready.places, progress).is_ok_and(|it| it.states.is_empty());
        if is_empty
            && let Err(error) = ready.discard(calls).and_then(|empty| empty.finish(calls, progress))
        {
            tracing::warn!(%error, "empty directories of the ready state cannot be removed");
        }
        Err(error)
    }

    fn fill(&self, calls: &Syscalls) -> Result<(), FastbootError> {
        let Self { places, adopted_to, .. } = self;
        let states = places.states();
        make_own(calls, &states)?;
        assert_renames(calls, &states, &adopted_to.states())?;
        for (path, adopted_to) in places.accounts.iter().zip(&adopted_to.accounts) {
            make_own(calls, path)?;
            open_own(calls, path)?;
            let run = path.join(RUN_DIRECTORY);
            make_own(calls, &run)?;
            assert_renames(calls, &run, adopted_to)?;
            assert_renames(calls, &run, &adopted_to.join(RUN_DIRECTORY))?;
        }
        Ok(())
    }

    /// Locks the directories if one of them exists. Returns `None` if none does. Fails with
    /// [`CommitError::Locked`] if another process works there.
    pub fn find(calls: &Syscalls, adopted_to: &Places) -> Result<Option<Self>, FastbootError> {
        let places = adopted_to.beside();
        let mut paths = places.accounts.iter().chain([&places.snapshots]);
        let exists = paths.try_fold(false, |found, path| match calls.lstatat(CWD, path) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(found),
            Err(errno) => Err(failed("examine", path, errno)),
        })?;
        if exists { Self::lock(calls, adopted_to).map(Some) } else { Ok(None) }
    }

    fn lock(calls: &Syscalls, adopted_to: &Places) -> Result<Self, FastbootError> {
        let places = adopted_to.beside();
        let path = &places.snapshots;
        let at = |step, errno| failed(step, path, errno);
        for _ in 0..ATTEMPTS_MAX {
            make_own(calls, path)?;
            let lock = match open_own(calls, path) {
                Err(error) if error.errno() == Some(Errno::NOENT) => continue,
                result => result?,
            };
            match calls.lock(&lock) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(CommitError::Locked { path: path.clone() }.into());
                }
                Err(errno) => return Err(at("lock", errno)),
            }
            // Another process may have moved the directory aside between open and lock.
            let ours = calls.fstat(&lock).map_err(|errno| at("examine", errno))?;
            match calls.lstatat(CWD, path) {
                Ok(named) if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino) => {
                    let adopted_to = adopted_to.clone();
                    return Ok(Self { places, adopted_to, _lock: lock });
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(at("examine", errno)),
            }
        }
        Err(CommitError::Locked { path: path.clone() }.into())
    }

    /// Returns the ready state if it is whole and has the wanted format.
    pub fn state(
        &self,
        calls: &Syscalls,
        format: Format,
        progress: &Progress,
    ) -> Result<Option<StateSurvey>, FastbootError> {
        for path in self.places.accounts.iter().chain([&self.places.snapshots]) {
            open_own(calls, path)?;
        }
        let survey = Survey::of_states(calls, &self.places, progress)?;
        let Some(state) = survey.states.into_iter().next() else {
            return Ok(None);
        };
        if !matches!(state.condition, Condition::Whole { .. }) {
            let (slot, condition) = (state.slot, &state.condition);
            tracing::warn!(slot, ?condition, "the ready state is not whole");
            return Ok(None);
        }
        let directory = open_directory(calls, &state.directory)?;
        let mark = read_small(calls, &directory, FASTBOOT_VERSION, FASTBOOT_VERSION_BYTES_MAX);
        let mark = mark.map_err(|errno| failed("read the mark in", &state.directory, errno))?;
        Ok(mark.is_some_and(|mark| mark == format.version().as_bytes()).then_some(state))
    }

    /// Moves the ready state aside. Its mark goes first.
    pub fn discard(self, calls: &Syscalls) -> Result<Removal, FastbootError> {
        let mut removal = Removal::default();
        let (from, to) = (&self.places, &self.adopted_to);
        removal.extend(move_aside(calls, &from.snapshots, &to.snapshots)?);
        for (path, holder) in from.accounts.iter().zip(&to.accounts) {
            removal.extend(move_aside(calls, path, holder)?);
        }
        Ok(removal)
    }
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
    let ((device, mount), (other_device, other_mount)) =
        (place_of(calls, from)?, place_of(calls, to)?);
    let same_mount = mount.zip(other_mount).is_none_or(|(one, other)| one == other);
    if device == other_device && same_mount {
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

/// Returns the device and the mount id of a directory. Mount ids need Linux 5.8; without them, only
/// the rename fails on a bind mount.
fn place_of(calls: &Syscalls, path: &Path) -> Result<(u64, Option<u64>), FastbootError> {
    let directory = open_directory(calls, path)?;
    let stat = calls.fstat(&directory).map_err(|errno| failed("examine", path, errno))?;
    let mount = calls.fstatx(&directory, StatxFlags::MNT_ID).ok();
    let mount = mount.filter(|mount| mount.stx_mask & StatxFlags::MNT_ID.bits() != 0);
    Ok((stat.st_dev, mount.map(|mount| mount.stx_mnt_id)))
}
