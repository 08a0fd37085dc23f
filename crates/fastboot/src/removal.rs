//! Removal of files that were moved aside.

use std::{
    ffi::{CStr, CString},
    num::NonZeroU32,
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
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use unsnap_commit::is_same_mount;
use unsnap_failure::Failure;
use unsnap_pass::{CancelToken, Phase, Progress};
use unsnap_ring::Syscalls;
use unsnap_state::STAGED;

use crate::{
    FastbootError, Places, REMOVAL_FILES_PER_SECOND,
    files::{failed, open_directory},
    request::Work,
};

/// Prefix of the names of directories that were moved aside. Validators ignore such names.
pub const REMOVED_PREFIX: &str = ".unsnap-removed-";

/// Name that `run` gets for a moment. No process removes files under this name, so none can have
/// opened the empty directory that becomes `run`, and remove what a validator puts there.
pub(crate) const OLD_RUN: &str = ".unsnap-old-run";

/// Most directories that wait for removal in one place. A guess.
const REMOVED_MAX: u32 = 10_000;

/// Depth to which nested directories are entered. A state has none, the staging directory of an
/// interrupted run one level, a ready state two. A guess.
pub(crate) const DEPTH_MAX: u32 = 64;

/// Most files that are removed between two rests.
const FILES_AT_A_TIME: u32 = 64;

/// Rests per second at low rates, so that a request to stop is seen soon. A guess.
const RESTS_A_SECOND: u32 = 16;

/// Longest sleep before the request to hurry or stop is checked again. A guess.
const REST_MAX: Duration = Duration::from_millis(50);

/// Longest time that a waiting validator is delayed by removing files. A guess.
const LATE_AFTER: Duration = Duration::from_secs(10);

/// Rate and progress of removing files beside other work. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Leisure {
    /// Most files removed per second; 0 for no limit.
    pub files_a_second: u32,
    /// Set to remove at full speed from then on.
    pub hurry: Arc<AtomicBool>,
    /// Number of files removed so far.
    pub removed: Arc<AtomicU64>,
    /// Stops the removal. The next run removes the rest.
    pub stop: CancelToken,
}

/// Directories that were moved aside and wait for removal.
#[derive(Debug, Default)]
pub struct Removal {
    paths: Vec<PathBuf>,
}

