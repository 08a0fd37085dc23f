//! Progress and cancellation of a run.

use std::{
    num::NonZeroU64,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use unsnap_create::CreateProgress;
use unsnap_ring::Pace;

use crate::Unfinished;

/// Current activity of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Examining the archive and the destinations.
    Preparing,
    /// Reading the whole archive to check it against the digest in its index.
    CheckingIndex,
    /// Decoding and creating files.
    Unpacking,
    /// Searching for the newest versions of accounts.
    Verifying,
    /// Waiting until all files are on the disk.
    Syncing,
    /// Giving the result its final name.
    Publishing,
    /// Removing written files after a failure.
    CleaningUp,
    /// Writing something other than the files of an archive.
    Writing,
    /// Examining existing files.
    LookingAtFiles,
    /// Restoring lost names of files.
    Linking,
    /// Removing files that are no longer needed.
    Removing,
    /// Finished.
    Done,
}

/// Handle on a run's progress. Cheap to clone; any thread may use it at any time.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    /// Size of the archives; 0 while unknown.
    bytes_total: AtomicU64,
    /// Size of the archive whose headers are walked.
    bytes_to_walk: AtomicU64,
    /// Bytes of it that the walk has passed.
    bytes_walked: AtomicU64,
    /// Compressed bytes read of each archive.
    bytes_read: [Arc<AtomicU64>; 2],
    bytes_decoded: AtomicU64,
    entries: AtomicU64,
    files_handled: AtomicU64,
    files_to_handle: AtomicU64,
    created: Arc<CreateProgress>,
    /// Files and bytes in `created` that an interrupted run completed.
    resumed_files: AtomicU64,
    resumed_bytes: AtomicU64,
    /// Pace that may pause the run.
    pace: Mutex<Option<PaceSince>>,
}

/// A pace, and the time for which it had been paused before the run began.
#[derive(Debug)]
struct PaceSince {
    pace: Pace,
    paused_before: Duration,
}

/// A run's progress at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Current activity.
    pub phase: Phase,
    /// Size of the archives in bytes, if known.
    pub bytes_total: Option<u64>,
    /// Percentage of the archive that the walk over frame headers has passed, if the check for
    /// space makes such a walk.
    pub headers_percent: Option<u64>,
    /// Compressed bytes that have been decoded.
    pub bytes_read: u64,
    /// Decoded bytes that the tar walk has passed.
    pub bytes_decoded: u64,
    /// Entries that the tar walk has passed.
    pub entries: u64,
    /// Files that are complete.
    pub files: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Those of the files that an interrupted run completed.
    pub resumed_files: u64,
    /// Those of the bytes that an interrupted run wrote.
    pub resumed_bytes: u64,
    /// Files that were examined, linked, removed or read again, in the phases that do so. Includes files that
    /// are removed during other phases.
    pub files_handled: u64,
    /// Total number of such files, as far as it is known by now.
    pub files_to_handle: u64,
    /// Whether the run is paused.
    pub paused: bool,
    /// Milliseconds for which the run has been paused.
    pub paused_ms: u64,
    /// Milliseconds for which the rate limit delayed writes, of the creator that waited longest.
    pub held_back_ms: u64,
    /// Rate limit in force, in bytes per second for each destination device.
    pub rate_limit: Option<u64>,
}

