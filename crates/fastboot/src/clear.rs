//! Clearing of old states: their files are moved aside at once.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use unsnap_fit::{FitError, Resource, Shortage};
use unsnap_ring::Syscalls;
use unsnap_state::{RUN_DIRECTORY, SHADOW_DIRECTORY};

use crate::{
    FastbootError, Places,
    files::{failed, open_directory},
    removal::{DEPTH_MAX, OLD_RUN, Removal, move_aside, reclaim},
    states::state_directories,
    withdraw::unmark,
};

/// Parts of an inode, for files with several names. Divisible by all usual numbers of names.
const INODE_PARTS: u64 = 720_720;

/// Removes the marks of all states. Then moves everything aside that a validator would load, or mix
/// with the new state: states, storages and shadows. Each step is durable before the next.
pub(crate) fn clear(calls: &Syscalls, places: &Places) -> Result<Removal, FastbootError> {
    let withdrawn = unmark(calls, places)?;
    if !withdrawn.is_empty() {
        tracing::info!(slots = ?withdrawn, "older states were withdrawn");
    }
    reclaim(calls, places)?;
    let mut removal = Removal::left_over(calls, places)?;
    removal.staged(calls, places)?;
    for (_, path) in state_directories(calls, places)? {
        removal.extend(move_aside(calls, &path, &places.snapshots)?);
    }
    for accounts in &places.accounts {
        removal.extend(empty_run(calls, accounts)?);
        removal.extend(move_aside(calls, &accounts.join(SHADOW_DIRECTORY), accounts)?);
    }
    Ok(removal)
}

/// Returns the old files that [`clear`] would move aside.
pub(crate) fn old_files(calls: &Syscalls, places: &Places) -> Result<Vec<PathBuf>, FastbootError> {
    let states = state_directories(calls, places)?.into_iter().map(|(_, path)| path);
    let mut paths: Vec<PathBuf> = states.chain(places.run_directories()).collect();
    for name in [SHADOW_DIRECTORY, OLD_RUN] {
        paths.extend(places.accounts.iter().map(|path| path.join(name)));
    }
    paths.extend(Removal::left_over(calls, places)?.paths());
    Ok(paths)
}

/// Checks whether removing old files would free enough space on every file system that is too
/// small. The error names those where it would not. A file with two names counts once.
pub(crate) fn enough_to_clear(
    calls: &Syscalls,
    paths: &[PathBuf],
    shortage: &Shortage,
) -> Result<(), FastbootError> {
    let remaining = shortage.retain(|short| {
        let taken = Taken::by(calls, paths, short.device)?;
        let cleared = match short.resource {
            Resource::Bytes => taken.bytes,
            Resource::Inodes => taken.inode_parts / INODE_PARTS,
        };
        Ok::<_, FastbootError>(cleared < short.missing())
    })?;
    remaining.map_or(Ok(()), |shortage| Err(FitError::NoSpace(Box::new(shortage)).into()))
}

/// Space taken by files.
#[derive(Default)]
pub(crate) struct Taken {
    pub bytes: u64,
    /// Inodes, in units of 1/[`INODE_PARTS`].
    inode_parts: u64,
}

impl Taken {
    /// Counts all files below these directories on one device. A file with two names counts once
    /// if both are there, and half if one is.
    pub fn by(calls: &Syscalls, paths: &[PathBuf], device: u64) -> Result<Self, FastbootError> {
        let mut taken = Self::default();
        for path in paths {
            // Clearing removes a link, but not its target.
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let added = match calls.open(path, flags) {
                Ok(directory) => taken.add(calls, &directory, device, 0),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
                Err(errno) => Err(errno),
            };
            added.map_err(|errno| failed("examine", path, errno))?;
        }
        Ok(taken)
    }

    /// Adds the files in a directory, if it is on this device.
    fn add(
        &mut self,
        calls: &Syscalls,
        directory: &OwnedFd,
        device: u64,
        depth: u32,
    ) -> Result<(), Errno> {
        if depth > DEPTH_MAX || calls.fstat(directory)?.st_dev != device {
            return Ok(());
        }
        for (name, kind) in calls.entries(directory)? {
            if kind == FileType::Directory {
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let inner = calls.openat(directory, &*name, flags, Mode::empty())?;
                self.add(calls, &inner, device, depth + 1)?;
            } else if kind == FileType::RegularFile {
                let stat = calls.lstatat(directory, &*name)?;
                let names = stat.st_nlink.max(1);
                self.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512 / names;
                self.inode_parts += INODE_PARTS / names;
            }
        }
        Ok(())
    }
}

/// Replaces `run` by an empty directory, atomically: Agave 4.2 removes an accounts path that has no
/// `run`, with all its content. Returns the new path of the old directory, unless it was empty.
fn empty_run(calls: &Syscalls, accounts: &Path) -> Result<Option<PathBuf>, FastbootError> {
    let (run, old) = (accounts.join(RUN_DIRECTORY), accounts.join(OLD_RUN));
    let at = |step, errno| failed(step, &run, errno);
    let holder = open_directory(calls, accounts)?;
    let mode = Mode::from_raw_mode(0o755);
    calls
        .mkdirat(&holder, OLD_RUN, mode)
        .map_err(|errno| at("make an empty directory to replace", errno))?;
    match calls.exchange(&holder, OLD_RUN, &holder, RUN_DIRECTORY) {
        Ok(()) => {}
        Err(Errno::INVAL | Errno::NOSYS) => {
            // Not every file system can exchange names. Agave has the same moment without `run`.
            calls
                .unlinkat(&holder, OLD_RUN, AtFlags::REMOVEDIR)
                .and_then(|()| calls.renameat(&holder, RUN_DIRECTORY, &holder, OLD_RUN))
                .and_then(|()| calls.mkdirat(&holder, RUN_DIRECTORY, mode))
                .map_err(|errno| at("move aside", errno))?;
        }
        Err(errno) => {
            let _ = calls.unlinkat(&holder, OLD_RUN, AtFlags::REMOVEDIR);
            return Err(at("move aside", errno));
        }
    }
    // Not listed to see whether it is empty: that takes a while for 430,000 files, and the ledger is
    // locked.
    match calls.unlinkat(&holder, OLD_RUN, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(None),
        Err(Errno::NOTEMPTY | Errno::EXIST) => move_aside(calls, &old, accounts),
        Err(errno) => Err(at("look into", errno)),
    }
}
