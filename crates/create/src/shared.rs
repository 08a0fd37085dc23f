//! State shared by feeders and creators.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use unsnap_ring::Waker;

use crate::{CreateError, FILE_BLOCK_BYTES, lost::Lost};

/// Progress of the creators, readable at any time.
#[derive(Debug, Default)]
pub struct CreateProgress {
    /// Number of complete files.
    pub files: AtomicU64,
    /// Bytes written, without padding.
    pub bytes: AtomicU64,
    /// Bytes written through the page cache.
    pub cached_bytes: AtomicU64,
    /// Longest total time in milliseconds for which the rate limit delayed a creator.
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

/// Amount of data sent to the creators for one destination. Data in flight may already occupy its
/// space.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Bytes of files and parts of files, rounded up to blocks of 4096.
    pub bytes: u64,
    /// Bytes of these that have not been written yet.
    pub in_flight_bytes: u64,
    /// Number of files that were sent completely.
    pub files: u64,
}

/// Counters of one destination.
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
        // Read `done` first, so that it never exceeds the bytes handed over.
        let done = self.done_bytes.load(Ordering::Acquire);
        let bytes = self.handed_bytes.load(Ordering::Acquire);
        let files = self.handed_files.load(Ordering::Relaxed);
        Written { bytes, in_flight_bytes: bytes.saturating_sub(done), files }
    }
}

/// Counters of one stream. Streams are counted apart, so that one can wait for its own files while
/// another goes on.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Number of files that were sent completely.
    pub queued: AtomicU64,
    /// Number of these that are complete.
    pub complete: AtomicU64,
}

pub(crate) struct Shared {
    pub failed: AtomicBool,
    /// The pool is being dropped: creators end although requests could still arrive.
    pub abandoned: AtomicBool,
    pub error: Mutex<Option<CreateError>>,
    pub progress: Arc<CreateProgress>,
    /// Counters of each stream.
    pub streams: Box<[Stream]>,
    /// Number of streams that have a feeder.
    pub streams_fed: AtomicUsize,
    /// Files that will not be complete, after a failure.
    pub lost: Lost,
    /// Counters of each destination.
    pub traffic: Box<[Traffic]>,
    /// Paths of the destinations, for messages.
    pub roots: Box<[PathBuf]>,
    /// Wakers of the creators, used after a failure.
    wakers: Mutex<Vec<Waker>>,
}

impl Shared {
    pub fn new(roots: Box<[PathBuf]>, streams: usize, progress: Arc<CreateProgress>) -> Self {
        Self {
            failed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            error: Mutex::new(None),
            progress,
            streams: (0..streams).map(|_| Stream::default()).collect(),
            streams_fed: AtomicUsize::new(0),
            lost: Lost::default(),
            traffic: roots.iter().map(|_| Traffic::default()).collect(),
            roots,
            wakers: Mutex::default(),
        }
    }

    /// Adds a waker to use after a failure.
    pub fn will_wake(&self, waker: Waker) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Records a failure. Keeps only the first error, since the others follow from it.
    pub fn fail(&self, error: CreateError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        // If `failed` is set, the first error has already been taken.
        if first.is_none() && !self.failed.load(Ordering::Acquire) {
            tracing::debug!(%error, "creating files failed");
            *first = Some(error);
        }
        drop(first);
        self.failed.store(true, Ordering::Release);
        // A creator that is paused or held back would not check for a long time.
        for waker in &*self.wakers.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    /// Returns the error to the first caller; later callers only learn that there was one.
    pub fn error(&self) -> CreateError {
        self.take_error().unwrap_or_else(died)
    }

    pub fn take_error(&self) -> Option<CreateError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Returns the bytes that a file of this size occupies on disk, assuming blocks of 4096 bytes.
pub(crate) fn in_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(FILE_BLOCK_BYTES as u64)
}

pub(crate) fn died() -> CreateError {
    CreateError::consequence()
}
