//! How many workers a creator keeps busy: as many as its device can use.
//!
//! Throughput rises with the number of workers that wait for a device until the device, its
//! controller or a lock is busy, and from there on only the latency rises. That knee differs by a
//! factor of a hundred among disks, and nothing reports it: by `st_dev` an md stripe of eight disks
//! is one disk. The limiter finds it by experiment:
//!
//! ```text
//! windows:   base  trial  base  trial      the trial has 1.5 times as many workers, or 2/3
//!            └─────────┬────────┘
//!            throughput of the trial ÷ that of the base; in turns, so that a drift of the
//!            device's speed cancels out
//! ```
//!
//! The trial becomes the base if throughput^10 ÷ latency is larger there (the generalised power of
//! Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
//! communications", 1979). By Little's law that is so if the throughput grows by more than the tenth
//! root of the growth of the workers: 1.04 for 1.5. Experiments alternate between more and fewer,
//! and become rarer while none succeeds. Where both are equally fast, fewer win.
//!
//! Windows measure only while the device limits: while every worker has something to do and more
//! waits. The limiter makes no system calls and has no clock: its owner tells it what has passed.

use std::time::Duration;

/// Factor between two limits that are compared.
const STEP: f64 = 1.5;

/// Exponent of the change of throughput that a change of the limit must bring, the reciprocal of the
/// exponent of throughput in the power. A guess: 0 would accept any latency for any gain, 1 no
/// latency at all.
const ELASTICITY: f64 = 0.1;

/// Time that a window measures at least, and completions for each worker. A window of 100 ms holds
/// 100 files of 1 MB at 1 GB/s. Guesses.
const WINDOW_MIN: Duration = Duration::from_millis(100);
const COMPLETIONS_MIN: usize = 8;

/// Windows of an experiment: base, trial, base, trial.
const WINDOWS: usize = 4;

/// Mean time of an operation from which the limit is not raised: a pause and a cancellation wait
/// that long. A guess.
const LATENCY_MAX: Duration = Duration::from_millis(250);

/// Windows without an experiment after one that failed. They double with each failure, up to the
/// maximum: 3 s where windows are as short as they can be.
const REST_MIN: u32 = 2;
const REST_MAX: u32 = 32;

/// Bytes that an operation counts in addition to those that it transfers: creating a file takes
/// about as long as writing this much (25 µs at 2.5 GB/s).
const OPERATION_BYTES: u64 = 64 << 10;

/// Limits between which a creator adapts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub min: usize,
    pub start: usize,
    pub max: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Limiter {
    bounds: Bounds,
    /// Best limit so far.
    base: usize,
    /// Limit that is compared with it during an experiment.
    trial: Option<usize>,
    /// Throughputs of the experiment's windows so far.
    measured: Vec<f64>,
    window: Window,
    /// Whether the next experiment tries more workers.
    upwards: bool,
    /// Windows until the next experiment, and until the one after a failure.
    rest: u32,
    rest_next: u32,
    choices: u64,
}

/// What has been measured under the current limit.
#[derive(Debug, Default)]
struct Window {
    /// Completions that are to be ignored, because their operations began under another limit.
    ignored: usize,
    time: Duration,
    work: u64,
    completions: usize,
}

