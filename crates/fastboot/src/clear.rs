//! Clearing the way for a new state: what is old is moved aside at once, and removed at leisure.

use std::{
    ffi::OsStr,
    num::NonZeroU32,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use unsnap_ring::Syscalls;
use unsnap_unpack::{Error, RUN_DIRECTORY, Resource, SHADOW_DIRECTORY, STAGED, Shortage};

use crate::{
    Places, REMOVAL_FILES_PER_SECOND, Request,
    files::{failed, open_directory},
    survey::state_directories,
    withdraw::unmark,
};

/// Names of what has been moved aside begin so. No validator looks at them.
const REMOVED_PREFIX: &str = ".unsnap-removed-";

/// Things moved aside at a time at most. A guess.
const REMOVED_MAX: u32 = 10_000;

/// Directories below one another that are gone into: a state has none, an interrupted one's staging
/// directory one. A guess.
const DEPTH_MAX: u32 = 64;

/// See [`enough_to_clear`]: can be divided by the usual numbers of names.
const INODE_PARTS: u64 = 720_720;

/// Between two rests, at the most.
const FILES_AT_A_TIME: u32 = 64;

/// After so long a rest it is looked whether there is a hurry. A guess.
const REST_MAX: Duration = Duration::from_millis(50);

/// What has been moved aside, and is to be removed.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    paths: Vec<PathBuf>,
}

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
    for path in states.chain(storages).chain(Removal::left_over(calls, places)?.paths) {
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

/// Gives a directory a name in `holder`, on the same file system, under which nobody looks for it;
/// durably. Gives its new path; `None` if there is no such directory.
pub(crate) fn move_aside(
    calls: &Syscalls,
    path: &Path,
    holder: &Path,
) -> Result<Option<PathBuf>, Error> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let (from, to) = (open_directory(calls, parent)?, open_directory(calls, holder)?);
    for number in 0..REMOVED_MAX {
        let new_name = format!("{REMOVED_PREFIX}{number}");
        match rename_to_new(calls, &from, name, &to, &new_name) {
            Ok(()) => {
                let synced = calls.fsync(&from).and_then(|()| calls.fsync(&to));
                synced.map_err(|errno| failed("sync the directory of", path, errno))?;
                return Ok(Some(holder.join(new_name)));
            }
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::EXIST) => {}
            // The directory of states may be a link to another file system, or a mount point.
            Err(Errno::XDEV) if holder != parent => return move_aside(calls, path, parent),
            Err(errno) => return Err(failed("move aside", path, errno)),
        }
    }
    Err(failed("move aside", path, Errno::EXIST))
}

/// Renames to a name that must be new; where the file system knows no such rename, after looking.
/// Nobody else has names like ours.
fn rename_to_new(
    calls: &Syscalls,
    from: &OwnedFd,
    name: &OsStr,
    to: &OwnedFd,
    new_name: &str,
) -> Result<(), Errno> {
    match calls.renameat_to_new(from, name, to, new_name) {
        Err(Errno::INVAL | Errno::NOSYS) => match calls.lstatat(to, new_name) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => calls.renameat(from, name, to, new_name),
            Err(errno) => Err(errno),
        },
        result => result,
    }
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
                    left.paths.push(holder.join(name));
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

    pub fn extend(&mut self, path: Option<PathBuf>) {
        self.paths.extend(path);
    }

    /// Removes everything now.
    pub fn finish(self, calls: &Syscalls) -> Result<(), Error> {
        self.remove(calls, &AtomicBool::new(true), REMOVAL_FILES_PER_SECOND)
    }

    /// Removes everything by a thread of its own, slowly at first, and as urgent as unpacking is.
    pub fn start(self, calls: &Syscalls, request: &Request) -> Remover {
        let hurry = Arc::new(AtomicBool::new(false));
        let (flag, calls) = (Arc::clone(&hurry), calls.clone());
        let (config, files_a_second) = (request.config.clone(), request.removal_files_per_second);
        let work = move || {
            // What is refused is told by unpacking.
            config.settle_this_thread()?;
            self.remove(&calls, &flag, files_a_second)
        };
        let thread = thread::Builder::new().name("unsnap-remove".to_owned()).spawn(work);
        if let Err(error) = &thread {
            tracing::warn!(%error, "what was moved aside is left to the next run");
        }
        Remover { hurry, thread: thread.ok() }
    }

    fn remove(
        self,
        calls: &Syscalls,
        hurry: &AtomicBool,
        files_a_second: NonZeroU32,
    ) -> Result<(), Error> {
        let mut rests = Rests { hurry, files_a_second, removed: 0, since: Instant::now() };
        let mut one = |path: &PathBuf| {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Ok(());
            };
            let holder = open_directory(calls, parent)?;
            let name = std::ffi::CString::new(name.as_encoded_bytes()).unwrap_or_default();
            let removed = remove_tree(calls, &holder, &name, &mut rests, 0);
            removed.map_err(|errno| failed("remove", path, errno))
        };
        // Every one is tried, whatever becomes of the others.
        self.paths.iter().map(&mut one).fold(Ok(()), Result::and)
    }
}

/// Removes what has been moved aside, while something else goes on.
pub(crate) struct Remover {
    hurry: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Remover {
    /// Waits until everything is gone, as fast as it can. What cannot be removed is only warned of:
    /// it is in nobody's way but that it takes space.
    pub fn finish(mut self) {
        self.join();
    }

    fn join(&mut self) {
        self.hurry.store(true, Ordering::Relaxed);
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!(%error, "what was moved aside is left to the next run");
        }
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.join();
    }
}

/// Rests between files.
struct Rests<'a> {
    hurry: &'a AtomicBool,
    files_a_second: NonZeroU32,
    removed: u32,
    since: Instant,
}

impl Rests<'_> {
    fn file_removed(&mut self) {
        self.removed += 1;
        if self.removed < FILES_AT_A_TIME.min(self.files_a_second.get()) {
            return;
        }
        let due = self.since + Duration::from_secs(1) * self.removed / self.files_a_second.get();
        // Whoever hurries us does not wait until the end of a rest.
        while !self.hurry.load(Ordering::Relaxed) {
            let rest = due.saturating_duration_since(Instant::now()).min(REST_MAX);
            if rest.is_zero() {
                break;
            }
            thread::sleep(rest);
        }
        (self.removed, self.since) = (0, Instant::now());
    }
}

fn remove_tree(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &std::ffi::CStr,
    rests: &mut Rests<'_>,
    depth: u32,
) -> Result<(), Errno> {
    if depth > DEPTH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let directory = match calls.openat(holder, name, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        // The directory of a state may have been a link, which goes, and what it leads to stays.
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return calls.unlinkat(holder, name, AtFlags::empty());
        }
        Err(errno) => return Err(errno),
    };
    for (inner, kind) in calls.entries(&directory)? {
        if kind == FileType::Directory {
            remove_tree(calls, &directory, &inner, rests, depth + 1)?;
            continue;
        }
        calls.unlinkat(&directory, &*inner, AtFlags::empty())?;
        rests.file_removed();
    }
    calls.unlinkat(holder, name, AtFlags::REMOVEDIR)
}
