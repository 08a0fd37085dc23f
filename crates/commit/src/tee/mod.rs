//! Tee: an archive that is being received is kept as a file as well.
//!
//! The bytes are written from the memory in which the decoder reads them, by a thread of its own. The
//! file gets its name when the run has proven the archive and everything is durable. A tee that fails
//! (its disk is full, or refuses a write) is given up at once, and its file removed: the run goes on
//! without it.

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
use unsnap_source::Span;

pub use room::TeeRoom;

use self::writer::Writer;
use crate::{Draft, DraftError};

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

/// A file that will hold an archive. Nothing has been written to it.
pub struct Tee {
    calls: Syscalls,
    draft: Draft,
}

impl Tee {
    /// Opens the file under construction for the archive at `path`, which must not exist.
    pub fn open(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: &Path,
    ) -> Result<Self, DraftError> {
        let draft = Draft::open(calls, unfinished, path, false)?;
        Ok(Self { calls: calls.clone(), draft })
    }

    /// Returns the directory that a confined run needs, with the kind of access.
    pub fn need(&self) -> (BorrowedFd<'_>, Need) {
        (self.draft.directory(), Need::Keep)
    }

    /// Returns another descriptor of the directory, and its path.
    pub fn directory(&self) -> Result<(OwnedFd, PathBuf), Errno> {
        let path = self.draft.path().parent().unwrap_or(Path::new("."));
        Ok((self.calls.duplicate(self.draft.directory())?, path.to_owned()))
    }

    /// Starts writing an archive of this many bytes.
    pub fn start(
        self,
        total: u64,
        direct: DirectMode,
        room: TeeRoom,
    ) -> Result<RunningTee, TeeLost> {
        let path = self.draft.path().to_owned();
        let is_over = Arc::new(AtomicBool::new(false));
        let (queue, spans) = bounded(SPANS_WAITING_MAX);
        let work = Work { tee: self, total, direct, room, spans, is_over: Arc::clone(&is_over) };
        let thread = thread::Builder::new().name("unsnap-tee".to_owned());
        let started = thread.spawn(move || work.run());
        let lost = |error: std::io::Error| TeeLost {
            path: path.clone(),
            bytes: 0,
            reason: format!("its thread cannot be started: {error}"),
        };
        let thread = started.map_err(lost)?;
        Ok(RunningTee { path, total, queue: Some(queue), is_over, thread: Some(thread) })
    }
}

/// A tee that is being written. Its file is removed if this is dropped.
pub struct RunningTee {
    path: PathBuf,
    total: u64,
    queue: Option<Sender<Span>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Draft, TeeLost>>>,
}

/// A tee that is complete and durable, under its temporary name. Its file is removed if this is
/// dropped.
pub struct CompleteTee {
    draft: Draft,
    bytes: u64,
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
        let bytes = self.total;
        let Some(thread) = self.thread.take() else {
            let reason = "it was finished before".to_owned();
            return Err(TeeLost { path: self.path.clone(), bytes: 0, reason });
        };
        let draft = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(CompleteTee { draft, bytes })
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
        self.draft.path()
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the file its name, durably.
    pub fn publish(self) -> Result<(), TeeLost> {
        let (path, bytes) = (self.path().to_owned(), self.bytes);
        self.draft.publish().map_err(|error| TeeLost { path, bytes, reason: error.to_string() })
    }
}

/// Work of the thread.
struct Work {
    tee: Tee,
    total: u64,
    direct: DirectMode,
    room: TeeRoom,
    spans: Receiver<Span>,
    is_over: Arc<AtomicBool>,
}

impl Work {
    fn run(self) -> Result<Draft, TeeLost> {
        let Tee { calls, draft } = &self.tee;
        let mut writer = Writer::new(calls, draft.file(), self.direct);
        match self.write(&mut writer) {
            Ok(()) => Ok(self.tee.draft),
            Err(reason) => {
                let path = draft.path().to_owned();
                tracing::warn!(path = %path.display(), reason, "the archive is not kept");
                // Dropping `self` removes the file, and from then on the source does not wait.
                Err(TeeLost { path, bytes: writer.written(), reason })
            }
        }
    }

    /// Writes everything, and makes it durable. Returns the reason if that is impossible.
    fn write(&self, writer: &mut Writer) -> Result<(), String> {
        let Self { tee: Tee { calls, draft }, total, room, .. } = self;
        let failed = |step| move |errno: Errno| format!("cannot {step} it: {errno}");
        calls.ftruncate(draft.file(), 0).map_err(failed("empty"))?;
        room.check(*total)?;
        let look_every = (total / 16).clamp(1, LOOK_EVERY_BYTES);
        let (mut look_at, mut sync_at) = (look_every, SYNC_EVERY_BYTES);
        while let Some(span) = self.next() {
            let written = writer.written();
            if span.offset != written || written + span.bytes.len() as u64 > *total {
                let (from, to) = (span.offset, span.offset + span.bytes.len() as u64);
                return Err(format!("bytes {from} to {to} do not follow byte {written} (a bug)"));
            }
            writer.append(&span.bytes).map_err(failed("write"))?;
            drop(span);
            if writer.written() >= look_at {
                look_at = writer.written() + look_every;
                room.check(total - writer.written())?;
            }
            if writer.written() >= sync_at {
                sync_at = writer.written() + SYNC_EVERY_BYTES;
                calls.fdatasync(draft.file()).map_err(failed("sync"))?;
            }
        }
        if writer.written() < *total {
            return Err(format!("{} of {total} bytes came", writer.written()));
        }
        calls.fsync(draft.file()).map_err(failed("sync"))
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
