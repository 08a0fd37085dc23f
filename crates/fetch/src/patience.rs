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
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(15),
            give_up: Duration::from_mins(10),
        }
    }
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
