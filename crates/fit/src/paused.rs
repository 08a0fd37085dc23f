//! Watch over the free space while a run is paused.
//!
//! While the run is active, the walk checks the space ([`crate::watch`]). While it is paused, the
//! walk is blocked, and other processes may fill the disk, so that queued writes would fail when
//! the run continues. A paused run therefore ends under the same conditions as an active one, which
//! frees the space of its files.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use unsnap_create::Written;
use unsnap_ring::Pace;

use crate::{FitError, Watch};

/// Interval between checks. A guess: the run itself writes nothing meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A thread that checks the space while the run is paused, and sleeps otherwise.
pub struct PausedWatch {
    pace: Pace,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<FitError>>>,
}

impl PausedWatch {
    /// Starts the thread. `written` returns how much has been written to each destination so far;
    /// `stop` ends the run. If the process may start no more threads, there are no checks in a
    /// pause.
    pub fn start(
        pace: &Pace,
        watch: Arc<Watch>,
        written: impl Fn() -> Vec<Written> + Send + 'static,
        stop: impl Fn() + Send + 'static,
    ) -> Self {
        let (pace, ended) = (pace.clone(), Arc::new(AtomicBool::new(false)));
        let (asleep, over) = (pace.clone(), Arc::clone(&ended));
        let work = move || {
            let is_over = || over.load(Ordering::Acquire);
            loop {
                asleep.wait_until_paused(is_over);
                if is_over() {
                    return None;
                }
                if let Err(error) = watch.look(&written()) {
                    stop();
                    return Some(error);
                }
                asleep.wait_while_paused_for(LOOK_EVERY, is_over);
            }
        };
        let thread = thread::Builder::new().name("unsnap-paused".to_owned()).spawn(work).ok();
        Self { pace, ended, thread }
    }

    /// Ends the thread. Returns the shortage for which it has stopped the run, if any.
    pub fn finish(mut self) -> Option<FitError> {
        self.end()
    }

    fn end(&mut self) -> Option<FitError> {
        self.ended.store(true, Ordering::Release);
        self.pace.rouse();
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for PausedWatch {
    fn drop(&mut self) {
        self.end();
    }
}
