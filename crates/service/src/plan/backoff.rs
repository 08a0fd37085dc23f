//! When what has failed is tried again.

use std::time::{Duration, Instant};

/// How the waits grow: twice as long after each failure. Without jitter, since one daemon's disk is
/// nobody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub most: Duration,
}

impl Backoff {
    /// The wait after so many failures in a row.
    pub fn after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// Failures in a row, and when to try again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// In a row.
    pub failures: u32,
    /// Nothing before this.
    pub until: Option<Instant>,
}

impl Clock {
    /// Counts a failure.
    pub fn failed(&mut self, backoff: Backoff, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + backoff.after(self.failures));
    }

    /// Whether the time has come.
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
        let mut clock = Clock::default();
        let now = Instant::now();
        assert!(clock.is_due(now));
        clock.failed(backoff, now);
        clock.failed(backoff, now);
        assert!(!clock.is_due(now + seconds(59)));
        assert!(clock.is_due(now + seconds(60)));
    }
}