impl Removal {
    /// Finds directories that earlier runs moved aside but did not remove.
    pub(crate) fn left_over(calls: &Syscalls, places: &Places) -> Result<Self, FastbootError> {
        let mut left = Self::default();
        for holder in holders(places) {
            let entries = match open_directory(calls, holder.as_path()) {
                Ok(directory) => calls.entries(directory),
                Err(error) if error.errno() == Some(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            };
            let entries = entries.map_err(|errno| failed("read", &holder, errno))?;
            for name in entries.iter().filter_map(|(name, _)| name.to_str().ok()) {
                if name.starts_with(REMOVED_PREFIX) {
                    left.paths.push(holder.join(name));
                }
            }
        }
        Ok(left)
    }

    /// Moves aside staging directories that no process uses.
    pub(crate) fn staged(
        &mut self,
        calls: &Syscalls,
        places: &Places,
    ) -> Result<(), FastbootError> {
        for holder in holders(places) {
            for name in STAGED {
                let path = holder.join(name);
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let Ok(staging) = calls.open(&path, flags) else { continue };
                // The lock is held until the directory has its new name.
                if calls.lock(&staging).is_ok() {
                    self.extend(move_aside(calls, &path, &holder)?);
                }
            }
        }
        Ok(())
    }

    /// Removes leftovers of earlier runs for a bounded time. Errors are only logged.
    pub(crate) fn tidy(work: Work<'_>, places: &Places) {
        let Work { calls, .. } = work;
        let mut removal = Self::default();
        let found = removal.staged(calls, places).and_then(|()| Self::left_over(calls, places));
        match found {
            Ok(left) => left.finish_in_time(work),
            Err(error) => log_remaining(&error),
        }
    }

    /// Adds directories that were moved aside.
    pub fn extend(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.paths.extend(paths);
    }

    /// Drops paths that occur twice.
    pub(crate) fn once(mut self) -> Self {
        self.paths.sort_unstable();
        self.paths.dedup();
        self
    }

    /// Returns the current paths.
    pub fn paths(self) -> Vec<PathBuf> {
        self.paths
    }

    /// Returns whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Removes everything at full speed.
    pub fn finish(self, calls: &Syscalls, progress: &Progress) -> Result<(), FastbootError> {
        let mut pace = Pace::new(Arc::new(AtomicBool::new(true)), Until::Done);
        pace.shown_in(progress);
        self.remove(calls, &mut pace)
    }

    /// Removes everything at the given rate, which also counts the removed files and can stop the
    /// removal.
    pub fn at_leisure(self, calls: &Syscalls, leisure: &Leisure) -> Result<(), FastbootError> {
        let files_a_second = NonZeroU32::new(leisure.files_a_second);
        let hurry = match files_a_second {
            Some(_) => Arc::clone(&leisure.hurry),
            None => Arc::new(AtomicBool::new(true)),
        };
        let mut pace = Pace::new(hurry, Until::Cancelled(leisure.stop.clone()));
        pace.files_a_second = files_a_second.unwrap_or(NonZeroU32::MAX);
        pace.removed_in_all = Arc::clone(&leisure.removed);
        self.remove(calls, &mut pace)
    }

    /// Removes what it can while a validator waits, until cancelled. Errors are only logged.
    pub(crate) fn finish_in_time(self, work: Work<'_>) {
        self.finish_before(work, Instant::now() + LATE_AFTER);
    }

    fn finish_before(self, work: Work<'_>, late: Instant) {
        let Work { calls, progress, cancel, .. } = work;
        let until = Until::Late(late, cancel.clone());
        let mut pace = Pace::new(Arc::new(AtomicBool::new(true)), until);
        pace.shown_in(progress);
        if let Err(error) = self.remove(calls, &mut pace) {
            log_remaining(&error);
        }
    }

    /// Removes everything at the requested rate, until cancelled. Errors are only logged.
    pub(crate) fn finish_slowly(self, work: Work<'_>) {
        let Work { request, calls, progress, cancel } = work;
        let until = Until::Cancelled(cancel.clone());
        let mut pace = Pace::new(Arc::new(AtomicBool::new(false)), until);
        pace.files_a_second = request.removal_files_per_second;
        pace.shown_in(progress);
        if let Err(error) = self.remove(calls, &mut pace) {
            log_remaining(&error);
        }
    }

    /// Removes everything on a thread of its own, with the priority of unpacking, until the work is
    /// cancelled. With `hurries` it goes at full speed as soon as it is waited for.
    pub(crate) fn start(self, work: Work<'_>, hurries: bool) -> Remover {
        if self.is_empty() {
            return Remover { hurry: None, thread: None };
        }
        let Work { request, calls, progress, cancel } = work;
        let hurry = Arc::new(AtomicBool::new(false));
        let until = Until::Cancelled(cancel.clone());
        let (mut pace, calls) = (Pace::new(Arc::clone(&hurry), until), calls.clone());
        pace.files_a_second = request.removal_files_per_second;
        pace.progress = Some(progress.clone());
        let neighbour = request.pass.neighbour.clone();
        let work = move || {
            // Limits that the kernel refuses are reported by unpacking.
            neighbour.settle()?;
            self.remove(&calls, &mut pace)
        };
        let thread = thread::Builder::new().name("unsnap-remove".to_owned()).spawn(work);
        if let Err(error) = &thread {
            tracing::warn!(%error, "files of older states remain; the next run will remove them");
        }
        let hurry = hurries.then_some(hurry);
        Remover { hurry, thread: thread.ok() }
    }

    fn remove(self, calls: &Syscalls, pace: &mut Pace) -> Result<(), FastbootError> {
        let mut one = |path: &PathBuf| {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Ok(());
            };
            let holder = open_directory(calls, parent)?;
            let name = CString::new(name.as_encoded_bytes()).unwrap_or_default();
            let removed = remove_tree(calls, &holder, &name, pace, 0);
            removed.map_err(|errno| failed("remove", path, errno))
        };
        // Every directory is tried, even after an error.
        self.paths.iter().map(&mut one).fold(Ok(()), Result::and)
    }
}

/// Returns the directories that hold directories moved aside, in the same order for all places.
fn holders(places: &Places) -> Vec<PathBuf> {
    let own = [places.snapshots.clone(), places.states()];
    places.accounts.iter().cloned().chain(own).collect()
}

/// Logs that directories remain. They do no harm, but take space.
fn log_remaining(error: &FastbootError) {
    tracing::warn!(%error, "files of older states remain; the next run will remove them");
}

