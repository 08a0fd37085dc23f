//! Looking after the free space while a run is paused.
//!
//! While it goes on the walk looks ([`crate::watch`]). While it is paused the walk stands still, and
//! others may fill the disk: what waits to be written would find no room when the run goes on. So the
//! run ends as soon as it would if it were going on, which gives back what it has taken.

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

/// How often to look. A guess: nothing of ours is written meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A thread that looks after the space whenever the run is paused, and sleeps otherwise.
pub struct PausedWatch {
    pace: Pace,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<FitError>>>,
}

impl PausedWatch {
    /// `written`: tells what each destination has been given so far. `stop`: ends the run. Without a
    /// thread (the process may have no more) nobody looks in a pause.
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

    /// Ends it, and gives what it has stopped the run for.
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
