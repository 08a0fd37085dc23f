//! Whether to go on with a server, or to begin anew at another one: a plain state machine, to which
//! the clock is passed.
//!
//! Two nodes' archives of one name differ in their bytes, so nothing of what has come is of use for
//! another one. Leaving a server pays if the rest takes longer than everything from elsewhere.

use std::{collections::VecDeque, time::Duration};

use crate::race::{Contest, rate};

/// The other servers, and what is known of the rate of this one. Times are counted from the beginning.
#[derive(Debug)]
pub struct Course {
    contest: Contest,
    total: u64,
    /// Bytes that had come at first.
    begun: u64,
    /// Rates of the other servers; `None` for one that sends the archive no more.
    rivals: Vec<Option<u64>>,
    /// Bytes received and time waited for them, so far, at several times.
    samples: VecDeque<(u64, Duration)>,
    measured: u32,
    /// Earliest time of the next measurement.
    next: Duration,
    has_left: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    GoOn,
    /// Measure the rate of this other server, and tell it by [`Course::measured`].
    Measure(usize),
    /// Begin anew: another server is so much faster that it pays.
    Leave {
        /// The other server.
        rival: usize,
        /// Rate of this server in bytes per second.
        rate: u64,
        /// Rate of the other one.
        rival_rate: u64,
    },
}

/// How many times as long as everything from elsewhere the rest must take. Rates change.
const MARGIN: (u128, u128) = (5, 4);

/// Most samples of a rate.
const SAMPLES_MAX: usize = 64;

impl Course {
    /// Creates the state for an archive of `total` bytes of which `begun` have come, and for other
    /// servers of these rates.
    pub fn new(total: u64, begun: u64, rivals: Vec<Option<u64>>, contest: Contest) -> Self {
        Self {
            contest,
            total,
            begun,
            rivals,
            samples: VecDeque::from([(0, Duration::ZERO)]),
            measured: 0,
            next: Duration::ZERO,
            has_left: false,
        }
    }

    /// Says what is to be done, after `bytes` have been received in all and were waited for so long.
    pub fn step(&mut self, bytes: u64, waited: Duration, now: Duration) -> Step {
        self.sample(bytes, waited);
        if self.has_left || now < self.next || self.measured >= self.contest.measurements {
            return Step::GoOn;
        }
        let Some(rate) = self.rate() else { return Step::GoOn };
        match self.best() {
            Some((rival, rival_rate)) if self.pays(bytes, rate, rival_rate) => Step::Measure(rival),
            _ => Step::GoOn,
        }
    }

    /// The rate of another server has been measured; `None` if it does not send the archive.
    pub fn measured(&mut self, rival: usize, measured: Option<u64>, now: Duration) -> Step {
        let doubled = 1_u32.checked_shl(self.measured).unwrap_or(u32::MAX);
        self.measured = self.measured.saturating_add(1);
        self.next = now.saturating_add(self.contest.measure_every.saturating_mul(doubled));
        let Some(known) = self.rivals.get_mut(rival) else { return Step::GoOn };
        *known = measured;
        let (bytes, _) = self.samples.back().copied().unwrap_or_default();
        match (self.rate(), measured) {
            (Some(rate), Some(rival_rate))
                if !self.has_left && self.pays(bytes, rate, rival_rate) =>
            {
                self.has_left = true;
                Step::Leave { rival, rate, rival_rate }
            }
            _ => Step::GoOn,
        }
    }

    /// Keeps samples for the time in which a rate is judged.
    fn sample(&mut self, bytes: u64, waited: Duration) {
        let apart = self.contest.judged_after / 16;
        let is_next = self.samples.back().is_none_or(|(_, last)| waited >= *last + apart);
        if is_next {
            self.samples.push_back((bytes, waited));
        }
        let begin = waited.saturating_sub(self.contest.judged_after);
        while self.samples.len() > SAMPLES_MAX
            || self.samples.get(1).is_some_and(|(_, second)| *second <= begin)
        {
            self.samples.pop_front();
        }
    }

    /// Returns the rate of late in bytes per second, if it has been waited for long enough.
    fn rate(&self) -> Option<u64> {
        let (&(from, begin), &(to, end)) = (self.samples.front()?, self.samples.back()?);
        let waited = end.checked_sub(begin)?;
        (waited >= self.contest.judged_after * 3 / 4).then(|| rate(to - from, waited))
    }

    /// Returns the fastest other server.
    fn best(&self) -> Option<(usize, u64)> {
        let known = self.rivals.iter().enumerate().rev();
        known.filter_map(|(rival, rate)| Some((rival, (*rate)?))).max_by_key(|(_, rate)| *rate)
    }

