//! Removing what has been moved aside: at leisure, beside other work.

use std::{
    ffi::OsStr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use unsnap_ring::Syscalls;
use unsnap_unpack::{CancelToken, Error};

use crate::files::{failed, open_directory};

/// Names of what has been moved aside begin so. No validator looks at them, and nobody else makes such
/// names.
pub const REMOVED_PREFIX: &str = ".unsnap-removed-";

/// Things moved aside at a time at most. A guess.
pub(crate) const REMOVED_MAX: u32 = 10_000;

/// Directories below one another that are gone into: a state has none, an interrupted one's staging
/// directory one. A guess.
const DEPTH_MAX: u32 = 64;

/// Files that are removed in a second while something is being unpacked beside: so that unpacking
/// keeps the journal of the file system to itself. A guess.
const FILES_A_SECOND: u32 = 4000;

/// Between two rests, at most.
const FILES_AT_A_TIME: u32 = 64;

/// Rests in a second where files are few, so that whoever asks to stop is heard soon. A guess.
const RESTS_A_SECOND: u32 = 16;

/// How removing goes on beside other work: for others to steer, and to see. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Leisure {
    /// Files removed in a second, at most; 0 for as many as can be.
    pub files_a_second: u32,
    /// Files removed so far.
    pub removed: Arc<AtomicU64>,
    /// Ends it. What is left is left to the next run.
    pub stop: CancelToken,
}

/// What has been moved aside, and is to be removed.
#[derive(Debug, Default)]
pub struct Removal {
    paths: Vec<PathBuf>,
}

impl Removal {
    /// Adds what has been moved aside.
    pub fn extend(&mut self, path: Option<PathBuf>) {
        self.paths.extend(path);
    }

    /// What it is.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Removes everything now.
    pub fn finish(self, calls: &Syscalls) -> Result<(), Error> {
        self.at_leisure(calls, &Leisure::default())
    }

    /// Removes everything, with rests.
    pub fn at_leisure(self, calls: &Syscalls, leisure: &Leisure) -> Result<(), Error> {
        self.remove(calls, leisure, &AtomicBool::new(false))
    }

    /// Removes everything by a thread of its own, slowly at first.
    pub fn start(self, calls: &Syscalls) -> Remover {
        let hurry = Arc::new(AtomicBool::new(false));
        let (flag, calls) = (Arc::clone(&hurry), calls.clone());
        let leisure = Leisure { files_a_second: FILES_A_SECOND, ..Leisure::default() };
        let work = move || self.remove(&calls, &leisure, &flag);
        let thread = thread::Builder::new().name("unsnap-remove".to_owned()).spawn(work);
        if let Err(error) = &thread {
            tracing::warn!(%error, "what was moved aside is left to the next run");
        }
        Remover { hurry, thread: thread.ok() }
    }

    fn remove(self, calls: &Syscalls, leisure: &Leisure, hurry: &AtomicBool) -> Result<(), Error> {
        let mut pace = Pace { leisure, hurry, removed: 0, since: Instant::now() };
        let mut one = |path: &PathBuf| {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Ok(());
            };
            let holder = open_directory(calls, parent)?;
            let name = std::ffi::CString::new(name.as_encoded_bytes()).unwrap_or_default();
            let removed = remove_tree(calls, &holder, &name, &mut pace, 0);
            removed.map_err(|errno| match errno {
                Errno::CANCELED => Error::Cancelled,
                errno => failed("remove", path, errno),
            })
        };
        // Every one is tried, whatever becomes of the others.
        self.paths.iter().map(&mut one).fold(Ok(()), Result::and)
    }
}

/// Removes what has been moved aside, while something else goes on.
pub struct Remover {
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
struct Pace<'a> {
    leisure: &'a Leisure,
    hurry: &'a AtomicBool,
    /// Since the last rest.
    removed: u32,
    since: Instant,
}

impl Pace<'_> {
    fn file_removed(&mut self) -> Result<(), Errno> {
        self.leisure.removed.fetch_add(1, Ordering::Relaxed);
        if self.leisure.stop.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        let files_a_second = self.leisure.files_a_second;
        self.removed += 1;
        if files_a_second == 0
            || self.removed < (files_a_second / RESTS_A_SECOND).clamp(1, FILES_AT_A_TIME)
        {
            return Ok(());
        }
        let due = Duration::from_secs(1) * self.removed / files_a_second;
        let rest = due.saturating_sub(self.since.elapsed());
        if !self.hurry.load(Ordering::Relaxed) {
            thread::sleep(rest);
        }
        (self.removed, self.since) = (0, Instant::now());
        Ok(())
    }
}

fn remove_tree(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &std::ffi::CStr,
    pace: &mut Pace<'_>,
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
            remove_tree(calls, &directory, &inner, pace, depth + 1)?;
            continue;
        }
        calls.unlinkat(&directory, &*inner, AtFlags::empty())?;
        pace.file_removed()?;
    }
    calls.unlinkat(holder, name, AtFlags::REMOVEDIR)
}

/// Gives a directory a name in `holder`, on the same file system, under which nobody looks for it;
/// durably. Gives its new path; `None` if there is no such directory.
pub fn move_aside(calls: &Syscalls, path: &Path, holder: &Path) -> Result<Option<PathBuf>, Error> {
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
