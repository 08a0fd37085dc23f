//! Watching directories with inotify, which reports when an archive is complete.
//!
//! The supervisor's rescan finds the changes that inotify misses (after a queue overflow, in a
//! replaced directory, on a file system without notifications). It also renews the watches.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Instant,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::inotify,
    io::Errno,
};
use unsnap_layout::ArchiveName;

/// Subdirectory of downloaded archives (as in `Candidates` of the crate unpack).
const REMOTE: &str = "remote";

/// Size of the event buffer: at least one event with the longest name (16 + 256 bytes), and many
/// usual ones.
const BUFFER_BYTES: usize = 16 << 10;

/// Events to watch for. IN_MODIFY is left out: it would report every write.
const EVENTS: inotify::WatchFlags = inotify::WatchFlags::CLOSE_WRITE
    .union(inotify::WatchFlags::MOVED_TO)
    .union(inotify::WatchFlags::MOVED_FROM)
    .union(inotify::WatchFlags::DELETE)
    .union(inotify::WatchFlags::CREATE)
    .union(inotify::WatchFlags::DELETE_SELF)
    .union(inotify::WatchFlags::MOVE_SELF)
    .union(inotify::WatchFlags::ONLYDIR);

/// A change in a watched directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An archive was renamed into place or closed by its writer.
    Complete(PathBuf),
    /// Any other change: the directories must be scanned.
    Other,
}

/// The watching thread, which ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inotify: OwnedFd,
    stop: OwnedFd,
    directories: Mutex<BTreeMap<i32, PathBuf>>,
    /// Time at which the thread last woke up; `None` while it sleeps in the kernel.
    busy_since: Mutex<Option<Instant>>,
}

