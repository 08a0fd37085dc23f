//! The thread that removes old results at a limited rate.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use unsnap_fastboot::{Leisure, Removal};
use unsnap_pass::CancelToken;
use unsnap_ring::Syscalls;

/// The removing thread. Dropping it interrupts the removal; the next start finds and removes the
/// remaining files.
#[derive(Debug)]
pub struct Remover {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    removed: Arc<AtomicU64>,
    hurry: Arc<AtomicBool>,
    stop: CancelToken,
}

#[derive(Debug, Default)]
struct State {
    /// Paths to remove, without duplicates.
    queue: BTreeSet<PathBuf>,
    /// The path that is being removed.
    current: Option<PathBuf>,
    files_a_second: u32,
}

impl Remover {
    /// Starts the thread, which sleeps until [`remove`](Self::remove) is called. A rate of 0 is no
    /// limit.
    pub fn start(files_a_second: u32) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.state().files_a_second = files_a_second;
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("unpackd-remove".to_owned());
        let thread = thread.spawn(move || theirs.work())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Sets the rate for paths whose removal has not begun; 0 for no limit.
    pub fn set_pace(&self, files_a_second: u32) {
        self.shared.state().files_a_second = files_a_second;
    }

    /// Lifts the rate limit, also for the running removal, or sets it again.
    pub fn hurry(&self, hurry: bool) {
        self.shared.hurry.store(hurry, Ordering::Relaxed);
    }

    /// Queues paths for removal. They must have been moved aside before.
    pub fn remove(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.shared.state().queue.extend(paths);
        self.shared.changed.notify_one();
    }

    /// Returns whether a path has yet to be removed. After an error it no longer counts: the next
    /// sweep finds it again.
    pub fn is_pending(&self, path: &Path) -> bool {
        let state = self.shared.state();
        state.queue.contains(path) || state.current.as_deref() == Some(path)
    }

    /// Returns whether a removal is running, and the number of files removed so far.
    pub fn progress(&self) -> (bool, u64) {
        let state = self.shared.state();
        (state.current.is_some(), self.shared.removed.load(Ordering::Relaxed))
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        {
            let _state = self.shared.state();
            self.shared.stop.cancel();
        }
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((path, files_a_second)) = self.next() {
            let mut removal = Removal::default();
            removal.extend([path]);
            let removed = Arc::clone(&self.removed);
            let (hurry, stop) = (Arc::clone(&self.hurry), self.stop.clone());
            let leisure = Leisure { files_a_second, hurry, removed, stop };
            match removal.at_leisure(&Syscalls::default(), &leisure) {
                Err(error) if !self.stop.is_cancelled() => {
                    tracing::warn!(%error, "cannot remove old results; the next sweep retries");
                }
                _ => {}
            }
        }
    }

    /// Waits for the next path and rate; `None` when the thread must end.
    fn next(&self) -> Option<(PathBuf, u32)> {
        let mut state = self.state();
        state.current = None;
        loop {
            if self.stop.is_cancelled() {
                return None;
            }
            if let Some(path) = state.queue.pop_first() {
                state.current = Some(path.clone());
                return Some((path, state.files_a_second));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn everything_is_removed_and_dropping_does_not_wait_for_the_rest() {
        let scratch = tempfile::tempdir().unwrap();
        let make = |name: &str, files: u32| {
            let path = scratch.path().join(name);
            std::fs::create_dir(&path).unwrap();
            (0..files).for_each(|file| std::fs::write(path.join(file.to_string()), "").unwrap());
            path
        };
        let remover = Remover::start(0).unwrap();
        let (one, two) = (make("one", 100), make("two", 5));
        remover.remove([one.clone(), two.clone()]);
        let since = Instant::now();
        while one.exists() || two.exists() {
            assert!(since.elapsed() < Duration::from_mins(1));
            thread::sleep(Duration::from_millis(5));
        }
        // At one file a second this would take a quarter of an hour, unless there is a hurry.
        remover.set_pace(1);
        let (hurried, slow) = (make("hurried", 900), make("slow", 900));
        remover.remove([hurried.clone()]);
        let until = |is_true: &dyn Fn() -> bool| {
            while !is_true() {
                assert!(since.elapsed() < Duration::from_mins(1));
                thread::sleep(Duration::from_millis(5));
            }
        };
        until(&|| remover.progress().0);
        remover.hurry(true);
        until(&|| !hurried.exists());
        remover.hurry(false);
        remover.remove([slow.clone()]);
        assert!(remover.is_pending(&slow) && !remover.is_pending(&one));
        drop(remover);
        assert!(slow.is_dir());
    }
}