impl Progress {
    /// Returns the current progress.
    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.shared;
        let total = shared.bytes_total.load(Ordering::Relaxed);
        let pace = self.pace().as_ref().map(|since| since.pace.clone());
        Snapshot {
            phase: match shared.phase.load(Ordering::Relaxed) {
                0 => Phase::Preparing,
                1 => Phase::CheckingIndex,
                2 => Phase::Unpacking,
                3 => Phase::Verifying,
                4 => Phase::Syncing,
                5 => Phase::Publishing,
                6 => Phase::CleaningUp,
                7 => Phase::Writing,
                8 => Phase::LookingAtFiles,
                9 => Phase::Linking,
                10 => Phase::Removing,
                _ => Phase::Done,
            },
            bytes_total: (total > 0).then_some(total),
            headers_percent: self.headers_percent(),
            bytes_read: shared.bytes_read.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum(),
            bytes_decoded: shared.bytes_decoded.load(Ordering::Relaxed),
            entries: shared.entries.load(Ordering::Relaxed),
            files: shared.created.files.load(Ordering::Relaxed),
            bytes_written: shared.created.bytes.load(Ordering::Relaxed),
            resumed_files: shared.resumed_files.load(Ordering::Relaxed),
            resumed_bytes: shared.resumed_bytes.load(Ordering::Relaxed),
            files_handled: shared.files_handled.load(Ordering::Relaxed),
            files_to_handle: shared.files_to_handle.load(Ordering::Relaxed),
            paused: pace.as_ref().is_some_and(Pace::is_paused),
            paused_ms: millis(self.paused()),
            held_back_ms: shared.created.held_back_ms.load(Ordering::Relaxed),
            rate_limit: pace.and_then(|pace| pace.rate()).map(NonZeroU64::get),
        }
    }

    fn headers_percent(&self) -> Option<u64> {
        let total = self.shared.bytes_to_walk.load(Ordering::Relaxed);
        let walked = self.shared.bytes_walked.load(Ordering::Relaxed);
        // Walks from a false foothold may pass the same bytes twice.
        u128::from(walked.min(total)).saturating_mul(100).checked_div(total.into())?.try_into().ok()
    }

    /// Sets how many bytes of an archive the walk over its headers has passed.
    pub fn walk(&self, walked_bytes: u64, archive_bytes: u64) {
        self.shared.bytes_to_walk.store(archive_bytes, Ordering::Relaxed);
        self.shared.bytes_walked.store(walked_bytes, Ordering::Relaxed);
    }

    /// Returns the time for which the run has been paused so far.
    pub fn paused(&self) -> Duration {
        let pace = self.pace();
        let since = |PaceSince { pace, paused_before }: &PaceSince| {
            pace.paused_for().saturating_sub(*paused_before)
        };
        pace.as_ref().map_or(Duration::ZERO, since)
    }

    fn pace(&self) -> MutexGuard<'_, Option<PaceSince>> {
        self.shared.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that were written by a [`Tap`](crate::Tap) instead of the creators.
    pub fn count_written(&self, bytes: u64) {
        self.shared.created.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Begins a phase outside of a pass that processes `bytes`, and resets the counters of bytes.
    pub fn begin_bytes(&self, phase: Phase, bytes: u64) {
        let shared = &self.shared;
        let read = shared.bytes_read.iter().map(|counter| &**counter);
        for counter in read.chain([&shared.bytes_decoded]) {
            counter.store(0, Ordering::Relaxed);
        }
        shared.bytes_total.store(bytes, Ordering::Relaxed);
        self.enter(phase);
    }

    /// Adds to the bytes that are to be read.
    pub fn expect_bytes(&self, bytes: u64) {
        self.shared.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of a phase without decoding: bytes read or, in [`Phase::Writing`], written.
    pub fn count_read(&self, bytes: u64) {
        self.shared.bytes_read[0].fetch_add(bytes, Ordering::Relaxed);
        self.shared.bytes_decoded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Begins a phase that handles one file after the other. [`expect_files`](Self::expect_files)
    /// sets their number once it is known.
    pub fn begin_files(&self, phase: Phase) {
        self.shared.files_handled.store(0, Ordering::Relaxed);
        self.shared.files_to_handle.store(0, Ordering::Relaxed);
        self.enter(phase);
    }

    /// Adds to the files that are to be handled.
    pub fn expect_files(&self, files: u64) {
        self.shared.files_to_handle.fetch_add(files, Ordering::Relaxed);
    }

    /// Counts a handled file.
    pub fn count_file(&self) {
        self.shared.files_handled.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counter of compressed bytes read of an archive; the index of the first is 0.
    ///
    /// # Panics
    ///
    /// If the index is above 1, since a pass has at most two archives.
    pub fn read_counter(&self, archive: usize) -> Arc<AtomicU64> {
        Arc::clone(&self.shared.bytes_read[archive])
    }

    /// Returns the counters of the creators.
    pub fn created(&self) -> Arc<CreateProgress> {
        Arc::clone(&self.shared.created)
    }

    /// Counts decoded bytes that the tar walk has passed.
    pub fn count_decoded(&self, bytes: u64) {
        self.shared.bytes_decoded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts an entry that the tar walk has passed.
    pub fn count_entry(&self) {
        self.shared.entries.fetch_add(1, Ordering::Relaxed);
    }

    /// Resets all counters for another run.
    pub fn reset(&self, pace: Option<&Pace>) {
        *self.pace() =
            pace.map(|pace| PaceSince { pace: pace.clone(), paused_before: pace.paused_for() });
        let shared = &self.shared;
        let counters = [
            &shared.bytes_total,
            &shared.bytes_to_walk,
            &shared.bytes_walked,
            &shared.bytes_decoded,
            &shared.entries,
            &shared.resumed_files,
            &shared.resumed_bytes,
        ];
        let handled = [&shared.files_handled, &shared.files_to_handle];
        let CreateProgress { files, bytes, cached_bytes, held_back_ms } = &*shared.created;
        let created = [files, bytes, cached_bytes, held_back_ms];
        let read = shared.bytes_read.iter().map(|counter| &**counter);
        for counter in counters.into_iter().chain(handled).chain(created).chain(read) {
            counter.store(0, Ordering::Relaxed);
        }
        self.enter(Phase::Preparing);
    }

    /// Sets the counters of files and bytes to those of an interrupted run.
    pub fn begin(&self, files: u64, bytes: u64) {
        self.shared.resumed_files.store(files, Ordering::Relaxed);
        self.shared.resumed_bytes.store(bytes, Ordering::Relaxed);
        self.shared.created.files.store(files, Ordering::Relaxed);
        self.shared.created.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets the phase and leaves the counters as they are.
    pub fn enter(&self, phase: Phase) {
        self.shared.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// Handles that watch a run and stop it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Handles {
    /// Shows the progress.
    pub progress: Progress,
    /// Stops the run.
    pub cancel: CancelToken,
}

/// Returns whole milliseconds, the unit of reports.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Asks a run to stop. Cheap to clone; may be used from a signal handler's thread.
///
/// The run drains operations in flight, removes the files it has written (a resumable run first
/// completes and records what it can, and keeps it) and returns
/// [`PassError::Cancelled`](crate::PassError::Cancelled). A run that is already publishing
/// completes, since its result is durable by then.
///
/// Whoever cannot wait for that learns from [`unfinished`](Self::unfinished) what is left behind if
/// the process ends now.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    shared: Arc<CancelShared>,
}

#[derive(Default)]
struct CancelShared {
    cancelled: AtomicBool,
    /// Wakes the threads of the run.
    rouse: Mutex<Option<Rouse>>,
    unfinished: Unfinished,
}

type Rouse = Box<dyn Fn() + Send>;

impl CancelToken {
    /// Asks the run to stop.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        if let Some(rouse) = &*self.rouse() {
            rouse();
        }
    }

    /// Returns whether the run was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::SeqCst)
    }

    /// Returns the record of what the run has begun and neither finished nor removed.
    pub fn unfinished(&self) -> &Unfinished {
        &self.shared.unfinished
    }

    /// Registers a function to be called on cancellation, until the guard is dropped. If the run
    /// was cancelled before, calls it at once.
    pub fn rouse_by(&self, rouse: impl Fn() + Send + 'static) -> RouseGuard<'_> {
        *self.rouse() = Some(Box::new(rouse));
        if self.is_cancelled()
            && let Some(rouse) = &*self.rouse()
        {
            rouse();
        }
        RouseGuard(self)
    }

    fn rouse(&self) -> MutexGuard<'_, Option<Rouse>> {
        self.shared.rouse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a function registered by [`CancelToken::rouse_by`].
pub struct RouseGuard<'a>(&'a CancelToken);

impl Drop for RouseGuard<'_> {
    fn drop(&mut self) {
        *self.0.rouse() = None;
    }
}

impl std::fmt::Debug for CancelShared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CancelShared")
            .field("cancelled", &self.cancelled)
            .finish_non_exhaustive()
    }
}
