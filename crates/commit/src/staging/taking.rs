//! Checks of a destination, and the creation and locking of its staging directory.

use std::{
    ffi::{CStr, CString, OsStr},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    thread,
    time::Duration,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags},
    io::Errno,
    process::geteuid,
};
use unsnap_failure::Remedy;
use unsnap_ring::Syscalls;

use super::{
    files::empty,
    names::{DIRECTORY_MODE, EMPTYING, LOST_AND_FOUND, STAGING_NAME},
};
use crate::CommitError;

/// Most attempts to take a staging directory that vanishes because another run ends at that moment.
/// A guess.
const STAGING_ATTEMPTS_MAX: u32 = 100;

/// Attempts to lock a staging directory, and the wait between two of them: half a second in all. Guesses.
const LOCK_ATTEMPTS: u32 = 26;
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// Opens the directory that holds a destination.
pub(super) fn open_holder(calls: &Syscalls, parent: &Path) -> Result<OwnedFd, CommitError> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    calls.open(parent, flags).map_err(|errno| match errno {
        Errno::NOENT => CommitError::Request {
            reason: format!("directory {} does not exist", parent.display()),
            remedy: Remedy::make_directory(parent),
        },
        errno => CommitError::Staging { step: "open", path: parent.to_owned(), errno },
    })
}

/// Makes and locks a staging directory, or takes over one left by an interrupted run. Also returns
/// whether it was left over. Removes its content, unless `resume` is set.
pub(super) fn make_staging(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &CStr,
    path: &Path,
    resume: bool,
) -> Result<(OwnedFd, bool), CommitError> {
    let at = |step, errno| CommitError::Staging { step, path: path.to_owned(), errno };
    let mode = Mode::from_raw_mode(DIRECTORY_MODE);
    for _ in 0..STAGING_ATTEMPTS_MAX {
        let left_over = match calls.mkdirat(holder, name, mode) {
            Ok(()) => false,
            Err(Errno::EXIST) => true,
            Err(errno) => return Err(at("create the staging directory of", errno)),
        };
        match take_staging(calls, holder, name, path, left_over && !resume) {
            Ok(Some(staging)) => return Ok((staging, left_over)),
            Ok(None) => {}
            Err(error) => {
                // A directory made here is empty, so its removal destroys no files. If another run
                // has locked it meanwhile, it belongs to that run.
                if !left_over
                    && !matches!(error, CommitError::Locked { .. })
                    && let Err(errno) = calls.unlinkat(holder, name, AtFlags::REMOVEDIR)
                {
                    let path = path.display();
                    tracing::warn!(%errno, %path, "cannot remove an empty staging directory");
                }
                return Err(error);
            }
        }
    }
    Err(CommitError::Locked { path: path.to_owned() })
}

/// Opens and locks a staging directory, and empties it if `clear` is set. Returns `None` if its
/// owner has just published or removed it.
fn take_staging(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &CStr,
    path: &Path,
    clear: bool,
) -> Result<Option<OwnedFd>, CommitError> {
    let at = |step, errno| CommitError::Staging { step, path: path.to_owned(), errno };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let staging = match calls.openat(holder, name, flags, Mode::empty()) {
        Ok(staging) => staging,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(at("open the staging directory of", errno)),
    };
    match lock(calls, &staging) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(CommitError::Locked { path: path.to_owned() }),
        Err(errno) => return Err(at("lock the staging directory of", errno)),
    }
    // Its owner may have renamed or removed it between open and lock.
    let look_at = |errno| at("look at the staging directory of", errno);
    let ours = calls.fstat(&staging).map_err(look_at)?;
    match calls.lstatat(holder, name) {
        Ok(named) if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino) => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(look_at(errno)),
    }
    // In a directory that other users may write to, it could be a trap.
    if ours.st_uid != geteuid().as_raw() {
        let reason = "has a staging directory of another user beside or inside it";
        return Err(CommitError::NotClean { path: path.to_owned(), reason });
    }
    if clear {
        tracing::info!(path = %path.display(), "removing the files of an interrupted run");
        empty(calls, &staging).map_err(|errno| at(EMPTYING, errno))?;
    }
    // Overrides the umask and a default ACL.
    calls
        .fchmod(&staging, Mode::from_raw_mode(DIRECTORY_MODE))
        .map_err(|errno| at("set the mode of", errno))?;
    Ok(Some(staging))
}

/// Locks a staging directory, at once or after a moment: the lock of a run that was killed stays until
/// its last thread has ended, and a process that is about to execute a program has its parent's locks.
fn lock(calls: &Syscalls, staging: &OwnedFd) -> Result<(), Errno> {
    for _ in 1..LOCK_ATTEMPTS {
        match calls.lock(staging) {
            Err(Errno::WOULDBLOCK) => thread::sleep(LOCK_WAIT),
            result => return result,
        }
    }
    calls.lock(staging)
}

/// Content of a usable destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    Nothing,
    /// Entries that a fresh file system or an interrupted run leaves.
    Harmless,
}

/// Returns the content of a destination, or [`CommitError::NotClean`] if it holds other files.
pub(super) fn check_empty(
    calls: &Syscalls,
    directory: &OwnedFd,
    path: &Path,
) -> Result<Contents, CommitError> {
    let entries = calls.entries(directory).map_err(|errno| CommitError::Staging {
        step: "read",
        path: path.to_owned(),
        errno,
    })?;
    let harmless = [LOST_AND_FOUND, STAGING_NAME.as_bytes()];
    if entries.is_empty() {
        Ok(Contents::Nothing)
    } else if entries.iter().all(|(name, _)| harmless.contains(&name.to_bytes())) {
        Ok(Contents::Harmless)
    } else {
        Err(CommitError::NotClean { path: path.to_owned(), reason: "is not empty" })
    }
}

/// Returns whether a directory is a mount point, including a bind mount of the same file system, as
/// containers have them.
pub(super) fn is_mount_point(
    calls: &Syscalls,
    parent: &OwnedFd,
    directory: &OwnedFd,
) -> Result<bool, Errno> {
    if let Ok(answer) = calls.fstatx(directory, StatxFlags::BASIC_STATS)
        && answer.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
    {
        return Ok(answer.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // Before Linux 5.8.
    Ok(calls.fstat(parent)?.st_dev != calls.fstat(directory)?.st_dev)
}

/// Returns a file name as a C string.
pub(super) fn c_string(name: &OsStr, path: &Path) -> Result<CString, CommitError> {
    CString::new(name.as_bytes()).map_err(|_| CommitError::Request {
        reason: format!("{} is not a path", path.display()),
        remedy: Remedy::advice("a path has no NUL bytes"),
    })
}
