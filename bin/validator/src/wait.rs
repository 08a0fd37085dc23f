//! Waiting for another unsnap that is at work for this validator.

use std::{
    thread,
    time::{Duration, Instant},
};

use unsnap_fastboot::{FastbootError, Places, Situation, WaitingNotice};
use unsnap_ring::Syscalls;

/// Longest wait, if the deadline is not sooner. A guess: some times what unpacking takes. A process
/// that is stopped must not keep a validator from starting for ever.
pub const WAIT_MAX: Duration = Duration::from_mins(30);

/// Rest between two looks at the other unsnap. A guess: adoption takes milliseconds, and a look costs
/// a few system calls.
const REST: Duration = Duration::from_millis(50);

/// The time limit of a start.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    since: Instant,
    limit: Option<Duration>,
}

impl Deadline {
    /// Returns a limit that counts from now; `None` for none.
    pub fn from_now(limit: Option<Duration>) -> Self {
        Self { since: Instant::now(), limit }
    }

    /// Returns the limit if the time is up.
    pub fn passed(&self) -> Option<Duration> {
        self.limit.filter(|limit| limit.is_zero() || self.since.elapsed() >= *limit)
    }

    /// Returns the longest wait.
    pub fn wait_max(&self) -> Duration {
        self.limit.map_or(WAIT_MAX, |limit| limit.min(WAIT_MAX))
    }
}

/// A clock that waits go by.
pub trait Clock {
    /// Rests for a moment. Returns the time since the first rest began.
    fn rest(&mut self) -> Duration;
}

/// The clock of the machine.
#[derive(Default)]
pub struct SystemClock {
    since: Option<Instant>,
}

impl Clock for SystemClock {
    fn rest(&mut self) -> Duration {
        let since = *self.since.get_or_insert_with(Instant::now);
        thread::sleep(REST);
        since.elapsed()
    }
}

/// The end of a wait without success.
#[derive(Debug)]
pub enum Vain {
    /// An attempt failed, and not because another unsnap is at work.
    Failed(FastbootError),
    /// The other unsnap was still at work after [`WAIT_MAX`]. The error names it.
    TooLong(FastbootError),
}

/// A wait for others.
pub struct Wait<'a> {
    /// Directories of the validator.
    pub places: &'a Places,
    /// Oldest slot of a state that is of use, which a daemon is told.
    pub oldest: u64,
}

impl Wait<'_> {
    /// Attempts something until no other unsnap is in the way, until `is_over`, or for
    /// [`WAIT_MAX`]. It is always attempted once. After that, it is attempted when the other one has
    /// ended or has a new result, not all the time.
    ///
    /// `say` is called once, with the one that is waited for. `attempt` is told whether it was waited
    /// for before.
    pub fn for_others<T>(
        &self,
        clock: &mut impl Clock,
        is_over: impl Fn() -> bool,
        say: impl FnOnce(&FastbootError),
        mut attempt: impl FnMut(bool) -> Result<T, FastbootError>,
    ) -> Result<T, Vain> {
        let calls = Syscalls::default();
        let (mut say, mut notice) = (Some(say), None);
        loop {
            // Before the attempt: what changes meanwhile is not missed.
            let before = Situation::look(&calls, self.places);
            let error = match attempt(say.is_none()) {
                Err(error @ FastbootError::Locked { .. }) => error,
                result => {
                    drop(notice);
                    return result.map_err(Vain::Failed);
                }
            };
            if is_over() {
                return Err(Vain::Failed(FastbootError::CANCELLED));
            }
            if let Some(say) = say.take() {
                say(&error);
                notice = self.put_up(&calls);
            }
            while !is_over() {
                if clock.rest() >= WAIT_MAX {
                    return Err(Vain::TooLong(error));
                }
                if Situation::look(&calls, self.places).is_better_than(&before) {
                    break;
                }
            }
        }
    }

    /// Tells daemons. Without the notice their jobs take longer, which is no reason to fail.
    fn put_up(&self, calls: &Syscalls) -> Option<WaitingNotice> {
        match WaitingNotice::put_up(calls, self.places, self.oldest) {
            Ok(notice) => Some(notice),
            Err(error) => {
                tracing::warn!(%error, "no daemon can see that this start waits");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
