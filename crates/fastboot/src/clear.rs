//! Clearing the way for a new state: what is old is moved aside at once, and removed at leisure.

use std::path::{Path, PathBuf};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use unsnap_ring::Syscalls;
use unsnap_unpack::{Error, RUN_DIRECTORY, Resource, SHADOW_DIRECTORY, STAGED, Shortage};

use crate::{
    Places,
    files::{failed, open_directory},
    remove::{REMOVED_MAX, REMOVED_PREFIX, Removal, move_aside},
    survey::state_directories,
    withdraw::unmark,
};

/// See [`enough_to_clear`]: can be divided by the usual numbers of names.
const INODE_PARTS: u64 = 720_720;

/// Removes the marks of all states, and moves all that a validator would load, or mix with what is to
/// come, out of its sight: states, storages and their shadows. Each step is durable before the next.
pub(crate) fn clear(calls: &Syscalls, places: &Places) -> Result<Removal, Error> {
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

/// Whether so much would be free if what is old were gone as is missing. What is looked at is what
/// [`clear`] would move aside; two names of one file count once.
pub(crate) fn enough_to_clear(
    calls: &Syscalls,
    places: &Places,
    shortage: &Shortage,
) -> Result<(), Error> {
    // Of inodes so many parts, which any number of names share.
    let (mut bytes, mut inode_parts) = (0_u64, 0_u64);
    let states = state_directories(calls, places)?.into_iter().map(|(_, path)| path);
    let storages = places.accounts.iter();
    let storages =
        storages.flat_map(|path| [path.join(RUN_DIRECTORY), path.join(SHADOW_DIRECTORY)]);
    for path in
        states.chain(storages).chain(Removal::left_over(calls, places)?.paths().iter().cloned())
    {
        let directory = match open_directory(calls, &path) {
            Ok(directory) => directory,
            Err(error) if error.errno() == Some(Errno::NOENT) => continue,
            Err(error) => return Err(error),
        };
        let at = |errno| failed("look at", &path, errno);
        // Elsewhere it is of no use.
        if calls.fstat(&directory).map_err(at)?.st_dev != shortage.device {
            continue;
        }
        for (name, kind) in calls.entries(&directory).map_err(at)? {
            if kind != FileType::RegularFile {
                continue;
            }
            let stat = calls.lstatat(&directory, &*name).map_err(at)?;
            let names = stat.st_nlink.max(1);
            bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512 / names;
            inode_parts += INODE_PARTS / names;
        }
    }
    let cleared = match shortage.resource {
        Resource::Bytes => bytes,
        Resource::Inodes => inode_parts / INODE_PARTS,
    };
    let missing = shortage.needed.map_or(0, |needed| needed.saturating_sub(shortage.available));
    if cleared < missing {
        return Err(Error::NoSpace(Box::new(shortage.clone())));
    }
    Ok(())
}

/// Puts an empty directory in the place of `run`, at once: Agave 4.2 removes an accounts path that
/// has none, with all that is in it. Gives the path of what was there, if anything.
fn empty_run(calls: &Syscalls, accounts: &Path) -> Result<Option<PathBuf>, Error> {
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

impl Removal {
    /// What earlier runs have moved aside and not removed.
    pub fn left_over(calls: &Syscalls, places: &Places) -> Result<Self, Error> {
        let mut left = Self::default();
        for holder in places.accounts.iter().chain([&places.snapshots, &places.states()]) {
            let entries = calls.entries(open_directory(calls, holder)?);
            let entries = entries.map_err(|errno| failed("read", holder, errno))?;
            for name in entries.iter().filter_map(|(name, _)| name.to_str().ok()) {
                if name.starts_with(REMOVED_PREFIX) {
                    left.extend(Some(holder.join(name)));
                }
            }
        }
        Ok(left)
    }

    /// Moves aside staging directories that nobody is using.
    pub fn staged(&mut self, calls: &Syscalls, places: &Places) -> Result<(), Error> {
        for holder in places.accounts.iter().chain([&places.snapshots, &places.states()]) {
            for name in STAGED {
                let path = holder.join(name);
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let Ok(staging) = calls.open(&path, flags) else { continue };
                // Kept until it has another name.
                if calls.lock(&staging).is_ok() {
                    self.extend(move_aside(calls, &path, holder)?);
                }
            }
        }
        Ok(())
    }

    /// Removes what earlier runs have left. What cannot be removed is only warned of.
    pub fn tidy(calls: &Syscalls, places: &Places) {
        let mut removal = Self::default();
        let found = removal.staged(calls, places).and_then(|()| Self::left_over(calls, places));
        if let Err(error) = found.and_then(|left| left.finish(calls)) {
            tracing::warn!(%error, "what an earlier run has left is left to the next one");
        }
    }
}
