//! Writing back early: what went through the page cache is on its way to the disk long before the
//! final sync asks for it.
//!
//! Small files are written through the page cache. Left to itself the kernel begins to write them
//! back after seconds, and the final `syncfs` of a run of small files takes as long as half of
//! their creation did, on one core, while nothing else happens. A `syncfs` now and then moves that
//! work to where the creators wait for locks anyway. It is a nudge: durability comes from the final
//! sync. But a sync that has failed is final, whoever asked for it, since the kernel may report an
//! error only once; so the first error of a nudge fails the run like one of the final sync.
//!
//! The same thread makes checkpoints durable and then writes them into the journal.

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

/// Bytes in the page cache that are worth a nudge. Measured (200,000 files of 8 KiB, BENCHMARKS.md):
/// 64 and 256 MiB are equally fast.
const CACHED_BYTES_MIN: u64 = 128 << 20;

/// The same where the rate is limited: what half a second brings, so that a disk sees the limit too,
/// but no less than this. Both are guesses: a sync is for all that anybody has written to the file
/// system, and should not come too often.
const LIMITED_PART: u64 = 2;
const LIMITED_BYTES_MIN: u64 = 1 << 20;

/// How often to look. A guess: often against the time that so many bytes take.
const INTERVAL: Duration = Duration::from_millis(50);

/// A directory on a file system to be synced, and what messages call it.
pub type SyncTarget = (OwnedFd, PathBuf);

/// When a nudge is due.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// Bytes in the page cache; `None` for the default.
    bytes_min: Option<u64>,
    /// What limits the rate.
    pace: Option<Pace>,
}

impl Due {
    pub fn new(bytes_min: Option<u64>, pace: Option<Pace>) -> Self {
        Self { bytes_min, pace }
    }

    /// Bytes that have to come together, by the limit in force.
    fn bytes(&self) -> u64 {
        let rate = self.pace.as_ref().and_then(Pace::rate);
        let limited =
            rate.map(|rate| (rate.get() / LIMITED_PART).clamp(LIMITED_BYTES_MIN, CACHED_BYTES_MIN));
        self.bytes_min.or(limited).unwrap_or(CACHED_BYTES_MIN)
    }
}

/// A thread that nudges the file systems of a run for as long as it lives. Nothing of it is left
/// when it is finished or dropped: either waits for the sync it may be at. Until then whoever has
/// an [`outbox`](Self::outbox) must have dropped it.
pub struct Writeback {
    outbox: Option<Sender<Checkpoint>>,
    has_journal: bool,
    thread: Option<JoinHandle<WrittenBack>>,
}

/// What the thread has come to.
pub struct WrittenBack {
    pub times: WritebackTimes,
    /// Whether a checkpoint has been written into the journal.
    pub recorded: bool,
    /// An error is final, like one of the last sync.
    pub result: Result<(), CommitError>,
}

/// Where the thread's time went: what it was not syncing it was waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct WritebackTimes {
    pub total: Duration,
    pub syncing: Duration,
}

impl Writeback {
    /// `targets`: one for each file system. `due`: when a nudge is. `journal`: where checkpoints go, if anywhere. Without a thread (the process
    /// may have no more) the final sync simply has more to do, and there are no checkpoints.
    pub fn start(
        calls: Syscalls,
        targets: Vec<SyncTarget>,
        created: Arc<CreateProgress>,
        due: Due,
        journal: Option<Journal>,
    ) -> Self {
        let (outbox, inbox) = bounded(1);
        let has_journal = journal.is_some();
        let nudged_at = created.cached_bytes.load(Ordering::Relaxed);
        let mut nudge = Nudge { calls, targets, created, due, nudged_at, journal };
        let work = move || {
            let started = Instant::now();
            let mut written =
                WrittenBack { times: WritebackTimes::default(), recorded: false, result: Ok(()) };
            written.result = nudge.work_off(&inbox, &mut written.recorded, &mut written.times);
            written.times.total = started.elapsed();
            written
        };
        let thread = thread::Builder::new().name("unsnap-writeback".to_owned()).spawn(work).ok();
        Self { outbox: Some(outbox), has_journal, thread }
    }

    /// Where checkpoints are sent to, if they are written down.
    pub fn outbox(&self) -> Option<Sender<Checkpoint>> {
        self.outbox.clone().filter(|_| self.has_journal)
    }

    /// Ends the thread when it has written down the last checkpoint. `None` if there was none, or
    /// it panicked: what it has not synced, the final sync does.
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

struct Nudge {
    calls: Syscalls,
    targets: Vec<SyncTarget>,
    created: Arc<CreateProgress>,
    due: Due,
    /// Bytes that had gone through the page cache at the last nudge.
    nudged_at: u64,
    /// Where checkpoints go.
    journal: Option<Journal>,
}

impl Nudge {
    /// Until nobody can send checkpoints any more.
    fn work_off(
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
                        Some(Ok(())) => *recorded = true,
                        // A convenience: what is not written down cannot be resumed, that is all.
                        Some(Err(errno)) => {
                            tracing::warn!(%errno, "cannot write the journal: no more checkpoints");
                            self.journal = None;
                        }
                        None => {}
                    }
                    times.syncing += since.elapsed();
                }
                Err(RecvTimeoutError::Timeout) => {
                    if self.give_if_due()? {
                        times.syncing += since.elapsed();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Whether enough has come together since the last time; if so, it is written back by now.
    fn give_if_due(&mut self) -> Result<bool, CommitError> {
        let cached = self.created.cached_bytes.load(Ordering::Relaxed);
        if cached - self.nudged_at < self.due.bytes() {
            return Ok(false);
        }
        self.sync().map(|()| true)
    }

    /// Waits until everything written so far is on the disk.
    fn sync(&mut self) -> Result<(), CommitError> {
        self.nudged_at = self.created.cached_bytes.load(Ordering::Relaxed);
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
    use unsnap_ring::FaultPlan;

    use super::*;

    #[test]
    fn a_nudge_is_given_when_enough_has_come_together() {
        // A file system whose sync has nothing to do.
        let proc = std::fs::File::open("/proc").unwrap();
        let created = Arc::new(CreateProgress::default());
        let mut nudge = Nudge {
            calls: Syscalls::default(),
            targets: vec![(proc.into(), "/proc".into())],
            created: Arc::clone(&created),
            due: Due::new(Some(100), None),
            nudged_at: 0,
            journal: None,
        };
        for (cached, due) in [(0, false), (99, false), (100, true), (150, false), (250, true)] {
            created.cached_bytes.store(cached, Ordering::Relaxed);
            assert_eq!(nudge.give_if_due().unwrap(), due, "{cached}");
        }
    }

    #[test]
    fn with_a_limit_less_has_to_come_together() {
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
    fn a_nudge_that_fails_is_final() {
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
    fn it_ends_when_it_is_told_to() {
        let (calls, created) = (Syscalls::default(), Arc::new(CreateProgress::default()));
        let writeback = Writeback::start(calls, Vec::new(), created, Due::default(), None);
        let WrittenBack { times, recorded, result } = writeback.finish().unwrap();
        assert!(result.is_ok() && !recorded);
        assert_eq!(times.syncing, Duration::ZERO);
        assert!(times.total < Duration::from_mins(1));
    }
}
