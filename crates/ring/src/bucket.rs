//! A token bucket for each device that is written to.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::Pace;

/// What may be handed over to one device now, by all who share it: a token bucket that is kept as
/// the debt of what has been handed over and not been earned yet, so that single writes may be larger
/// than the bucket.
#[derive(Debug)]
pub struct Bucket {
    pace: Pace,
    debt: Mutex<Debt>,
}

/// Seconds' worth of bytes that may be owed, and still something is admitted. So over two seconds or more
/// the limit holds within 5 %, with pieces that are no larger ([`Bucket::piece_bytes`]).
const DEBT_SECONDS_MAX: f64 = 0.05;

/// Where the debt shall be before who was refused comes again: half of it, so that somebody with
/// small files is woken 40 times in a second and not once for each of them.
const DEBT_SECONDS_GOAL: f64 = DEBT_SECONDS_MAX / 2.0;

/// Bytes of a piece at the least: smaller ones cost more than they smooth. A guess.
const PIECE_BYTES_MIN: usize = 64 << 10;

#[derive(Debug, Default)]
struct Debt {
    bytes: f64,
    /// When it was that; `None` if nothing was ever owed.
    at: Option<Instant>,
}

/// Whether something may be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes, and it has been counted.
    Granted,
    /// Not before so long.
    Later(Duration),
    /// Not before a change ([`Pace::wake_on_change`]).
    Paused,
}

impl Bucket {
    /// For one device.
    pub fn new(pace: Pace) -> Self {
        Self { pace, debt: Mutex::default() }
    }

    /// Asks to hand over so many bytes; 0 for what only pauses hold up.
    pub fn admit(&self, bytes: u64) -> Admission {
        match self.pace.limit() {
            None => Admission::Paused,
            Some(0) => Admission::Granted,
            Some(_) if bytes == 0 => Admission::Granted,
            Some(rate) => self.admit_at(bytes, rate, Instant::now()),
        }
    }

    #[allow(clippy::cast_precision_loss)] // rates and sizes are far below 2^53
    fn admit_at(&self, bytes: u64, rate: u64, now: Instant) -> Admission {
        let rate = rate as f64;
        let mut debt = self.debt.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = debt.at.map_or(0.0, |at| (now.saturating_duration_since(at)).as_secs_f64());
        debt.bytes = (debt.bytes - earned * rate).max(0.0);
        debt.at = Some(now);
        if debt.bytes > rate * DEBT_SECONDS_MAX {
            let seconds = debt.bytes / rate - DEBT_SECONDS_GOAL;
            // No matter how small the rate: who waits asks again.
            return Admission::Later(Duration::from_secs_f64(seconds.min(3600.0)));
        }
        debt.bytes += bytes as f64;
        Admission::Granted
    }

    /// What one write should hold at most, so that writing is smooth: a twentieth of a second's worth,
    /// a multiple of 64 KiB; `None` without a limit.
    pub fn piece_bytes(pace: &Pace) -> Option<usize> {
        let rate = usize::try_from(pace.rate()?.get() / 20).unwrap_or(usize::MAX);
        Some((rate - rate % PIECE_BYTES_MIN).max(PIECE_BYTES_MIN))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    const MB: u64 = 1_000_000;

    fn limited(rate: u64) -> (Pace, Bucket) {
        let pace = Pace::new();
        pace.set_rate(NonZeroU64::new(rate));
        (pace.clone(), Bucket::new(pace))
    }

    /// Hands over writes of so many bytes for ten seconds as fast as it may, coming back `late`
    /// whenever it had to wait. Gives the bytes of each window of two seconds.
    fn windows(bytes: u64, rate: u64, late: Duration) -> Vec<u64> {
        let (_, bucket) = limited(rate);
        let start = Instant::now();
        let (mut now, mut admitted) = (start, Vec::new());
        while now - start < Duration::from_secs(10) {
            match bucket.admit_at(bytes, rate, now) {
                Admission::Granted => admitted.push(now - start),
                Admission::Later(time) => now += time + late,
                Admission::Paused => unreachable!(),
            }
        }
        let window = |from: u64| {
            let (from, to) = (Duration::from_millis(from), Duration::from_millis(from + 2000));
            bytes * admitted.iter().filter(|at| (from..to).contains(*at)).count() as u64
        };
        (0..8000).step_by(100).map(window).collect()
    }

    #[test]
    fn the_limit_holds_within_ten_percent_over_any_two_seconds() {
        for (bytes, late_ms) in [(4096, 0), (4096, 3), (MB, 0), (MB, 20), (100_000, 1)] {
            for window in windows(bytes, 20 * MB, Duration::from_millis(late_ms)) {
                let of_limit = window * 100 / (40 * MB);
                assert!((90..=110).contains(&of_limit), "{bytes} bytes: {of_limit} %");
            }
        }
    }

    #[test]
    fn what_is_larger_than_the_bucket_is_owed() {
        let (_, bucket) = limited(MB);
        let start = Instant::now();
        assert_eq!(bucket.admit_at(4 * MB, MB, start), Admission::Granted);
        let Admission::Later(time) = bucket.admit_at(1, MB, start) else { panic!() };
        assert_eq!(time, Duration::from_millis(3975));
        assert_eq!(bucket.admit_at(1, MB, start + time), Admission::Granted);
        // At four times the rate it is paid four times as fast.
        let (_, bucket) = limited(MB);
        assert_eq!(bucket.admit_at(4 * MB, MB, start), Admission::Granted);
        let Admission::Later(time) = bucket.admit_at(1, 4 * MB, start) else { panic!() };
        assert_eq!(time, Duration::from_millis(975));
    }

    #[test]
    fn what_is_not_used_is_not_saved() {
        let (_, bucket) = limited(MB);
        let start = Instant::now();
        assert_eq!(bucket.admit_at(1, MB, start), Admission::Granted);
        let later = start + Duration::from_secs(100);
        assert_eq!(bucket.admit_at(MB, MB, later), Admission::Granted);
        assert!(matches!(bucket.admit_at(1, MB, later), Admission::Later(_)));
    }

    #[test]
    fn without_a_limit_everything_is_granted_and_nothing_owed() {
        let (pace, bucket) = limited(1);
        assert_eq!(bucket.admit(MB), Admission::Granted);
        assert!(matches!(bucket.admit(1), Admission::Later(_)));
        assert_eq!(bucket.admit(0), Admission::Granted);
        pace.set_rate(None);
        assert_eq!(bucket.admit(u64::MAX), Admission::Granted);
        pace.pause();
        assert_eq!((bucket.admit(0), bucket.admit(1)), (Admission::Paused, Admission::Paused));
        // The limit outlives a pause, and can be changed in it.
        pace.set_rate(NonZeroU64::new(7));
        assert!(pace.is_paused());
        pace.resume();
        assert_eq!(pace.rate(), NonZeroU64::new(7));
    }

    #[test]
    fn writes_are_cut_by_the_rate() {
        let of = |rate| {
            let pace = Pace::new();
            pace.set_rate(NonZeroU64::new(rate));
            Bucket::piece_bytes(&pace)
        };
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(PIECE_BYTES_MIN));
        assert_eq!(of(20 << 20), Some(1 << 20));
        assert_eq!(of(u64::MAX).map(|bytes| bytes % PIECE_BYTES_MIN), Some(0));
    }
}