impl Watch {
    /// Starts the thread. It calls `report` for each change, which must not block.
    pub fn start(report: impl Fn(Change) + Send + 'static) -> io::Result<Self> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            inotify: inotify::init(flags)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            directories: Mutex::default(),
            busy_since: Mutex::default(),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("unpackd-watch".to_owned());
        let thread = thread.spawn(move || {
            if let Err(errno) = theirs.work(&report) {
                tracing::error!(%errno, "inotify failed; only periodic scans find archives now");
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Watches exactly these directories of archives and their subdirectories `remote`, and these
    /// directories of results. Existing watches stay, replaced directories get a new watch, and
    /// missing directories are left to the next call.
    pub fn renew<'p>(
        &self,
        archives: impl IntoIterator<Item = &'p Path>,
        results: impl IntoIterator<Item = PathBuf>,
    ) {
        let archives = archives.into_iter();
        let archives = archives.flat_map(|path| [path.to_owned(), path.join(REMOTE)]);
        let paths: BTreeSet<PathBuf> = archives.chain(results).collect();
        let mut watched = self.shared.directories();
        let mut renewed = BTreeMap::new();
        for path in paths {
            match inotify::add_watch(&self.shared.inotify, &path, EVENTS) {
                Ok(number) => {
                    renewed.insert(number, path);
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => {
                    tracing::warn!(
                        path = %path.display(), %errno,
                        "cannot watch a directory; only periodic scans see what changes there"
                    );
                }
            }
        }
        for number in watched.keys().filter(|number| !renewed.contains_key(number)) {
            // Fails if the watch went with its directory.
            let _ = inotify::remove_watch(&self.shared.inotify, *number);
        }
        *watched = renewed;
    }

    /// Returns the time at which the thread last woke up; `None` if it sleeps or has ended, which
    /// was logged.
    pub fn busy_since(&self) -> Option<Instant> {
        *self.shared.busy_since()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.shared.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn directories(&self) -> MutexGuard<'_, BTreeMap<i32, PathBuf>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn busy_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.busy_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, report: &impl Fn(Change)) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            *self.busy_since() = None;
            let mut waiting =
                [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut waiting, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            *self.busy_since() = Some(Instant::now());
            if !waiting[1].revents().is_empty() {
                return Ok(());
            }
            loop {
                match reader.next() {
                    Ok(event) => self.notice(&event, report),
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
    }

    fn notice(&self, event: &inotify::Event<'_>, report: &impl Fn(Change)) {
        use inotify::ReadFlags as Flags;
        let flags = event.events();
        let lost = Flags::QUEUE_OVERFLOW
            | Flags::DELETE_SELF
            | Flags::MOVE_SELF
            | Flags::UNMOUNT
            | Flags::IGNORED;
        if flags.intersects(lost) {
            return report(Change::Other);
        }
        let name = event.file_name().map_or(&[][..], |name| name.to_bytes());
        // A result came or went: a tree of one or two slots, or a state.
        let is_result =
            !name.is_empty() && name.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
        if name == REMOTE.as_bytes() || is_result {
            return report(Change::Other);
        }
        let is_archive =
            std::str::from_utf8(name).is_ok_and(|name| ArchiveName::parse(name).is_ok());
        // A created file is not complete yet; its close follows.
        if !is_archive || flags.contains(Flags::CREATE) {
            return;
        }
        let directory = self.directories().get(&event.wd()).cloned();
        match directory {
            Some(directory) if flags.intersects(Flags::CLOSE_WRITE | Flags::MOVED_TO) => {
                report(Change::Complete(directory.join(OsStr::from_bytes(name))));
            }
            _ => report(Change::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, sync::mpsc, time::Duration};

    const NAME: &str = "snapshot-5-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
    const HANG: Duration = Duration::from_mins(1);

    #[test]
    fn what_is_renamed_or_closed_is_complete_and_nothing_else_is() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("archives");
        fs::create_dir(&directory).unwrap();
        let (sender, told) = mpsc::channel();
        let watch = Watch::start(move |change| sender.send(change).unwrap()).unwrap();
        watch.renew([&*directory], []);
        let next = || told.recv_timeout(HANG).unwrap();

        fs::write(directory.join("tmp-other"), "x").unwrap();
        fs::write(directory.join(NAME), "x").unwrap();
        assert_eq!(next(), Change::Complete(directory.join(NAME)));
        fs::rename(directory.join(NAME), scratch.path().join("away")).unwrap();
        assert_eq!(next(), Change::Other);
        fs::rename(scratch.path().join("away"), directory.join(NAME)).unwrap();
        assert_eq!(next(), Change::Complete(directory.join(NAME)));
        fs::remove_file(directory.join(NAME)).unwrap();
        assert_eq!(next(), Change::Other);

        fs::create_dir(directory.join(REMOTE)).unwrap();
        assert_eq!(next(), Change::Other);
        watch.renew([&*directory], []);
        fs::write(directory.join(REMOTE).join(NAME), "x").unwrap();
        assert_eq!(next(), Change::Complete(directory.join(REMOTE).join(NAME)));

        // Results are told from other files by their names.
        let results = scratch.path().join("snapshots");
        fs::create_dir(&results).unwrap();
        watch.renew([&*directory], [results.clone()]);
        fs::create_dir(results.join(".unsnap-removed-0")).unwrap();
        fs::create_dir(results.join("39")).unwrap();
        assert_eq!(next(), Change::Other);
        fs::rename(results.join("39"), results.join(".unsnap-removed-1")).unwrap();
        assert_eq!(next(), Change::Other);
        fs::write(directory.join(NAME), "x").unwrap();
        assert_eq!(next(), Change::Complete(directory.join(NAME)), "and of the other two nothing");

        // A replaced directory is reported, and watched again by the next call.
        fs::rename(&directory, scratch.path().join("old")).unwrap();
        assert_eq!(next(), Change::Other);
        fs::create_dir(&directory).unwrap();
        watch.renew([&*directory], []);
        fs::write(directory.join(NAME), "x").unwrap();
        while next() != Change::Complete(directory.join(NAME)) {}
        drop(watch);
    }
}
