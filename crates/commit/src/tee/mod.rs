//! Tee: an archive that is being received is kept as a file as well.
//!
//! The bytes are written from the memory in which the decoder reads them, by a thread of its own. The
//! file gets its name when the run has proven the archive and everything is durable. A tee that fails
//! (its disk is full, or refuses a write) is given up at once, and its file removed: the run goes on
//! without it.

mod marks;
mod part;
mod room;
mod writer;

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rustix::io::Errno;
use unsnap_pass::{Need, Unfinished};
use unsnap_ring::{DirectMode, Syscalls};
use unsnap_source::{ArchiveFile, Span};

pub use room::TeeRoom;

use self::{part::Part, writer::Writer};
use crate::{DraftError, journal::RemoteId};

/// Most spans that wait to be written. The pool of compressed bytes bounds their memory.
const SPANS_WAITING_MAX: usize = 64;

/// Bytes between two syncs. With direct I/O little is left to sync; through the page cache this
/// bounds what the kernel holds. A guess.
const SYNC_EVERY_BYTES: u64 = 256 << 20;

/// Bytes between two looks at the free space, for archives that are not small. A guess: one look
/// takes about a microsecond.
const LOOK_EVERY_BYTES: u64 = 16 << 20;

/// Interval at which a thread without work looks whether the run has failed.
const OVER_CHECK: Duration = Duration::from_millis(100);

/// A file that will hold an archive. Nothing has been written to it by this run.
pub struct Tee {
    calls: Syscalls,
    part: Part,
}

/// What an interrupted run has received of an archive: the file to read it from, and the number of its
/// bytes.
pub type LeftPart = (ArchiveFile, u64);

impl Tee {
    /// Opens the file under construction for the archive at `path`, which must not exist. `resumes`:
    /// what an interrupted run has left of it is used, read in this mode.
    pub fn open(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: &Path,
        resumes: Option<DirectMode>,
    ) -> Result<Self, DraftError> {
        let part = Part::open(calls, unfinished, path, resumes)?;
        Ok(Self { calls: calls.clone(), part })
    }

    /// Returns the directory that a confined run needs, with the kind of access.
    pub fn need(&self) -> (BorrowedFd<'_>, Need) {
        (self.part.directory(), Need::Keep)
    }

    /// Returns another descriptor of the directory, and its path.
    pub fn directory(&self) -> Result<(OwnedFd, PathBuf), Errno> {
        let path = self.part.draft().path().parent().unwrap_or(Path::new("."));
        Ok((self.calls.duplicate(self.part.directory())?, path.to_owned()))
    }

    /// Starts writing an archive. Also returns what is there of it already: the run must not let it be
    /// received again, but pass it on as well, or at least its end.
    pub fn start(
        mut self,
        archive: RemoteId,
        direct: DirectMode,
        room: TeeRoom,
    ) -> Result<(RunningTee, Option<LeftPart>), TeeLost> {
        let (path, total) = (self.part.draft().path().to_owned(), archive.length);
        let left = self.part.begin(&archive).map_err(|errno| TeeLost {
            path: path.clone(),
            bytes: 0,
            reason: format!("cannot begin it: {errno}"),
        })?;
        let reused = left.as_ref().map_or(0, |(_, bytes)| *bytes);
        let [is_over, stays, is_lost] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        let (queue, spans) = bounded(SPANS_WAITING_MAX);
        let work = Work {
            tee: self,
            archive,
            reused,
            direct,
            room,
            spans,
            is_over: Arc::clone(&is_over),
            stays: Arc::clone(&stays),
            is_lost: Arc::clone(&is_lost),
        };
        let thread = thread::Builder::new().name("unsnap-tee".to_owned());
        let started = thread.spawn(move || work.run());
        let lost = |error: std::io::Error| TeeLost {
            path: path.clone(),
            bytes: 0,
            reason: format!("its thread cannot be started: {error}"),
        };
        let thread = started.map_err(lost)?;
        let queue = Some(queue);
        let running = RunningTee {
            path,
            total,
            reused,
            queue,
            is_over,
            stays,
            is_lost,
            thread: Some(thread),
        };
        Ok((running, left))
    }
}

/// A tee that is being written. Its file is removed if this is dropped.
pub struct RunningTee {
    path: PathBuf,
    total: u64,
    reused: u64,
    queue: Option<Sender<Span>>,
    is_over: Arc<AtomicBool>,
    /// Whether an incomplete part stays.
    stays: Arc<AtomicBool>,
    /// Whether it was given up.
    is_lost: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Part, TeeLost>>>,
}

/// A tee that is complete and durable, under its temporary name. Its file is removed if this is
/// dropped.
pub struct CompleteTee {
    part: Part,
    bytes: u64,
    reused: u64,
}

/// A tee that was given up. Its file is gone.
#[derive(Debug)]
pub struct TeeLost {
    /// Path that it would have had.
    pub path: PathBuf,
    /// Bytes that had been written.
    pub bytes: u64,
    /// Reason.
    pub reason: String,
}

impl RunningTee {
    /// Returns the path that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the function that receives the archive's spans in their order. It waits for the disk
    /// when too many are waiting. Every such function must have been dropped before
    /// [`finish`](Self::finish).
    pub fn sink(&self) -> impl FnMut(&Span) + Send + use<> {
        let (queue, is_over) = (self.queue.clone(), Arc::clone(&self.is_over));
        move |span| {
            if let Some(queue) = queue.as_ref().filter(|_| !is_over.load(Ordering::Relaxed)) {
                // The thread ends when it gives up, and takes nothing more.
                let _ = queue.send(span.clone());
            }
        }
    }