/// Renames a directory to an unused name in `holder`, on the same file system, durably. Returns its
/// new path; `None` if there is no such directory.
pub fn move_aside(
    calls: &Syscalls,
    path: &Path,
    holder: &Path,
) -> Result<Option<PathBuf>, FastbootError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let (from, to) = (open_directory(calls, parent)?, open_directory(calls, holder)?);
    for number in 0..REMOVED_MAX {
        let new_name = format!("{REMOVED_PREFIX}{number}");
        match calls.rename_to_own(&from, name, &to, &new_name) {
            Ok(()) => {
                let synced = calls.fsync(&from).and_then(|()| calls.fsync(&to));
                synced.map_err(|errno| failed("sync the directory of", path, errno))?;
                return Ok(Some(holder.join(new_name)));
            }
            // What is there must not be taken for gone: a new state would mix with it.
            Err(Errno::NOENT) => match calls.lstatat(&from, name) {
                Err(Errno::NOENT) => return Ok(None),
                Ok(_) => return Err(failed("move aside", path, Errno::NOENT)),
                Err(errno) => return Err(failed("examine", path, errno)),
            },
            Err(Errno::EXIST) => {}
            // The directory of states may be a link to another file system or a mount point.
            Err(Errno::XDEV) if holder != parent => return move_aside(calls, path, parent),
            Err(errno) => return Err(failed("move aside", path, errno)),
        }
    }
    Err(failed("move aside", path, Errno::EXIST))
}

/// Moves old storages aside that an interrupted run has left under a name of its own.
pub(crate) fn reclaim(calls: &Syscalls, places: &Places) -> Result<(), FastbootError> {
    for accounts in &places.accounts {
        move_aside(calls, &accounts.join(OLD_RUN), accounts)?;
    }
    Ok(())
}

/// A thread that removes directories while other work goes on.
pub(crate) struct Remover {
    /// Set to hurry; `None` if the thread stays slow.
    hurry: Option<Arc<AtomicBool>>,
    thread: Option<JoinHandle<Result<(), FastbootError>>>,
}

impl Remover {
    /// Waits until everything is removed, or the work is cancelled. Errors are only logged.
    pub fn finish(mut self, progress: &Progress) {
        if self.thread.is_some() {
            progress.enter(Phase::Removing);
        }
        self.join();
    }

    fn join(&mut self) {
        if let Some(hurry) = &self.hurry {
            hurry.store(true, Ordering::Relaxed);
        }
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            log_remaining(&error);
        }
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.join();
    }
}

/// End of a removal.
enum Until {
    /// All files are removed.
    Done,
    /// The caller cancels.
    Cancelled(CancelToken),
    /// The time is up, or the caller cancels.
    Late(Instant, CancelToken),
}

/// Rests between files, and the count of removed files.
struct Pace {
    hurry: Arc<AtomicBool>,
    until: Until,
    /// Files removed since the last rest.
    removed: u32,
    since: Instant,
    removed_in_all: Arc<AtomicU64>,
    /// Progress that is shown, if any.
    progress: Option<Progress>,
    files_a_second: NonZeroU32,
}

impl Pace {
    fn new(hurry: Arc<AtomicBool>, until: Until) -> Self {
        Self {
            hurry,
            until,
            removed: 0,
            since: Instant::now(),
            removed_in_all: Arc::default(),
            progress: None,
            files_a_second: REMOVAL_FILES_PER_SECOND,
        }
    }

    /// Shows the removal as a phase of its own.
    fn shown_in(&mut self, progress: &Progress) {
        progress.begin_files(Phase::Removing);
        self.progress = Some(progress.clone());
    }

    /// Adds to the number of files to remove.
    fn found(&self, files: usize) {
        if let Some(progress) = &self.progress {
            progress.expect_files(files as u64);
        }
    }

    /// Counts a file, and rests if it is time. Fails if the removal is to stop.
    fn file_removed(&mut self) -> Result<(), Errno> {
        self.removed += 1;
        if let Some(progress) = &self.progress {
            progress.count_file();
        }
        self.removed_in_all.fetch_add(1, Ordering::Relaxed);
        let files_a_second = self.files_a_second.get();
        if self.removed < (files_a_second / RESTS_A_SECOND).clamp(1, FILES_AT_A_TIME) {
            return Ok(());
        }
        let due = self.since + Duration::from_secs(1) * self.removed / files_a_second;
        loop {
            match &self.until {
                Until::Cancelled(cancel) | Until::Late(_, cancel) if cancel.is_cancelled() => {
                    return Err(Errno::CANCELED);
                }
                Until::Late(late, _) if Instant::now() >= *late => return Err(Errno::TIMEDOUT),
                _ => {}
            }
            // Sleeps are short, so that a request to hurry or stop is seen before the end of a
            // rest.
            let rest = due.saturating_duration_since(Instant::now()).min(REST_MAX);
            if rest.is_zero() || self.hurry.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(rest);
        }
        (self.removed, self.since) = (0, Instant::now());
        Ok(())
    }
}

