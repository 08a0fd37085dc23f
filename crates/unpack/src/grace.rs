//! Grace period of a resumable run: time to complete files after a cancellation, before the creators
//! are stopped.

use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Length of the period. A guess: enough to write all data in flight, unless a rate limit or a
/// consumer of files slows that down.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// A thread that stops a run some time after its cancellation. Ends when dropped.
pub(crate) struct Grace {
    cancelled: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Grace {
    /// Starts the thread. It calls `stop` when the period after a cancellation is over.
    pub fn start(period: Duration, stop: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (cancelled, inbox) = channel();
        let thread = thread::Builder::new()
            .name("unsnap-grace".to_owned())
            .spawn(move || wait_and_stop(&inbox, period, stop))?;
        Ok(Self { cancelled: Some(cancelled), thread: Some(thread) })
    }

    /// Returns the function to call at a cancellation. It must be dropped before this.
    pub fn trigger(&self) -> impl Fn() + Send + use<> {
        let cancelled = self.cancelled.clone();
        move || {
            if let Some(cancelled) = &cancelled {
                let _ = cancelled.send(());
            }
        }
    }
}

impl Drop for Grace {
    fn drop(&mut self) {
        self.cancelled = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn wait_and_stop(inbox: &Receiver<()>, period: Duration, stop: impl Fn()) {
    let Ok(()) = inbox.recv() else { return };
    let end = Instant::now() + period;
    loop {
        match inbox.recv_timeout(end.saturating_duration_since(Instant::now())) {
            // Cancelled once more.
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return stop(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use super::*;

    /// Returns whether a run was stopped that is cancelled and takes so long to end.
    fn is_stopped(period: Duration, cancelled: bool, ends_after: Duration) -> bool {
        let stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stopped);
        let grace = Grace::start(period, move || flag.store(true, Ordering::SeqCst)).unwrap();
        let trigger = grace.trigger();
        if cancelled {
            trigger();
            trigger();
        }
        thread::sleep(ends_after);
        drop(trigger);
        drop(grace);
        stopped.load(Ordering::SeqCst)
    }

    #[test]
    fn a_run_is_stopped_when_the_period_is_over() {
        let (none, long) = (Duration::ZERO, Duration::from_mins(1));
        assert!(!is_stopped(none, false, none), "not cancelled");
        assert!(!is_stopped(long, true, none), "ended in time");
        assert!(is_stopped(none, true, Duration::from_millis(200)));
    }
}
