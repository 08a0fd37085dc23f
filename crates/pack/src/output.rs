//! Output file of an archive: it is published complete and durable, or not at all.

use std::{
    os::fd::OwnedFd,
    panic::resume_unwind,
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use crossbeam::channel::{Sender, bounded};
use rustix::io::Errno;
use unsnap_commit::{Draft, DraftError, FileWriter};
use unsnap_failure::Remedy;
use unsnap_index::side_car_path;
use unsnap_pass::{Archive, PassError, Unfinished};
use unsnap_ring::{DirectMode, Syscalls};

use crate::PackError;

/// Bytes between two syncs while the file is written through the page cache, so that little is left
/// for the final sync. The value was measured for unpacking.
const SYNC_EVERY_BYTES: u64 = 128 << 20;

/// An archive under construction, beside its final name. It is removed if dropped before it is
/// published.
pub struct Output {
    calls: Syscalls,
    writer: FileWriter,
    synced_bytes: u64,
    syncer: Option<Syncer>,
    draft: Draft,
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
        let draft = Draft::open(calls, unfinished, path, replace);
        let draft = draft.map_err(of_draft)?;
        let failed = |step| move |errno| PackError::File { step, path: path.to_owned(), errno };
        calls.ftruncate(draft.file(), 0).map_err(failed("empty"))?;
        let writer = FileWriter::new(calls, draft.file(), direct);
        let writer = writer.map_err(failed("use direct I/O on"))?;
        let syncer = Some(Syncer::start(calls, draft.file()).map_err(PassError::thread)?);
        Ok(Self { calls: calls.clone(), writer, synced_bytes: 0, syncer, draft })
    }

    /// Returns the final path.
    pub fn path(&self) -> &Path {
        self.draft.path()
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
        early.and_then(|()| self.calls.fsync(self.draft.file())).map_err(self.failed("sync"))?;
        Ok(bytes)
    }

    /// Returns the file as an archive without its name.
    pub fn archive(&self) -> Archive {
        Archive::Unpublished { path: self.draft.temporary_path(), name: self.path().to_owned() }
    }

    /// Renames the file to its final name, durably. It must have been synced.
    pub fn publish(mut self) -> Result<(), PackError> {
        self.draft.publish().map_err(of_draft)
    }

    /// Removes the index beside the final name, durably, since it describes another archive. Returns
    /// whether there was one.
    pub fn remove_stale_index(&self) -> Result<bool, PackError> {
        let index = side_car_path(self.path());
        let Some(name) = index.file_name() else { return Ok(false) };
        self.draft.remove_beside(name).map_err(of_draft)
    }

    fn failed(&self, step: &'static str) -> impl Fn(Errno) -> PackError + use<> {
        let path = self.path().to_owned();
        move |errno| PackError::File { step, path: path.clone(), errno }
    }
}

fn of_draft(error: DraftError) -> PackError {
    match error {
        DraftError::NoName { .. } => {
            PackError::request(error.to_string(), Remedy::advice("give the name of an archive"))
        }
        DraftError::NoDirectory { holder } => PassError::no_directory(&holder).into(),
        DraftError::Exists { path } => PackError::Exists { path },
        DraftError::Locked { path } => PackError::Locked { path },
        DraftError::Failed { step, path, errno } => PackError::File { step, path, errno },
    }
}

/// Syncs the file on request, on a thread of its own (`unsnap-writeback`). Dropping it waits for the
/// thread.
struct Syncer {
    ask: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<(), Errno>>>,
}

impl Syncer {
    fn start(calls: &Syscalls, file: &Arc<OwnedFd>) -> std::io::Result<Self> {
        let (ask, asked) = bounded(1);
        let (calls, file) = (calls.clone(), Arc::clone(file));
        let work = move || asked.iter().try_for_each(|()| calls.fdatasync(&*file));
        let thread = thread::Builder::new().name("unsnap-writeback".to_owned()).spawn(work)?;
        Ok(Self { ask: Some(ask), thread: Some(thread) })
    }

    /// Requests a sync. Does nothing while one is running or after one has failed.
    fn ask(&self) {
        if let Some(ask) = &self.ask {
            let _ = ask.try_send(());
        }
    }

    fn finish(mut self) -> Result<(), Errno> {
        self.ask = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.map_or(Ok(()), |ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
