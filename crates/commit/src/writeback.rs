//! Early write-back: syncs the page cache long before the final sync.
//!
//! Small files are written through the page cache. The kernel alone begins to write them back after
//! seconds, and the final `syncfs` of a run of small files takes half as long as their creation, on
//! one core, while nothing else happens. An occasional `syncfs` moves that work to times when the
//! creators wait for locks anyway. Such an early sync is an optimization: durability comes from the
//! final sync. But the kernel may report a write-back error only once, to whichever sync meets it
//! first. So an error of an early sync fails the run like an error of the final one.
//!
//! The same thread makes checkpoints durable and appends them to the journal.

use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use unsnap_create::CreateProgress;
use unsnap_ring::{Pace, Syscalls};

use crate::{
    CommitError,
    journal::{Checkpoint, Journal},
};

/// Bytes in the page cache that are worth an early sync. Measured (200,000 files of 8 KiB,
/// BENCHMARKS.md): 64 and 256 MiB are equally fast.
const CACHED_BYTES_MIN: u64 = 128 << 20;

/// With a rate limit: the bytes of half a second, so that the disk sees the limit too, but no less
/// than the minimum. Both are guesses: a sync covers everything that any process has written to the
/// file system, so it should not come too often.
const LIMITED_PART: u64 = 2;
const LIMITED_BYTES_MIN: u64 = 1 << 20;

/// Interval between checks of the counter. A guess: short compared with the time that this many
/// bytes take.
const INTERVAL: Duration = Duration::from_millis(50);

/// A directory on a file system to be synced, and its path for messages.
pub type SyncTarget = (OwnedFd, PathBuf);

/// Condition for an early sync.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Bytes in the page cache; `None` for the default.
    bytes_min: Option<u64>,
    /// Rate limit of the run.
    pace: Option<Pace>,
}

impl Due {
    /// Creates a condition: `bytes_min` bytes in the page cache, or `None` for a default that
    /// depends on the rate limit of `pace`.
    pub fn new(bytes_min: Option<u64>, pace: Option<Pace>) -> Self {
        Self { bytes_min, pace }
    }

    /// Returns the bytes that must accumulate, given the current rate limit.
    fn bytes(&self) -> u64 {
        let rate = self.pace.as_ref().and_then(Pace::rate);
        let limited =
            rate.map(|rate| (rate.get() / LIMITED_PART).clamp(LIMITED_BYTES_MIN, CACHED_BYTES_MIN));
        self.bytes_min.or(limited).unwrap_or(CACHED_BYTES_MIN)
    }
}

/// A thread that syncs the file systems of a run from time to time. [`finish`](Self::finish) and
/// dropping wait for the thread, including a sync in progress. Every [`outbox`](Self::outbox) must
/// have been dropped before, or they wait forever.
pub struct Writeback {
    outbox: Option<Sender<Checkpoint>>,
    has_journal: bool,
    thread: Option<JoinHandle<WrittenBack>>,
}

/// Result of the thread.
pub struct WrittenBack {
    /// Time spent.
    pub times: WritebackTimes,
    /// Whether a checkpoint has been appended to the journal.
    pub recorded: bool,
    /// The first failed sync. It is final, like an error of the last sync.
    pub result: Result<(), CommitError>,
}

/// Time spent by the thread. The part that was not spent on syncs was spent waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct WritebackTimes {
    /// Lifetime of the thread.
    pub total: Duration,
    /// Part of it spent on syncs and on the journal.
    pub syncing: Duration,
}

impl Writeback {
    /// Starts the thread. `targets` has one directory on each file system; `created` counts the
    /// bytes in the page cache. Checkpoints are appended to `journal`, if there is one.
    ///
    /// If the process may start no more threads, the final sync has more to do, and there are no
    /// checkpoints.
    pub fn start(
        calls: Syscalls,
        targets: Vec<SyncTarget>,
        created: Arc<CreateProgress>,
        due: Due,
        journal: Option<Journal>,
    ) -> Self {
        let (outbox, inbox) = bounded(1);
        let has_journal = journal.is_some();
        let synced_at = created.cached_bytes.load(Ordering::Relaxed);
        let mut syncs = EarlySync { calls, targets, created, due, synced_at, journal };
        let work = move || {
            let started = Instant::now();
            let mut written =
                WrittenBack { times: WritebackTimes::default(), recorded: false, result: Ok(()) };
            written.result = syncs.serve(&inbox, &mut written.recorded, &mut written.times);
            written.times.total = started.elapsed();
            written
        };
        let thread = thread::Builder::new().name("unsnap-writeback".to_owned()).spawn(work).ok();
        Self { outbox: Some(outbox), has_journal, thread }
    }

