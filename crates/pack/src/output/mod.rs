//! Output file of an archive: it is published complete and durable, or not at all.

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
use unsnap_index::side_car_path;
use unsnap_pass::{Archive, PassError, Unfinished, UnfinishedPath};
use unsnap_ring::{DirectMode, Syscalls};

use self::writer::Writer;
use crate::PackError;

/// Suffix of the name of a file under construction. Its name also begins with a dot, so that
/// validators, which look for archives by name, ignore it.
const UNDER_CONSTRUCTION: &str = ".unsnap-partial";

/// Bytes between two syncs while the file is written through the page cache, so that little is left
/// for the final sync. The value was measured for unpacking.
const SYNC_EVERY_BYTES: u64 = 128 << 20;

/// A file under construction, beside its final name. It is removed if dropped before it is
/// published.
///
/// The file is locked while a process writes it. An unlocked file was left by a killed run and is
/// reused.
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

/// Temporary name of a file under construction. The file is removed when this is dropped.
struct Temporary {
    calls: Syscalls,
    directory: OwnedFd,
    /// Empty after the file was renamed.
    name: OsString,
    /// Notes the file.
    unfinished: UnfinishedPath,
}

impl Output {
    /// Creates the file `path` in an existing directory. `replace`: an existing file may be
    /// replaced. `direct`: use of direct I/O. Notes the file in `unfinished` as long as it is under
    /// construction.
    pub fn create(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: &Path,
        replace: bool,
        direct: DirectMode,
    ) -> Result<Self, PackError> {
        let Some(name) = path.file_name() else {
            let reason = format!("{} does not name a file", path.display());
            return Err(PackError::request(reason, Remedy::advice("give the name of an archive")));
        };
        let failed = |step| move |errno| PackError::File { step, path: path.to_owned(), errno };
        let holder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let directory = calls.open(holder, flags).map_err(|errno| match errno {
            Errno::NOENT => PassError::no_directory(holder).into(),
            errno => PackError::File { step: "open", path: holder.to_owned(), errno },
        })?;
        if !replace {
            match calls.lstatat(&directory, name) {
                Err(Errno::NOENT) => {}
                Ok(_) => return Err(PackError::Exists { path: path.to_owned() }),
                Err(errno) => return Err(failed("examine")(errno)),
            }
        }
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(UNDER_CONSTRUCTION);
        let unfinished = unfinished.begin(path.with_file_name(&temporary));
        let file = Arc::new(begin(calls, &directory, &temporary, path)?);
        let temporary = Temporary { calls: calls.clone(), directory, name: temporary, unfinished };
        calls.ftruncate(&file, 0).map_err(failed("empty"))?;
        let writer = Writer::new(calls, &file, direct);
        let writer = writer.map_err(failed("use direct I/O on"))?;
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

    /// Returns the final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether direct I/O is used.
    pub fn is_direct(&self) -> bool {
        self.writer.is_direct()
    }

    /// Appends bytes.
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

    /// Makes the complete file durable. Returns its size in bytes.
    pub fn sync(&mut self) -> Result<u64, PackError> {
        let bytes = self.writer.finish().map_err(self.failed("write"))?;
        // A failed early sync is final: the kernel reports an error only once.
        let early = self.syncer.take().map_or(Ok(()), Syncer::finish);
        early.and_then(|()| self.calls.fsync(&self.file)).map_err(self.failed("sync"))?;
        Ok(bytes)
    }

    /// Returns the file as an archive without its name.
    pub fn archive(&self) -> Archive {
        let path = self.path.with_file_name(&self.temporary.name);
        Archive::Unpublished { path, name: self.path.clone() }
    }

    /// Renames the file to its final name, durably. It must have been synced.
    pub fn publish(mut self) -> Result<(), PackError> {
        let Temporary { directory, name: from, .. } = &self.temporary;
        let (from, to) = (&**from, &*self.name);
        let renamed = if self.replace {
            self.calls.renameat(directory, from, directory, to)
        } else {
            match self.calls.renameat_to_new(directory, from, directory, to) {
                // The file system does not support this. A hard link does not replace a file
                // either.
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
        self.temporary.unfinished.finish();
        let directory = &self.temporary.directory;
        self.calls.fsync(directory).map_err(self.failed("sync the directory of"))?;
        // `fsync` on a directory succeeds on an XFS that has shut down; `fstat` fails.
        self.calls.fstat(directory).map_err(self.failed("sync the directory of"))?;
        Ok(())
    }

    /// Removes the index beside the final name, durably, since it describes another archive. Returns
    /// whether there was one.
    pub fn remove_stale_index(&self) -> Result<bool, PackError> {
        let index = side_car_path(&self.path);
        let Some(name) = index.file_name() else { return Ok(false) };
        let failed =
            |step| move |errno| PackError::File { step, path: side_car_path(&self.path), errno };
        let directory = &self.temporary.directory;
        match self.calls.unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(failed("remove the stale index")(errno)),
        }
        self.calls.fsync(directory).map_err(failed("sync the directory of"))?;
        Ok(true)
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
            tracing::warn!(name = ?self.name, %errno, "the unfinished file cannot be removed");
        }
    }
}

/// Opens the file under construction, a new one or one left by a killed run, and locks it.
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
        // The former holder of the lock may have published or removed the file since it was opened.
        let opened = calls.fstat(&file).map_err(failed("examine"))?;
        match calls.lstatat(directory, temporary.as_os_str()) {
            Ok(named) if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino) => {
                return Ok(file);
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed("examine")(errno)),
        }
    }
}

/// Syncs the file on request, on a thread of its own (`unsnap-writeback`).
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

    /// Requests a sync. Does nothing while one is running or after one has failed.
    fn ask(&self) {
        let _ = self.ask.try_send(());
    }

    fn finish(self) -> Result<(), Errno> {
        drop(self.ask);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