    /// Waits until everything is written and durable.
    pub fn finish(mut self) -> Result<CompleteTee, TeeLost> {
        self.queue = None;
        let (bytes, reused) = (self.total, self.reused);
        let Some(thread) = self.thread.take() else {
            let reason = "it was finished before".to_owned();
            return Err(TeeLost { path: self.path.clone(), bytes: 0, reason });
        };
        let part = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(CompleteTee { part, bytes, reused })
    }

    /// Returns why it was given up, if it was.
    pub fn lost(&mut self) -> Option<TeeLost> {
        let ended = self.thread.take_if(|_| self.is_lost.load(Ordering::Acquire))?;
        ended.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).err()
    }

    /// Leaves what has come of the archive for a later run, after this one has failed.
    pub fn keep(mut self) {
        self.stays.store(true, Ordering::Relaxed);
        self.queue = None;
        if let Some(Ok(Ok(part))) = self.thread.take().map(JoinHandle::join) {
            // It is complete.
            let mut part = part;
            part.set_stays(true);
        }
    }
}

impl Drop for RunningTee {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.queue = None;
        // The source may still hold its sender, but the thread does not wait for it.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl CompleteTee {
    /// Returns the path that the file will have.
    pub fn path(&self) -> &Path {
        self.part.draft().path()
    }

    /// Returns the number of bytes that an interrupted run had received.
    pub fn reused(&self) -> u64 {
        self.reused
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the file its name, durably.
    pub fn publish(self) -> Result<(), TeeLost> {
        let (path, bytes) = (self.path().to_owned(), self.bytes);
        self.part.publish().map_err(|error| TeeLost { path, bytes, reason: error.to_string() })
    }
}

/// Work of the thread.
struct Work {
    tee: Tee,
    archive: RemoteId,
    reused: u64,
    direct: DirectMode,
    room: TeeRoom,
    spans: Receiver<Span>,
    is_over: Arc<AtomicBool>,
    stays: Arc<AtomicBool>,
    is_lost: Arc<AtomicBool>,
}

impl Work {
    fn run(mut self) -> Result<Part, TeeLost> {
        let Tee { calls, part } = &self.tee;
        let mut writer = Writer::new(calls, part.draft().file(), self.reused, self.direct);
        match self.write(&mut writer) {
            Ok(()) => Ok(self.tee.part),
            Err(reason) => {
                self.is_lost.store(true, Ordering::Release);
                (self.room.lost)();
                let path = self.tee.part.draft().path().to_owned();
                let written = writer.written();
                if self.stays.load(Ordering::Relaxed)
                    && written < self.archive.length
                    && self.tee.part.sync(&self.archive, written).is_ok()
                {
                    self.tee.part.set_stays(true);
                    tracing::warn!(
                        path = %path.display(),
                        bytes = written,
                        "a part of the archive stays, for the next run that resumes"
                    );
                    return Err(TeeLost { path, bytes: written, reason });
                }
                tracing::warn!(path = %path.display(), reason, "the archive is not kept");
                // Dropping `self` removes the file, and from then on the source does not wait.
                Err(TeeLost { path, bytes: writer.written(), reason })
            }
        }
    }

    /// Writes everything, and makes it durable. Returns the reason if that is impossible.
    fn write(&self, writer: &mut Writer) -> Result<(), String> {
        let Self { tee: Tee { calls, part }, archive, room, .. } = self;
        let total = archive.length;
        let failed = |step| move |errno: Errno| format!("cannot {step} it: {errno}");
        room.check(total - writer.written())?;
        let look_every = (total / 16).clamp(1, LOOK_EVERY_BYTES);
        let (mut look_at, mut sync_at) = (look_every, writer.written() + SYNC_EVERY_BYTES);
        while let Some(span) = self.next() {
            let (written, from) = (writer.written(), span.offset);
            let to = from + span.bytes.len() as u64;
            if from > written || to > total {
                return Err(format!("bytes {from} to {to} do not follow byte {written} (a bug)"));
            }
            // What an interrupted run had received passes by again.
            let known = usize::try_from(written - from).unwrap_or(usize::MAX);
            let bytes = span.bytes.get(known..).unwrap_or_default();
            writer.append(bytes).map_err(failed("write"))?;
            drop(span);
            if writer.written() >= look_at {
                look_at = writer.written() + look_every;
                room.check(total - writer.written())?;
            }
            if writer.written() >= sync_at {
                sync_at = writer.written() + SYNC_EVERY_BYTES;
                part.sync(archive, writer.written()).map_err(failed("sync"))?;
            }
        }
        if writer.written() < total {
            return Err(format!("{} of {total} bytes came", writer.written()));
        }
        calls.fsync(part.draft().file()).map_err(failed("sync"))
    }

    /// Waits for the next span; `None` if there are no more, or if the run has failed.
    fn next(&self) -> Option<Span> {
        loop {
            match self.spans.recv_timeout(OVER_CHECK) {
                _ if self.is_over.load(Ordering::Relaxed) => return None,
                Ok(span) => return Some(span),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests;
