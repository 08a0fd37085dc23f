//! How far a run is, and how to stop it.

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

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Looking at archive and destinations.
    Preparing,
    /// Reading all of the archive for its digest, which the index beside it tells.
    CheckingIndex,
    /// Decoding and creating files.
    Unpacking,
    /// Looking for the newest versions of accounts.
    Verifying,
    /// Waiting until everything is on the disk.
    Syncing,
    /// Giving the result its final name.
    Publishing,
    /// Taking back what was written, after a failure.
    CleaningUp,
    /// Writing something else than what an archive holds.
    Writing,
    /// Looking at files that are there.
    LookingAtFiles,
    /// Giving files names that they have lost.
    Linking,
    /// Removing what is of no use any more.
    Removing,
    /// Nothing any more.
    Done,
}

/// A handle on a run's progress. Cheap to clone; to be asked at any time from any thread.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    pub phase: AtomicU8,
    /// Size of the archives; 0 while unknown.
    pub bytes_total: AtomicU64,
    /// Of an archive, and how much of it the walk over its headers has passed.
    pub bytes_to_walk: AtomicU64,
    pub bytes_walked: AtomicU64,
    /// Of each archive.
    pub bytes_read: [Arc<AtomicU64>; 2],
    pub bytes_decoded: AtomicU64,
    pub entries: AtomicU64,
    pub files_handled: AtomicU64,
    pub files_to_handle: AtomicU64,
    pub created: Arc<CreateProgress>,
    /// What the run is paused by, if by anything.
    pub pace: Mutex<Option<PaceSince>>,
}

/// A pace, and how long it had been paused when the run began.
#[derive(Debug)]
struct PaceSince {
    pace: Pace,
    paused_before: Duration,
}

/// A run's progress at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What it is doing.
    pub phase: Phase,
    /// Size of the archive in bytes, where it is known.
    pub bytes_total: Option<u64>,
    /// While it is prepared: percent of an archive's headers that have been looked at, if they are
    /// walked to find out whether it fits.
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
    /// Files that were looked at, linked or removed; in the phases that do that, and of what is removed
    /// meanwhile.
    pub files_handled: u64,
    /// How many of them there are in all, as far as that is known by now.
    pub files_to_handle: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// Milliseconds for which it has been paused: no part of the time in which anything is done.
    pub paused_ms: u64,
    /// Milliseconds for which there was something to write and the rate limit did not allow it, of
    /// the creator that had to wait longest.
    pub held_back_ms: u64,
    /// The limit in force, in bytes per second for each destination device.
    pub rate_limit: Option<u64>,
}

impl Progress {
    /// How far the run is now.
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
        // Walks that set out from what is no block may pass the same bytes twice.
        u128::from(walked.min(total)).saturating_mul(100).checked_div(total.into())?.try_into().ok()
    }

    /// So much of an archive of so many bytes has been walked.
    pub fn walk(&self, walked_bytes: u64, archive_bytes: u64) {
        self.shared.bytes_to_walk.store(archive_bytes, Ordering::Relaxed);
        self.shared.bytes_walked.store(walked_bytes, Ordering::Relaxed);
    }

    /// How long the run has been paused so far.
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

    /// Counts bytes that were written by somebody else than the unpacker: see
    /// [`Tap`](crate::Tap).
    pub fn count_written(&self, bytes: u64) {
        self.shared.created.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Begins a phase that goes through `bytes` of something, for whoever does that without the unpacker.
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

    /// Counts bytes that were read, or written in [`Phase::Writing`], and are what was wanted: nothing is
    /// decoded.
    pub fn count_read(&self, bytes: u64) {
        self.shared.bytes_read[0].fetch_add(bytes, Ordering::Relaxed);
        self.shared.bytes_decoded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Begins a phase that handles one file after the other; how many, [`expect_files`](Self::expect_files)
    /// tells when it is known.
    pub fn begin_files(&self, phase: Phase) {
        self.shared.files_handled.store(0, Ordering::Relaxed);
        self.shared.files_to_handle.store(0, Ordering::Relaxed);
        self.enter(phase);
    }

    /// There are so many files more to be handled than was known.
    pub fn expect_files(&self, files: u64) {
        self.shared.files_to_handle.fetch_add(files, Ordering::Relaxed);
    }

    /// Counts a file that was handled.
    pub fn count_file(&self) {
        self.shared.files_handled.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counter of compressed bytes that were read of an archive; the first is 0.
    ///
    /// # Panics
    ///
    /// If there is no such archive: a pass has two at most.
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

    /// Begins anew, for another run.
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

    /// Counts what an interrupted run had done.
    pub fn begin(&self, files: u64, bytes: u64) {
        self.shared.created.files.store(files, Ordering::Relaxed);
        self.shared.created.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Says what is being done; what has been counted stays.
    pub fn enter(&self, phase: Phase) {
        self.shared.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// The handles of a run: to watch it, and to stop it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Handles {
    /// Tells how far the run is.
    pub progress: Progress,
    /// Stops the run.
    pub cancel: CancelToken,
}

/// Returns whole milliseconds, as reports have them.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Asks a run to stop. Cheap to clone; may be used from a signal handler's thread.
///
/// The run drains what is in flight, removes what it has written and returns
/// [`PassError::Cancelled`](crate::PassError::Cancelled). A run that is already publishing goes on to its
/// end, since the result is durable by then.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    shared: Arc<CancelShared>,
}

#[derive(Default)]
struct CancelShared {
    cancelled: AtomicBool,
    /// Rouses the run out of whatever it waits for.
    rouse: Mutex<Option<Rouse>>,
}

type Rouse = Box<dyn Fn() + Send>;

impl CancelToken {
    /// Asks to stop.
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        if let Some(rouse) = &*self.rouse() {
            rouse();
        }
    }

    /// Whether somebody has asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::SeqCst)
    }

    /// Has `rouse` called when somebody asks to stop, at once if somebody has, until the result is
    /// dropped.
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

/// While it lives, a cancellation rouses the run.
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