/// Removes a directory and all its content. Files that are already gone were removed by another
/// run.
fn remove_tree(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &CStr,
    pace: &mut Pace,
    depth: u32,
) -> Result<(), Errno> {
    if depth > DEPTH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let directory = match open_here(calls, holder, name) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        // The directory of a state may have been a link: the link is removed, its target stays.
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return unlink(calls, holder, name, AtFlags::empty());
        }
        Err(errno) => return Err(errno),
    };
    let entries = calls.entries(&directory)?;
    pace.found(entries.iter().filter(|(_, kind)| *kind != FileType::Directory).count());
    for (inner, kind) in entries {
        if kind == FileType::Directory {
            remove_tree(calls, &directory, &inner, pace, depth + 1)?;
            continue;
        }
        unlink(calls, &directory, &inner, AtFlags::empty())?;
        pace.file_removed()?;
    }
    unlink(calls, holder, name, AtFlags::REMOVEDIR)
}

/// Opens a directory in another one. Fails with `EXDEV` if it is a mount point, also one of the same
/// file system: what is mounted there belongs to others.
fn open_here(calls: &Syscalls, holder: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match calls.openat2(holder, name, flags, resolve) {
        // Before Linux 5.6, or forbidden by a filter of system calls.
        Err(Errno::NOSYS | Errno::PERM) => {}
        result => return result,
    }
    let directory = calls.openat(holder, name, flags, Mode::empty())?;
    if is_same_mount(calls, holder, &directory)? { Ok(directory) } else { Err(Errno::XDEV) }
}

fn unlink(calls: &Syscalls, holder: &OwnedFd, name: &CStr, how: AtFlags) -> Result<(), Errno> {
    match calls.unlinkat(holder, name, how) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::Request;

    fn request() -> Request {
        Request { shadow: false, ..Request::new(Places::new("/nowhere")) }
    }

    /// A directory moved aside, with more files than are removed between two rests.
    fn moved_aside() -> (tempfile::TempDir, Removal) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(format!("{REMOVED_PREFIX}0"));
        std::fs::create_dir_all(path.join("run")).unwrap();
        for number in 0..2 * FILES_AT_A_TIME {
            std::fs::write(path.join("run").join(number.to_string()), "").unwrap();
        }
        (scratch, Removal { paths: vec![path] })
    }

    fn left(scratch: &tempfile::TempDir) -> usize {
        let run = scratch.path().join(format!("{REMOVED_PREFIX}0/run"));
        std::fs::read_dir(run).map_or(0, Iterator::count)
    }

    #[test]
    fn removal_stops_when_time_is_up() {
        let (scratch, removal) = moved_aside();
        let (request, calls, progress) = (request(), Syscalls::default(), Progress::default());
        let cancel = CancelToken::default();
        let work = Work { request: &request, calls: &calls, progress: &progress, cancel: &cancel };
        removal.finish_before(work, Instant::now());
        assert_eq!(left(&scratch), FILES_AT_A_TIME as usize);
    }

    #[test]
    fn removal_stops_when_cancelled() {
        let (request, calls) = (request(), Syscalls::default());
        let stop: [fn(Removal, Work<'_>); 4] = [
            |removal, work| removal.start(work, false).finish(work.progress),
            // Where a validator waits, and no time limit is near.
            |removal, work| removal.start(work, true).finish(work.progress),
            |removal, work| removal.finish_before(work, Instant::now() + Duration::from_hours(1)),
            |removal, work| removal.finish_slowly(work),
        ];
        for stop in stop {
            let (scratch, removal) = moved_aside();
            let (cancel, progress) = (CancelToken::default(), Progress::default());
            cancel.cancel();
            let (calls, request) = (&calls, &request);
            stop(removal, Work { request, calls, progress: &progress, cancel: &cancel });
            assert_eq!(left(&scratch), FILES_AT_A_TIME as usize);
            let now = progress.snapshot();
            assert_eq!(now.phase, Phase::Removing);
            assert_eq!(now.files_handled, u64::from(FILES_AT_A_TIME));
            assert_eq!(now.files_to_handle, u64::from(2 * FILES_AT_A_TIME));
            // The next run removes the rest.
            let path = scratch.path().join(format!("{REMOVED_PREFIX}0"));
            let (removal, cancel) = (Removal { paths: vec![path.clone()] }, CancelToken::default());
            removal.finish_slowly(Work { request, calls, progress: &progress, cancel: &cancel });
            assert!(!path.exists());
            let now = progress.snapshot();
            assert_eq!(now.files_handled, now.files_to_handle);
        }
    }
}