    /// Returns the channel that takes checkpoints; `None` without a journal.
    pub fn outbox(&self) -> Option<Sender<Checkpoint>> {
        self.outbox.clone().filter(|_| self.has_journal)
    }

    /// Ends the thread once it has recorded the last checkpoint. Returns `None` if there was no
    /// thread, or if it panicked. The final sync covers everything that it has not synced.
    pub fn finish(mut self) -> Option<WrittenBack> {
        self.stop()
    }

    fn stop(&mut self) -> Option<WrittenBack> {
        self.outbox = None;
        self.thread.take()?.join().ok()
    }
}

impl Drop for Writeback {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Work of the thread.
struct EarlySync {
    calls: Syscalls,
    targets: Vec<SyncTarget>,
    created: Arc<CreateProgress>,
    due: Due,
    /// Bytes that had gone through the page cache at the last sync.
    synced_at: u64,
    /// Takes checkpoints.
    journal: Option<Journal>,
}

impl EarlySync {
    /// Serves until every sender of checkpoints is gone.
    fn serve(
        &mut self,
        inbox: &Receiver<Checkpoint>,
        recorded: &mut bool,
        times: &mut WritebackTimes,
    ) -> Result<(), CommitError> {
        loop {
            let message = inbox.recv_timeout(INTERVAL);
            let since = Instant::now();
            match message {
                Ok(checkpoint) => {
                    self.sync()?;
                    match self.journal.as_mut().map(|journal| journal.checkpoint(&checkpoint)) {
                        Some(Ok(())) => {
                            *recorded = true;
                            tracing::info!(entries = checkpoint.entries, "recorded a checkpoint");
                        }
                        // Without further checkpoints an interrupted run repeats more work. That
                        // is no reason to fail this one.
                        Some(Err(errno)) => {
                            tracing::warn!(%errno, "no more checkpoints: journal not writable");
                            self.journal = None;
                        }
                        None => {}
                    }
                    times.syncing += since.elapsed();
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.sync_if_due()? {
                        times.syncing += since.elapsed();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Syncs if enough bytes have accumulated since the last sync, and returns whether they had.
    fn sync_if_due(&mut self) -> Result<bool, CommitError> {
        let cached = self.created.cached_bytes.load(Ordering::Relaxed);
        if cached - self.synced_at < self.due.bytes() {
            return Ok(false);
        }
        self.sync().map(|()| true)
    }

    /// Waits until everything that was written so far is on the disk.
    fn sync(&mut self) -> Result<(), CommitError> {
        self.synced_at = self.created.cached_bytes.load(Ordering::Relaxed);
        self.targets.iter().try_for_each(|(directory, path)| {
            self.calls.syncfs(directory).map_err(|errno| CommitError::Staging {
                step: "sync",
                path: path.clone(),
                errno,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use rustix::io::Errno;
    use unsnap_failure::Failure as _;
    use unsnap_ring::FaultPlan;

    use super::*;

    #[test]
    fn a_sync_is_due_when_enough_bytes_have_accumulated() {
        // A file system without anything to sync.
        let proc = std::fs::File::open("/proc").unwrap();
        let created = Arc::new(CreateProgress::default());
        let mut syncs = EarlySync {
            calls: Syscalls::default(),
            targets: vec![(proc.into(), "/proc".into())],
            created: Arc::clone(&created),
            due: Due::new(Some(100), None),
            synced_at: 0,
            journal: None,
        };
        for (cached, due) in [(0, false), (99, false), (100, true), (150, false), (250, true)] {
            created.cached_bytes.store(cached, Ordering::Relaxed);
            assert_eq!(syncs.sync_if_due().unwrap(), due, "{cached}");
        }
    }

    #[test]
    fn with_a_rate_limit_fewer_bytes_make_a_sync_due() {
        let pace = Pace::new();
        let due = Due::new(None, Some(pace.clone()));
        let expected = [
            (0, CACHED_BYTES_MIN),
            (1, LIMITED_BYTES_MIN),
            (20_000_000, 10_000_000),
            (u64::MAX, CACHED_BYTES_MIN),
        ];
        for (rate, bytes) in expected {
            pace.set_rate(NonZeroU64::new(rate));
            assert_eq!(due.bytes(), bytes, "{rate}");
        }
        assert_eq!(Due::new(Some(7), Some(pace)).bytes(), 7);
    }

    #[test]
    fn a_failed_early_sync_is_final() {
        let plan = FaultPlan::new(0).fail(0, Errno::IO);
        let calls = Syscalls::with_faults(plan.clone());
        let proc = std::fs::File::open("/proc").unwrap();
        let created = Arc::new(CreateProgress::default());
        let targets = vec![(proc.into(), "/proc".into())];
        let writeback =
            Writeback::start(calls, targets, Arc::clone(&created), Due::new(Some(1), None), None);
        created.cached_bytes.store(1, Ordering::Relaxed);
        while plan.steps() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let error = writeback.finish().unwrap().result.unwrap_err();
        assert_eq!((error.errno(), plan.steps()), (Some(Errno::IO), 1));
        assert_eq!(error.to_string(), "cannot sync /proc: Input/output error (os error 5)");
    }

    #[test]
    fn the_thread_ends_on_request() {
        let (calls, created) = (Syscalls::default(), Arc::new(CreateProgress::default()));
        let writeback = Writeback::start(calls, Vec::new(), created, Due::default(), None);
        let WrittenBack { times, recorded, result } = writeback.finish().unwrap();
        assert!(result.is_ok() && !recorded);
        assert_eq!(times.syncing, Duration::ZERO);
        assert!(times.total < Duration::from_mins(1));
    }

    /// Starts a thread with a journal in `directory`, whose syncs go through `calls`.
    fn recording(calls: Syscalls, directory: &OwnedFd) -> Writeback {
        let run = crate::Run::new("snapshot", vec![1]);
        let journal = Journal::plan(&Syscalls::default(), directory, run).unwrap();
        let targets = vec![(std::fs::File::open("/proc").unwrap().into(), "/proc".into())];
        Writeback::start(calls, targets, Arc::default(), Due::default(), Some(journal))
    }

    fn checkpoint(directory: &OwnedFd) -> Checkpoint {
        Checkpoint {
            archive: crate::ArchiveId::File(crate::ArchiveFile::new(
                &rustix::fs::fstat(directory).unwrap(),
            )),
            members: Vec::new(),
            header_offset: 512,
            entries: 1,
            restart: crate::Restart::default(),
            read: Vec::new(),
        }
    }

    #[test]
    fn checkpoints_are_recorded_after_a_sync_and_not_if_it_fails() {
        for fails in [false, true] {
            let scratch = tempfile::tempdir().unwrap();
            let directory: OwnedFd = std::fs::File::open(scratch.path()).unwrap().into();
            let plan = FaultPlan::new(0);
            let plan = if fails { plan.fail(0, Errno::IO) } else { plan };
            let writeback = recording(Syscalls::with_faults(plan), &directory);
            let outbox = writeback.outbox().expect("it has a journal");
            outbox.send(checkpoint(&directory)).unwrap();
            drop(outbox);
            let WrittenBack { recorded, result, .. } = writeback.finish().unwrap();
            assert_eq!((recorded, result.is_err()), (!fails, fails));
            let loaded = Journal::load(&Syscalls::default(), &directory).unwrap();
            assert_eq!(loaded.map(|loaded| loaded.reached.entries), (!fails).then_some(1));
        }
    }

    #[test]
    fn without_a_journal_there_are_no_checkpoints() {
        let calls = Syscalls::default();
        let writeback = Writeback::start(calls, Vec::new(), Arc::default(), Due::default(), None);
        assert!(writeback.outbox().is_none());
    }
}
