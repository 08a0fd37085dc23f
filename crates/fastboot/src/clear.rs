//! Clearing the way for a new state: what is old is moved aside at once.

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
    removal::{DEPTH_MAX, REMOVED_MAX, REMOVED_PREFIX, Removal, move_aside},
    survey::state_directories,
    withdraw::unmark,
};

/// See [`enough_to_clear`]: can be divided by the usual numbers of names.
const INODE_PARTS: u64 = 720_720;

/// Removes the marks of all states, and moves all that a validator would load, or mix with what is to
/// come, out of its sight: states, storages and their shadows. Each step is durable before the next.
pub(crate) fn clear(calls: &Syscalls, places: &Places) -> Result<Removal, FastbootError> {
    let withdrawn = unmark(calls, places)?;
    if !withdrawn.is_empty() {
        tracing::info!(slots = ?withdrawn, "older states are withdrawn");
    }
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

/// Whether so much would be free if what is old were gone as is missing, on every file system that is
/// too small; the error says where not. What is looked at is what [`clear`] would move aside in all of
/// these places; two names of one file count once.
pub(crate) fn enough_to_clear(
    calls: &Syscalls,
    cleared: &[&Places],
    shortage: &Shortage,
) -> Result<(), FastbootError> {
    let mut paths = Vec::new();
    for places in cleared {
        paths.extend(state_directories(calls, places)?.into_iter().map(|(_, path)| path));
        paths.extend(places.run_directories());
        paths.extend(places.accounts.iter().map(|path| path.join(SHADOW_DIRECTORY)));
        paths.extend(Removal::left_over(calls, places)?.paths());
    }
    let remaining = shortage.retain(|short| {
        let taken = Taken::by(calls, &paths, short.device)?;
        let cleared = match short.resource {
            Resource::Bytes => taken.bytes,
            Resource::Inodes => taken.inode_parts / INODE_PARTS,
        };
        let missing = short.needed.map_or(0, |needed| needed.saturating_sub(short.available));
        Ok::<_, FastbootError>(cleared < missing)
    })?;
    remaining.map_or(Ok(()), |shortage| Err(FitError::NoSpace(Box::new(shortage)).into()))
}

/// What files take.
#[derive(Default)]
struct Taken {
    bytes: u64,
    /// Of inodes so many parts, which any number of names share.
    inode_parts: u64,
}

impl Taken {
    /// By all that is below these directories, on this device.
    fn by(calls: &Syscalls, paths: &[PathBuf], device: u64) -> Result<Self, FastbootError> {
        let mut taken = Self::default();
        for path in paths {
            // Of a link what it leads to is not removed.
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let added = match calls.open(path, flags) {
                Ok(directory) => taken.add(calls, &directory, device, 0),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
                Err(errno) => Err(errno),
            };
            added.map_err(|errno| failed("look at", path, errno))?;
        }
        Ok(taken)
    }

    /// Adds the files in a directory, if that is on this device: elsewhere they are of no use.
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

/// Puts an empty directory in the place of `run`, at once: Agave 4.2 removes an accounts path that
/// has none, with all that is in it. Gives the path of what was there, if anything.
fn empty_run(calls: &Syscalls, accounts: &Path) -> Result<Option<PathBuf>, FastbootError> {
    let run = accounts.join(RUN_DIRECTORY);
    let at = |step, errno| failed(step, &run, errno);
    let holder = open_directory(calls, accounts)?;
    let entries = calls.entries(open_directory(calls, &run)?);
    if entries.map_err(|errno| at("read", errno))?.is_empty() {
        return Ok(None);
    }
    for number in 0..REMOVED_MAX {
        let name = format!("{REMOVED_PREFIX}{number}");
        match calls.mkdirat(&holder, name.as_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            Err(Errno::EXIST) => continue,
            Err(errno) => return Err(at("make the successor of", errno)),
        }
        match calls.exchange(&holder, name.as_str(), &holder, RUN_DIRECTORY) {
            Ok(()) => {}
            // One that prepares beside has taken it for left over.
            Err(Errno::NOENT) => continue,
            Err(Errno::INVAL | Errno::NOSYS) => {
                // Not every file system can. The moment between is the one that Agave has, too.
                calls
                    .unlinkat(&holder, name.as_str(), AtFlags::REMOVEDIR)
                    .and_then(|()| calls.renameat(&holder, RUN_DIRECTORY, &holder, name.as_str()))
                    .and_then(|()| {
                        calls.mkdirat(&holder, RUN_DIRECTORY, Mode::from_raw_mode(0o755))
                    })
                    .map_err(|errno| at("move aside", errno))?;
            }
            Err(errno) => {
                let _ = calls.unlinkat(&holder, name.as_str(), AtFlags::REMOVEDIR);
                return Err(at("move aside", errno));
            }
        }
        calls.fsync(&holder).map_err(|errno| at("sync the directory of", errno))?;
        return Ok(Some(accounts.join(name)));
    }
    Err(at("move aside", Errno::EXIST))
}
