//! The file that an archive becomes: complete and durable, or not there.

mod writer;

use std::{
    ffi::OsString,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

use crossbeam::channel::{Sender, bounded};
use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use unsnap_failure::Remedy;
use unsnap_pass::PassError;
use unsnap_ring::{DirectMode, Syscalls};

use self::writer::Writer;
use crate::PackError;

/// What is appended to the name of a file under construction. The dot in front of it keeps it out of
/// the way of validators, which look for archives by their names.
const UNDER_CONSTRUCTION: &str = ".unsnap-partial";

/// Bytes after which what is in the page cache is written to the disk, while the run goes on, so that
/// there is little left to do at the end. As for unpacking, where it was measured.
const SYNC_EVERY_BYTES: u64 = 128 << 20;

/// A file under construction, under a name of its own beside its final one. Dropped before it is
/// published, it is removed.
///
/// The file is locked while somebody works at it. What is found unlocked was left by a run that was
/// killed, and is used again.
pub struct Output {
    calls: Syscalls,
    path: PathBuf,
    name: OsString,
    file: Arc<OwnedFd>,
    replace: bool,
    writer: Writer,
    synced_bytes: u64,
    syncer: Option<Syncer>,
    temporary: Temporary,
}

/// The name of a file under construction; removed when dropped.
struct Temporary {
    calls: Syscalls,
    directory: OwnedFd,
    /// Empty when it has become another one.
    name: OsString,
}

impl Output {
    /// Begins the file `path`, whose directory exists. `replace`: something may be there. `direct`:
    /// whether to write past the page cache.
    pub fn create(
        calls: &Syscalls,
        path: &Path,
        replace: bool,
        direct: DirectMode,
    ) -> Result<Self, PackError> {
        let Some(name) = path.file_name() else {
            let reason = format!("{} is no name for a file", path.display());
            return Err(PackError::request(reason, Remedy::advice("give the name of an archive")));
        };
        let failed = |step| move |errno| PackError::File { step, path: path.to_owned(), errno };
        let holder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let directory = calls.open(holder, flags).map_err(|errno| PackError::File {
            step: "open",
            path: holder.to_owned(),
            errno,
        })?;
        if !replace {
            match calls.lstatat(&directory, name) {
                Err(Errno::NOENT) => {}
                Ok(_) => return Err(PackError::Exists { path: path.to_owned() }),
                Err(errno) => return Err(failed("look at")(errno)),
            }
        }
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(UNDER_CONSTRUCTION);
        let file = Arc::new(begin(calls, &directory, &temporary, path)?);
        let temporary = Temporary { calls: calls.clone(), directory, name: temporary };
        calls.ftruncate(&file, 0).map_err(failed("empty"))?;
        let writer = Writer::new(calls, &file, direct);
        let writer = writer.map_err(failed("write past the page cache to"))?;
        let syncer = Some(Syncer::start(calls, &file).map_err(PassError::thread)?);
        Ok(Self {
            calls: calls.clone(),
            path: path.to_owned(),
            name: name.to_owned(),
            file,
            replace,
            writer,
            synced_bytes: 0,
            syncer,
            temporary,
        })
    }

    /// Where the file will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the page cache is passed by.
    pub fn is_direct(&self) -> bool {
        self.writer.is_direct()
    }

    /// Goes on with the file.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        self.writer.write(bytes).map_err(self.failed("write"))?;
        let written = self.writer.written();
        if !self.writer.is_direct() && written - self.synced_bytes >= SYNC_EVERY_BYTES {
            self.synced_bytes = written;
            if let Some(syncer) = &self.syncer {
                syncer.ask();
            }
        }
        Ok(())
    }

    /// Makes the file durable and gives it its name, durably. Gives its length.
    pub fn publish(mut self) -> Result<u64, PackError> {
        let bytes = self.writer.finish().map_err(self.failed("write"))?;
        // A failed sync is final, whenever it was: the kernel tells it once.
        let early = self.syncer.take().map_or(Ok(()), Syncer::finish);
        early.and_then(|()| self.calls.fsync(&self.file)).map_err(self.failed("sync"))?;
        let Temporary { directory, name: from, .. } = &self.temporary;
        let (from, to) = (&**from, &*self.name);
        let renamed = if self.replace {
            self.calls.renameat(directory, from, directory, to)
        } else {
            match self.calls.renameat_to_new(directory, from, directory, to) {
                // A file system that cannot: a link is new as well.
                Err(Errno::INVAL) => self
                    .calls
                    .linkat(directory, from, directory, to)
                    .and_then(|()| self.calls.unlinkat(directory, from, AtFlags::empty())),
                renamed => renamed,
            }
        };
        match renamed {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(PackError::Exists { path: self.path.clone() }),
            Err(errno) => return Err(self.failed("publish")(errno)),
        }
        self.temporary.name.clear();
        let directory = &self.temporary.directory;
        self.calls.fsync(directory).map_err(self.failed("sync the directory of"))?;
        // An XFS that has shut down answers the sync of a directory by success.
        self.calls.fstat(directory).map_err(self.failed("sync the directory of"))?;
        Ok(bytes)
    }

    fn failed(&self, step: &'static str) -> impl Fn(Errno) -> PackError + use<> {
        let path = self.path.clone();
        move |errno| PackError::File { step, path: path.clone(), errno }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.finish();
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        let removed = self.calls.unlinkat(&self.directory, &*self.name, AtFlags::empty());
        if let Err(errno) = removed {
            tracing::warn!(name = ?self.name, %errno, "what was begun could not be removed");
        }
    }
}

/// Opens the file under construction, new or left behind, and locks it.
fn begin(
    calls: &Syscalls,
    directory: &OwnedFd,
    temporary: &OsString,
    path: &Path,
) -> Result<OwnedFd, PackError> {
    let failed = |step| move |errno| PackError::File { step, path: path.to_owned(), errno };
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    loop {
        let file = calls
            .openat(directory, temporary.as_os_str(), flags, mode)
            .map_err(failed("create"))?;
        match calls.lock(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(PackError::Locked { path: path.to_owned() }),
            Err(errno) => return Err(failed("lock")(errno)),
        }
        // Whoever had locked it before may have published or removed it since it was opened.
        let opened = calls.fstat(&file).map_err(failed("look at"))?;
        match calls.lstatat(directory, temporary.as_os_str()) {
            Ok(named) if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino) => {
                return Ok(file);
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed("look at")(errno)),
        }
    }
}

/// Syncs now and then, on a thread of its own (`unsnap-writeback`).
struct Syncer {
    ask: Sender<()>,
    thread: JoinHandle<Result<(), Errno>>,
}

impl Syncer {
    fn start(calls: &Syscalls, file: &Arc<OwnedFd>) -> std::io::Result<Self> {
        let (ask, asked) = bounded(1);
        let (calls, file) = (calls.clone(), Arc::clone(file));
        let work = move || asked.iter().try_for_each(|()| calls.fdatasync(&*file));
        let thread = thread::Builder::new().name("unsnap-writeback".to_owned()).spawn(work)?;
        Ok(Self { ask, thread })
    }

    /// Does nothing if it is at it, or has failed.
    fn ask(&self) {
        let _ = self.ask.try_send(());
    }

    fn finish(self) -> Result<(), Errno> {
        drop(self.ask);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