impl Limiter {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            base: bounds.start,
            trial: None,
            measured: Vec::with_capacity(WINDOWS),
            window: Window::default(),
            upwards: true,
            rest: 1,
            rest_next: REST_MIN,
            choices: 0,
        }
    }

    /// Returns the number of workers that may be busy now.
    pub fn limit(&self) -> usize {
        self.trial.filter(|_| self.measured.len() % 2 == 1).unwrap_or(self.base)
    }

    /// Returns the number of workers that has proved best so far.
    pub fn settled(&self) -> usize {
        self.base
    }

    /// Returns how often another number has proved better.
    pub fn choices(&self) -> u64 {
        self.choices
    }

    /// Records a time during which every worker was busy and more was waiting, the operations that
    /// completed at its end, and their bytes. Returns whether the limit has changed.
    pub fn was_full(&mut self, time: Duration, completions: usize, bytes: u64) -> bool {
        let before = self.limit();
        let window = &mut self.window;
        if window.ignored > 0 {
            window.ignored = window.ignored.saturating_sub(completions);
            return false;
        }
        window.time = window.time.saturating_add(time);
        window.completions = window.completions.saturating_add(completions);
        let work = bytes.saturating_add(OPERATION_BYTES.saturating_mul(completions as u64));
        window.work = window.work.saturating_add(work);
        if window.time < WINDOW_MIN || window.completions < COMPLETIONS_MIN * before {
            return false;
        }
        let Window { time, work, completions, .. } = std::mem::take(window);
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let throughput = work as f64 / time.as_secs_f64();
        // Little's law.
        let latency = time.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX))
            / u32::try_from(completions).unwrap_or(u32::MAX);
        self.end_window(throughput, latency);
        let changed = self.limit() != before;
        self.window.ignored = if changed { before } else { 0 };
        changed
    }

    fn end_window(&mut self, throughput: f64, latency: Duration) {
        let Some(trial) = self.trial else {
            self.rest = self.rest.saturating_sub(1);
            if self.rest == 0 {
                self.begin(throughput, latency);
            }
            return;
        };
        self.measured.push(throughput);
        if self.measured.len() < WINDOWS {
            return;
        }
        let of = |first: usize| self.measured.iter().skip(first).step_by(2).sum::<f64>();
        let gain = of(1) / of(0);
        #[allow(clippy::cast_precision_loss)] // small numbers
        let growth = trial as f64 / self.base as f64;
        (self.trial, self.rest) = (None, 1);
        if gain > growth.powf(ELASTICITY) {
            (self.base, self.rest_next) = (trial, REST_MIN);
            self.choices += 1;
        } else {
            self.upwards = !self.upwards;
            self.rest = self.rest_next;
            self.rest_next = (self.rest_next * 2).min(REST_MAX);
        }
    }

    /// Begins an experiment. The window that has just ended is its first.
    fn begin(&mut self, throughput: f64, latency: Duration) {
        self.upwards &= latency < LATENCY_MAX;
        let mut trial = self.step();
        if trial == self.base {
            self.upwards = !self.upwards;
            trial = self.step();
        }
        if trial == self.base || (self.upwards && latency >= LATENCY_MAX) {
            self.rest = REST_MAX;
            return;
        }
        self.trial = Some(trial);
        self.measured.clear();
        self.measured.push(throughput);
    }

    /// Returns the next limit in the current direction; the same one at the bound.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // small numbers
    #[allow(clippy::cast_sign_loss)]
    fn step(&self) -> usize {
        let Bounds { min, max, .. } = self.bounds;
        let base = self.base as f64;
        let next = if self.upwards { (base * STEP).ceil() } else { (base / STEP).floor() };
        (next as usize).clamp(min, max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { min: 2, start: 8, max: 64 };

    /// A device whose throughput grows with the workers up to a knee, at `each` operations of 1 MB a
    /// second for each worker, and changes by a share of `decline` for each worker above it.
    struct Device {
        knee: f64,
        each: f64,
        decline: f64,
    }

    impl Device {
        #[allow(clippy::cast_precision_loss)]
        fn rate(&self, workers: usize) -> f64 {
            let workers = workers as f64;
            let over = (workers - self.knee).max(0.0) / self.knee;
            workers.min(self.knee) * self.each / (1.0 + self.decline * over)
        }

        /// Runs the limiter for that many seconds. Every completion comes alone. Returns the share of
        /// the device's throughput that it had in the second half.
        fn run(&self, limiter: &mut Limiter, seconds: f64, noise: &[f64]) -> f64 {
            let (mut now, mut done) = (0.0, 0.0);
            let mut noise = noise.iter().cycle();
            while now < seconds {
                let rate = self.rate(limiter.limit()) * noise.next().unwrap_or(&1.0);
                limiter.was_full(Duration::from_secs_f64(1.0 / rate), 1, 1_000_000);
                now += 1.0 / rate;
                done += if now > seconds / 2.0 { 1.0 } else { 0.0 };
            }
            let best = (BOUNDS.min..=BOUNDS.max).map(|workers| self.rate(workers));
            done / (seconds / 2.0 * best.fold(0.0, f64::max))
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// From any start, on any device with a knee, with a throughput that varies by a fifth.
        #[test]
        fn it_finds_the_knee(
            knee in 2.0..60.0_f64,
            each in 20.0..500.0_f64,
            decline in 0.0..0.5_f64,
            start in 2_usize..=64,
            noise in proptest::collection::vec(0.8..1.2_f64, 97),
        ) {
            let device = Device { knee, each, decline };
            let mut limiter = Limiter::new(Bounds { start, ..BOUNDS });
            let share = device.run(&mut limiter, 30.0 + 1e5 / (each * knee), &noise);
            prop_assert!(share > 0.75, "{share} at {} for {knee}", limiter.settled());
            #[allow(clippy::cast_precision_loss)]
            let workers = limiter.settled() as f64;
            prop_assert!(workers > knee / 1.6 && workers < knee * 1.6 + 1.0, "{workers} for {knee}");
        }

        /// Whatever is measured, the limit stays within its bounds and moves by at most one step.
        #[test]
        fn it_stays_within_its_bounds(
            min in 1_usize..8, more in 0_usize..8, most in 0_usize..100,
            observed in proptest::collection::vec((any::<u64>(), 0_usize..1000, any::<u64>()), 0..300),
        ) {
            let bounds = Bounds { min, start: min + more, max: min + more + most };
            let mut limiter = Limiter::new(bounds);
            for (nanos, completions, bytes) in observed {
                let before = limiter.limit();
                let changed = limiter.was_full(Duration::from_nanos(nanos), completions, bytes);
                let now = limiter.limit();
                prop_assert_eq!(changed, before != now);
                prop_assert!((bounds.min..=bounds.max).contains(&now));
                prop_assert!(now * 2 <= before * 3 + 3 && before * 2 <= now * 3 + 3);
            }
        }
    }

    #[test]
    fn it_follows_a_device_that_changes() {
        let mut limiter = Limiter::new(BOUNDS);
        let device = |knee| Device { knee, each: 100.0, decline: 0.1 };
        for (knee, expected) in [(40.0, 27..=60), (4.0, 3..=6), (20.0, 14..=30)] {
            device(knee).run(&mut limiter, 500.0, &[]);
            assert!(expected.contains(&limiter.settled()), "{}", limiter.settled());
        }
    }

    #[test]
    fn it_is_not_raised_where_operations_take_long() {
        let mut limiter = Limiter::new(BOUNDS);
        // Three operations a second for each worker: more workers would help, but all wait 330 ms.
        let share = Device { knee: 50.0, each: 3.0, decline: 0.0 }.run(&mut limiter, 2000.0, &[]);
        assert_eq!(limiter.settled(), BOUNDS.start);
        assert!(share < 0.2);
    }
}
