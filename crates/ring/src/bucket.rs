//! Token bucket that limits the write rate of one device.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::Pace;

/// Token bucket for the writes to one device, shared by all its writers.
///
/// It is kept as a debt: the bytes that were admitted but not yet earned at the current rate. So a
/// single write may be larger than the bucket.
#[derive(Debug)]
pub struct Bucket {
    pace: Pace,
    debt: Mutex<Debt>,
}

/// Largest debt at which a write is still admitted, in seconds at the current rate. Over two
/// seconds or more the limit therefore holds within 5 %, if no write is larger than
/// [`Bucket::piece_bytes`].
const DEBT_SECONDS_MAX: f64 = 0.05;

/// Debt at which a refused writer asks again, in seconds: half of the maximum, so that a writer of
/// small files wakes 40 times a second and not once for each file.
const DEBT_SECONDS_GOAL: f64 = DEBT_SECONDS_MAX / 2.0;

/// Smallest piece in bytes. Smaller pieces cost more than they smooth. A guess.
const PIECE_BYTES_MIN: usize = 64 << 10;

#[derive(Debug, Default)]
struct Debt {
    bytes: f64,
    /// Time at which `bytes` was computed; `None` before the first write.
    at: Option<Instant>,
}

/// Answer to a request to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The write may begin and has been counted.
    Granted,
    /// Ask again after this time.
    Later(Duration),
    /// The run is paused. Ask again after a change ([`Pace::wake_on_change`]).
    Paused,
}

impl Bucket {
    /// Creates a bucket for one device.
    pub fn new(pace: Pace) -> Self {
        Self { pace, debt: Mutex::default() }
    }

    /// Asks to write `bytes`. A request for 0 bytes is held back only by a pause.
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
            // However low the rate is, the writer asks again within an hour.
            return Admission::Later(Duration::from_secs_f64(seconds.min(3600.0)));
        }
        debt.bytes += bytes as f64;
        Admission::Granted
    }

    /// Returns the largest size of a write in bytes that keeps the flow smooth: the bytes of a
    /// twentieth of a second, rounded down to a multiple of 64 KiB, at least 64 KiB. `None` without
    /// a limit.
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

    /// Requests writes of `bytes` as fast as admitted for ten seconds and asks again `late` after
    /// each waiting time. Returns the bytes admitted in each window of two seconds.
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
    fn a_write_larger_than_the_bucket_becomes_debt() {
        let (_, bucket) = limited(MB);
        let start = Instant::now();
        assert_eq!(bucket.admit_at(4 * MB, MB, start), Admission::Granted);
        let Admission::Later(time) = bucket.admit_at(1, MB, start) else { panic!() };
        assert_eq!(time, Duration::from_millis(3975));
        assert_eq!(bucket.admit_at(1, MB, start + time), Admission::Granted);
        // At four times the rate the debt shrinks four times as fast.
        let (_, bucket) = limited(MB);
        assert_eq!(bucket.admit_at(4 * MB, MB, start), Admission::Granted);
        let Admission::Later(time) = bucket.admit_at(1, 4 * MB, start) else { panic!() };
        assert_eq!(time, Duration::from_millis(975));
    }

    #[test]
    fn unused_rate_is_not_saved() {
        let (_, bucket) = limited(MB);
        let start = Instant::now();
        assert_eq!(bucket.admit_at(1, MB, start), Admission::Granted);
        let later = start + Duration::from_secs(100);
        assert_eq!(bucket.admit_at(MB, MB, later), Admission::Granted);
        assert!(matches!(bucket.admit_at(1, MB, later), Admission::Later(_)));
    }

    #[test]
    fn without_a_limit_everything_is_granted_without_debt() {
        let (pace, bucket) = limited(1);
        assert_eq!(bucket.admit(MB), Admission::Granted);
        assert!(matches!(bucket.admit(1), Admission::Later(_)));
        assert_eq!(bucket.admit(0), Admission::Granted);
        pace.set_rate(None);
        assert_eq!(bucket.admit(u64::MAX), Admission::Granted);
        pace.pause();
        assert_eq!((bucket.admit(0), bucket.admit(1)), (Admission::Paused, Admission::Paused));
        // The limit survives a pause and can be changed during it.
        pace.set_rate(NonZeroU64::new(7));
        assert!(pace.is_paused());
        pace.resume();
        assert_eq!(pace.rate(), NonZeroU64::new(7));
    }

    #[test]
    fn the_piece_size_follows_the_rate() {
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
