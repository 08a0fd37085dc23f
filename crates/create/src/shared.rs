//! What those who hand files over and the creators share.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use unsnap_ring::Waker;

use crate::{CreateError, FILE_BLOCK_BYTES};

/// How far the creators are; shared, to be read at any time.
#[derive(Debug, Default)]
pub struct CreateProgress {
    /// Files that are complete.
    pub files: AtomicU64,
    /// Bytes written, padding not counted.
    pub bytes: AtomicU64,
    /// Of which through the page cache.
    pub cached_bytes: AtomicU64,
    /// Milliseconds for which the creator that had to wait longest for a rate limit has done so.
    pub held_back_ms: AtomicU64,
}

impl CreateProgress {
    pub(crate) fn wrote(&self, bytes: u64, cached: bool) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if cached {
            self.cached_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// What has been handed over to be written below one destination. What of it is still in flight may
/// have taken its space already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Bytes that files take in blocks of 4096, of parts of files too.
    pub bytes: u64,
    /// Of these, bytes that have not been written yet.
    pub in_flight_bytes: u64,
    /// Files, but for those that are being handed over.
    pub files: u64,
}

/// What goes to one destination.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    handed_bytes: AtomicU64,
    handed_files: AtomicU64,
    done_bytes: AtomicU64,
}

impl Traffic {
    pub fn handed_over(&self, bytes: u64, files: u64) {
        self.handed_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.handed_files.fetch_add(files, Ordering::Relaxed);
    }

    pub fn done(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn written(&self) -> Written {
        // What is done first: it never exceeds what has been handed over.
        let done = self.done_bytes.load(Ordering::Acquire);
        let bytes = self.handed_bytes.load(Ordering::Acquire);
        let files = self.handed_files.load(Ordering::Relaxed);
        Written { bytes, in_flight_bytes: bytes.saturating_sub(done), files }
    }
}

pub(crate) struct Shared {
    pub failed: AtomicBool,
    /// Nobody waits for the creators any more: they end although requests could still come.
    pub abandoned: AtomicBool,
    pub error: Mutex<Option<CreateError>>,
    pub progress: Arc<CreateProgress>,
    /// What [`CreateProgress::files`] will say when everything queued so far is complete.
    pub files_queued: AtomicU64,
    /// Names for files of several writes.
    pub next_file: AtomicU64,
    /// For each destination.
    pub traffic: Box<[Traffic]>,
    /// What messages call the destinations.
    pub roots: Box<[PathBuf]>,
    /// Of the creators, to tell them of a failure.
    wakers: Mutex<Vec<Waker>>,
}

impl Shared {
    pub fn new(roots: Box<[PathBuf]>, progress: Arc<CreateProgress>) -> Self {
        Self {
            failed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            error: Mutex::new(None),
            files_queued: AtomicU64::new(progress.files.load(Ordering::Relaxed)),
            progress,
            next_file: AtomicU64::new(0),
            traffic: roots.iter().map(|_| Traffic::default()).collect(),
            roots,
            wakers: Mutex::default(),
        }
    }

    /// Has somebody woken when something fails.
    pub fn will_wake(&self, waker: Waker) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Keeps the first error; the others follow from it.
    pub fn fail(&self, error: CreateError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has been taken out was the first.
        if first.is_none() && !self.failed.load(Ordering::Acquire) {
            tracing::debug!(%error, "creating files failed");
            *first = Some(error);
        }
        drop(first);
        self.failed.store(true, Ordering::Release);
        // One that is paused, or held back, would not look for a long time.
        for waker in &*self.wakers.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    /// What went wrong. Whoever asks first is told; to others it is only said that it did.
    pub fn error(&self) -> CreateError {
        self.take_error().unwrap_or_else(died)
    }

    pub fn take_error(&self) -> Option<CreateError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Bytes that so many take on a disk, at the most that is usual.
pub(crate) fn in_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(FILE_BLOCK_BYTES as u64)
}

pub(crate) fn died() -> CreateError {
    CreateError::consequence()
}
