//! Writing back early: what went through the page cache is on its way to the disk long before the
//! final sync asks for it.
//!
//! Small files are written through the page cache. Left to itself the kernel begins to write them
//! back after seconds, and the final `syncfs` of a run of small files takes as long as half of
//! their creation did, on one core, while nothing else happens. A `syncfs` now and then moves that
//! work to where the creators wait for locks anyway. It is a nudge: durability comes from the final
//! sync. But a sync that has failed is final, whoever asked for it, since the kernel may report an
//! error only once; so the first error of a nudge fails the run like one of the final sync.

use std::{
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use unsnap_create::CreateProgress;
use unsnap_ring::Syscalls;

use crate::Error;

/// Bytes in the page cache that are worth a nudge. Measured (200,000 files of 8 KiB, BENCHMARKS.md):
/// 64 and 256 MiB are equally fast.
const CACHED_BYTES_MIN: u64 = 128 << 20;

/// How often to look. A guess: often against the time that so many bytes take.
const INTERVAL: Duration = Duration::from_millis(50);

/// A directory on a file system to be synced, and what messages call it.
pub(crate) type SyncTarget = (OwnedFd, PathBuf);

/// A thread that nudges the file systems of a run for as long as it lives. Nothing of it is left
/// when it is finished or dropped: either waits for the nudge it may be at.
pub(crate) struct Writeback {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<(WritebackTimes, Result<(), Error>)>>,
}

/// Where the thread's time went: what it was not syncing it was waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WritebackTimes {
    pub total: Duration,
    pub syncing: Duration,
}

impl Writeback {
    /// `targets`: one for each file system. `bytes_min`: cached bytes that are worth a nudge, `None`
    /// for the default. Without a thread (the process may have no more) the final sync simply has
    /// more to do.
    pub fn start(
        calls: Syscalls,
        targets: Vec<SyncTarget>,
        created: Arc<CreateProgress>,
        bytes_min: Option<u64>,
    ) -> Self {
        let (stop, stopped) = channel();
        let bytes_min = bytes_min.unwrap_or(CACHED_BYTES_MIN);
        let mut nudge = Nudge { calls, targets, created, bytes_min, nudged_at: 0 };
        let watch = move || {
            let started = Instant::now();
            let mut times = WritebackTimes::default();
            let mut result = Ok(());
            while result.is_ok() && stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout)
            {
                let since = Instant::now();
                result = nudge.give_if_due().map(|given| {
                    if given {
                        times.syncing += since.elapsed();
                    }
                });
            }
            times.total = started.elapsed();
            (times, result)
        };
        let thread = thread::Builder::new().name("unsnap-writeback".to_owned()).spawn(watch).ok();
        Self { stop: Some(stop), thread }
    }

    /// Ends the thread. An error of a nudge is final, like one of the last sync.
    pub fn finish(mut self) -> Result<Option<WritebackTimes>, Error> {
        // A panic is no reason to fail: what it has not synced, the final sync does.
        let Some((times, result)) = self.stop() else { return Ok(None) };
        result.map(|()| Some(times))
    }

    fn stop(&mut self) -> Option<(WritebackTimes, Result<(), Error>)> {
        self.stop = None;
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
    bytes_min: u64,
    /// Bytes that had gone through the page cache at the last nudge.
    nudged_at: u64,
}

impl Nudge {
    /// Whether enough has come together since the last time; if so, it is written back by now.
    fn give_if_due(&mut self) -> Result<bool, Error> {
        let cached = self.created.cached_bytes.load(Ordering::Relaxed);
        if cached - self.nudged_at < self.bytes_min {
            return Ok(false);
        }
        self.nudged_at = cached;
        for (directory, path) in &self.targets {
            self.calls.syncfs(directory).map_err(|errno| Error::Staging {
                step: "sync",
                path: path.clone(),
                errno,
            })?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
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
            bytes_min: 100,
            nudged_at: 0,
        };
        for (cached, due) in [(0, false), (99, false), (100, true), (150, false), (250, true)] {
            created.cached_bytes.store(cached, Ordering::Relaxed);
            assert_eq!(nudge.give_if_due().unwrap(), due, "{cached}");
        }
    }

    #[test]
    fn a_nudge_that_fails_is_final() {
        let plan = FaultPlan::new(0).fail(0, Errno::IO);
        let calls = Syscalls::with_faults(plan.clone());
        let proc = std::fs::File::open("/proc").unwrap();
        let created = Arc::new(CreateProgress::default());
        created.cached_bytes.store(1, Ordering::Relaxed);
        let targets = vec![(proc.into(), "/proc".into())];
        let writeback = Writeback::start(calls, targets, created, Some(1));
        while plan.steps() == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        let error = writeback.finish().unwrap_err();
        assert_eq!((error.errno(), plan.steps()), (Some(Errno::IO), 1));
        assert_eq!(error.to_string(), "cannot sync /proc: Input/output error (os error 5)");
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let (calls, created) = (Syscalls::default(), Arc::new(CreateProgress::default()));
        let writeback = Writeback::start(calls, Vec::new(), created, None);
        let times = writeback.finish().unwrap().unwrap();
        assert_eq!(times.syncing, Duration::ZERO);
        assert!(times.total < Duration::from_mins(1));
    }
}
