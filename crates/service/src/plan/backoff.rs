//! Retry timers with exponential backoff.

use std::time::{Duration, Instant};

/// Parameters of the backoff: the delay doubles with each failure. There is no jitter, since no
/// other daemon retries on the same disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Longest delay.
    pub most: Duration,
}

impl Backoff {
    /// Returns the delay after this number of consecutive failures.
    pub fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// Count of consecutive failures and the time of the next attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryTimer {
    /// Number of consecutive failures.
    pub failures: u32,
    /// Earliest time of the next attempt.
    pub until: Option<Instant>,
}

impl RetryTimer {
    /// Counts a failure and sets the time of the next attempt.
    pub fn failed(&mut self, backoff: Backoff, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + backoff.after(self.failures));
    }

    /// Returns whether an attempt is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most() {
        let seconds = Duration::from_secs;
        let backoff = Backoff { first: seconds(30), most: seconds(3600) };
        let waits: Vec<u64> = (0..10).map(|failures| backoff.after(failures).as_secs()).collect();
        assert_eq!(waits, [30, 30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(backoff.after(u32::MAX), seconds(3600));
        let mut timer = RetryTimer::default();
        let now = Instant::now();
        assert!(timer.is_due(now));
        timer.failed(backoff, now);
        timer.failed(backoff, now);
        assert!(!timer.is_due(now + seconds(59)));
        assert!(timer.is_due(now + seconds(60)));
    }
}
