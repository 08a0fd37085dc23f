//! How long to wait, and when to try again.

use std::time::Duration;

/// Times after which a server is given up. All of them are guesses, made for servers on other
/// continents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Longest time for a connection, including TLS.
    pub connect: Duration,
    /// Longest time from a request to the whole head of its answer.
    pub head: Duration,
    /// Longest silence within a body.
    pub silence: Duration,
    /// Time spent waiting for a body after which its rate is judged.
    pub judged_after: Duration,
    /// Least rate of a body, in bytes per second. A connection that is slower counts as broken, and so
    /// brings nothing new: otherwise a server could hold up a run for ever with a byte now and then.
    pub slowest: u64,
    /// Wait before the first repetition. Each further one waits twice as long.
    pub first_wait: Duration,
    /// Longest wait between two attempts.
    pub longest_wait: Duration,
    /// Time without any new byte after which nothing is tried again.
    pub give_up: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            head: Duration::from_secs(30),
            silence: Duration::from_secs(15),
            judged_after: Duration::from_secs(15),
            slowest: 16 << 10,
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(15),
            give_up: Duration::from_mins(10),
        }
    }
}

/// Rate of a body, by the time that a connection was waited for. The time in which nobody asked it for
/// bytes does not count.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    waited: Duration,
    bytes: u64,
}

impl Rate {
    /// Counts bytes that came after a wait. Returns the bytes and the time if they were too few.
    pub fn count(&mut self, patience: &Patience, waited: Duration, bytes: usize) -> Option<Slow> {
        self.waited = self.waited.saturating_add(waited);
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.waited < patience.judged_after {
            return None;
        }
        let Self { waited, bytes } = std::mem::take(self);
        let least = u128::from(patience.slowest) * waited.as_millis() / 1000;
        (u128::from(bytes) < least).then_some(Slow { waited, bytes })
    }
}

/// A body that is too slow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slow {
    pub waited: Duration,
    pub bytes: u64,
}

/// Attempts in a row without a new byte.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failed: u32,
    waited: Duration,
}

impl Attempts {
    /// A byte has arrived that had not arrived before.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// An attempt has failed, after this time. Returns how long to wait before the next one; `None`
    /// if there is to be none.
    pub fn failed(&mut self, patience: &Patience, took: Duration) -> Option<Duration> {
        let doubled = 1_u32.checked_shl(self.failed).unwrap_or(u32::MAX);
        let wait = patience.first_wait.saturating_mul(doubled).min(patience.longest_wait);
        self.failed = self.failed.saturating_add(1);
        self.waited = self.waited.saturating_add(took).saturating_add(wait);
        (self.waited <= patience.give_up).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rate_below_the_floor_for_long_is_too_slow() {
        let second = Duration::from_secs(1);
        let patience = Patience { judged_after: 3 * second, slowest: 100, ..Patience::default() };
        let mut rate = Rate::default();
        // Nobody waited for it.
        assert_eq!(rate.count(&patience, Duration::ZERO, 1), None);
        assert_eq!(rate.count(&patience, 2 * second, 1), None);
        assert_eq!(rate.count(&patience, second, 1), Some(Slow { waited: 3 * second, bytes: 3 }));
        // It is judged anew.
        assert_eq!(rate.count(&patience, second, 299), None);
        assert_eq!(rate.count(&patience, 2 * second, 1), None);
        assert_eq!(
            rate.count(&patience, 4 * second, 399),
            Some(Slow { waited: 4 * second, bytes: 399 })
        );
        let never = Patience { slowest: 0, ..patience };
        assert_eq!(rate.count(&never, 100 * second, 0), None);
    }

    #[test]
    fn waits_double_up_to_a_limit_and_end() {
        let patience = Patience {
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(5),
            give_up: Duration::from_secs(30),
            ..Patience::default()
        };
        let mut attempts = Attempts::default();
        let mut waits =
            || attempts.failed(&patience, Duration::from_secs(1)).map(|wait| wait.as_secs());
        let all: Vec<_> = std::iter::from_fn(&mut waits).collect();
        // With a second for each attempt: 2 + 3 + 5 + 6 + 6 + 6 = 28.
        assert_eq!(all, [1, 2, 4, 5, 5, 5]);
        attempts.succeeded();
        assert_eq!(attempts.failed(&patience, Duration::ZERO), Some(Duration::from_secs(1)));
        // However many.
        let patience = Patience { give_up: Duration::MAX, ..patience };
        for _ in 0..100 {
            assert!(attempts.failed(&patience, Duration::ZERO).is_some());
        }
    }
}