    fn pays(&self, bytes: u64, rate: u64, rival_rate: u64) -> bool {
        let left = self.total.saturating_sub(self.begun.saturating_add(bytes));
        let time = |bytes: u64, rate: u64| u128::from(bytes) * 1000 / u128::from(rate.max(1));
        let (rest, anew) = (time(left, rate), time(self.total, rival_rate));
        rest > (anew + self.contest.restart.as_millis()) * MARGIN.0 / MARGIN.1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const GB: u64 = 1_000_000_000;

    /// Receives at a rate for so many seconds, and returns the first step that is to be done.
    fn run(course: &mut Course, from: (u64, u32), rate: u64, seconds: u32) -> Step {
        let mut steps = (1..=seconds).map(|second| {
            let now = SECOND * (from.1 + second);
            course.step(from.0 + u64::from(second) * rate, now, now)
        });
        steps.find(|step| *step != Step::GoOn).unwrap_or(Step::GoOn)
    }

    #[test]
    fn a_server_is_left_if_the_rest_takes_longer_than_everything_from_elsewhere() {
        // 100 GB: 1000 s elsewhere, and 10,000 s here.
        let rivals = vec![Some(50_000_000), Some(100_000_000)];
        let mut course = Course::new(100 * GB, 0, rivals, Contest::default());
        assert_eq!(run(&mut course, (0, 0), 10_000_000, 7), Step::GoOn, "too early to tell");
        assert_eq!(run(&mut course, (70_000_000, 7), 10_000_000, 5), Step::Measure(1));
        let left = Step::Leave { rival: 1, rate: 10_000_000, rival_rate: 80_000_000 };
        assert_eq!(course.measured(1, Some(80_000_000), 12 * SECOND), left);
        // Once.
        assert_eq!(run(&mut course, (GB, 12), 1, 10_000), Step::GoOn);
    }

    #[test]
    fn near_the_end_it_does_not_pay() {
        let mut course =
            Course::new(100 * GB, 95 * GB, vec![Some(100_000_000)], Contest::default());
        assert_eq!(run(&mut course, (0, 0), 10_000_000, 60), Step::GoOn);
        // But at a tenth of that.
        assert_eq!(run(&mut course, (600_000_000, 60), 1_000_000, 60), Step::Measure(0));
    }

    #[test]
    fn a_rival_that_is_slow_by_now_is_not_taken_and_measured_ever_less() {
        let contest = Contest::default();
        let mut course = Course::new(100 * GB, 0, vec![Some(100_000_000)], contest);
        let mut measured = Vec::new();
        for second in 1..10_000 {
            let now = SECOND * second;
            if let Step::Measure(0) = course.step(u64::from(second) * 1_000_000, now, now) {
                measured.push(second);
                let rate = 1_100_000;
                assert_eq!(course.measured(0, Some(rate), now), Step::GoOn);
                // It was faster before the race.
                course.rivals[0] = Some(100_000_000);
            }
        }
        assert_eq!(measured.len(), 5);
        assert!(measured.windows(2).all(|two| two[1] - two[0] >= 30), "{measured:?}");
        // One that is gone.
        let mut course = Course::new(100 * GB, 0, vec![Some(GB)], contest);
        assert_eq!(run(&mut course, (0, 0), 1, 20), Step::Measure(0));
        assert_eq!(course.measured(0, None, 20 * SECOND), Step::GoOn);
        assert_eq!(run(&mut course, (20, 20), 1, 1000), Step::GoOn);
    }

    #[test]
    fn who_does_not_wait_for_bytes_leaves_nobody() {
        let mut course = Course::new(100 * GB, 0, vec![Some(GB)], Contest::default());
        for second in 1..1000_u32 {
            // The decoder takes a megabyte a second, which has long been there.
            let step = course.step(u64::from(second) * 1_000_000, SECOND / 100, SECOND * second);
            assert_eq!(step, Step::GoOn);
        }
    }

    proptest! {
        /// However rates change: it is left once at most, only after a measurement and if that pays;
        /// measurements and samples are bounded.
        #[test]
        fn leaving_pays_happens_once_and_costs_little(
            total in 1..200 * GB,
            rivals in prop::collection::vec(prop::option::of(1..200_000_000_u64), 0..5),
            rates in prop::collection::vec((0..200_000_000_u64, 1..60_u32), 1..40),
            found in prop::collection::vec(prop::option::of(1..200_000_000_u64), 1..6),
        ) {
            let contest = Contest::default();
            let mut course = Course::new(total, 0, rivals.clone(), contest);
            let (mut bytes, mut now, mut measurements, mut left) = (0_u64, Duration::ZERO, 0, 0);
            for (rate, seconds) in rates {
                for _ in 0..seconds {
                    bytes = (bytes + rate).min(total);
                    now += SECOND;
                    let step = course.step(bytes, now, now);
                    prop_assert!(course.samples.len() <= SAMPLES_MAX);
                    let Step::Measure(rival) = step else {
                        prop_assert_eq!(step, Step::GoOn);
                        continue;
                    };
                    prop_assert!(rivals[rival].is_some());
                    let measured = found[measurements % found.len()];
                    measurements += 1;
                    match course.measured(rival, measured, now) {
                        Step::GoOn => {}
                        Step::Measure(_) => prop_assert!(false, "two in a row"),
                        Step::Leave { rate, rival_rate, .. } => {
                            left += 1;
                            prop_assert_eq!(Some(rival_rate), measured);
                            // The rest here takes longer than everything there.
                            let here = u128::from(total - bytes) * u128::from(rival_rate);
                            prop_assert!(here > u128::from(total) * u128::from(rate));
                        }
                    }
                }
            }
            prop_assert!(left <= 1 && measurements <= 5);
        }

        /// A server as fast as the others is never left.
        #[test]
        fn equal_servers_are_not_exchanged(rate in 1_000..1_000_000_000_u64, total in 1..200 * GB) {
            let mut course = Course::new(total, 0, vec![Some(rate); 3], Contest::default());
            prop_assert_eq!(run(&mut course, (0, 0), rate, 500), Step::GoOn);
        }
    }
}
