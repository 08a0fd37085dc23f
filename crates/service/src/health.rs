//! Health check for the watchdog: every thread makes progress or is provably idle.

use std::time::{Duration, Instant};

use unsnap_control::Heartbeat;
use unsnap_pass::Phase;

use crate::{
    space::Housekeeper,
    state::{Running, State},
    target::Remover,
    watch::Watch,
};

/// A counter and the time of its last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StallTimer {
    number: u64,
    since: Instant,
}

impl StallTimer {
    fn new(now: Instant) -> Self {
        Self { number: 0, since: now }
    }

    /// Records the counter's value. Returns the time since its last change.
    fn record(&mut self, number: u64, now: Instant) -> Duration {
        if number != self.number {
            *self = Self { number, since: now };
        }
        now.saturating_duration_since(self.since)
    }
}

/// Counters at the last check.
#[derive(Debug)]
pub struct Health {
    control: StallTimer,
    removed: StallTimer,
}

/// The parts of the service with threads of their own, besides the workers.
pub struct Stages<'a> {
    /// Watcher of directories.
    pub watch: &'a Watch,
    /// Heartbeat of the control server, if it runs.
    pub control: Option<&'a Heartbeat>,
    /// Remover of old results.
    pub remover: &'a Remover,
    /// Housekeeper.
    pub housekeeper: &'a Housekeeper,
}

impl Health {
    /// Starts all timers.
    pub fn new(now: Instant) -> Self {
        Self { control: StallTimer::new(now), removed: StallTimer::new(now) }
    }

    /// Checks all threads. Returns the name of a stuck one in `Err`: it has made no progress for
    /// `stuck_after`.
    pub fn check(
        &mut self,
        state: &mut State,
        stages: &Stages<'_>,
        now: Instant,
    ) -> Result<(), String> {
        let most = state.config.settings.service.stuck_after.0;
        let stuck = |what: &str, for_long: Duration| {
            if for_long < most {
                return Ok(());
            }
            Err(format!("{what} has made no progress for {} s", for_long.as_secs()))
        };
        let watching = stages.watch.busy_since().map(|since| now.saturating_duration_since(since));
        stuck("the watcher of directories", watching.unwrap_or_default())?;
        let tidying = stages.housekeeper.busy_since();
        let tidying = tidying.map(|since| now.saturating_duration_since(since));
        stuck("the housekeeper", tidying.unwrap_or_default())?;
        if let Some(control) = stages.control {
            let beats = control.beats();
            let stalled = self.control.record(beats, now);
            stuck(
                "the control server",
                if Heartbeat::idle_at(beats) { Duration::ZERO } else { stalled },
            )?;
        }
        let (removing, removed) = stages.remover.progress();
        let stalled = self.removed.record(removed, now);
        if removing {
            stuck("the remover of old results", stalled)?;
        } else {
            self.removed.since = now;
        }
        for target in &mut state.targets {
            let Some(running) = &mut target.running else { continue };
            let stalled = stalled_for(running, now);
            stuck(&format!("job {} of {}", running.job.id, target.target.name), stalled)?;
        }
        Ok(())
    }
}

/// Returns the time since a job's counters or phase last changed. The time spent paused or delayed
/// by the rate limit is one of the counters, so such a job is not stuck.
///
/// Neither is one that waits for a sync, however long: the kernel counts nothing meanwhile, and a
/// process that is killed does not end before the sync does.
fn stalled_for(running: &mut Running, now: Instant) -> Duration {
    let snapshot = running.progress.snapshot();
    let syncs = matches!(snapshot.phase, Phase::Syncing | Phase::Publishing);
    if syncs || snapshot != running.last_change.0 {
        running.last_change = (snapshot, now);
    }
    now.saturating_duration_since(running.last_change.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{archives::Now, testing};

    #[test]
    fn a_counter_that_changes_is_not_stalled() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut stalled = StallTimer::new(now);
        assert_eq!(stalled.record(0, now + second), second);
        assert_eq!(stalled.record(5, now + 2 * second), Duration::ZERO);
        assert_eq!(stalled.record(5, now + 9 * second), 7 * second);
        assert_eq!(stalled.record(6, now + 9 * second), Duration::ZERO);
    }

    #[test]
    fn a_job_whose_counters_stand_still_is_stuck_until_they_move() {
        let now = Now::get();
        let mut state = testing::at_work(now);
        let most = state.config.settings.service.stuck_after.0;
        let (watch, remover) = (Watch::start(|_| {}).unwrap(), Remover::start(0).unwrap());
        let housekeeper = Housekeeper::start(|_| {}).unwrap();
        let stages =
            Stages { watch: &watch, control: None, remover: &remover, housekeeper: &housekeeper };
        let mut health = Health::new(now.instant);
        let mut look = |state: &mut State, after| health.check(state, &stages, now.instant + after);
        look(&mut state, most / 2).unwrap();
        let stuck = look(&mut state, most).unwrap_err();
        assert_eq!(stuck, format!("job 7 of t has made no progress for {} s", most.as_secs()));
        // One byte more than at the last check.
        let running = state.targets[0].running.as_mut().unwrap();
        running.last_change.0.bytes_written += 1;
        look(&mut state, 2 * most).unwrap();
        look(&mut state, 3 * most).unwrap_err();
        // A sync takes as long as the disk needs.
        let progress = state.targets[0].running.as_ref().unwrap().progress.clone();
        for phase in [Phase::Syncing, Phase::Publishing] {
            progress.enter(phase);
            look(&mut state, 5 * most).unwrap();
            look(&mut state, 7 * most).unwrap();
        }
        progress.enter(Phase::Unpacking);
        look(&mut state, 8 * most).unwrap();
        look(&mut state, 9 * most).unwrap_err();
        // No job runs, and the other threads are idle.
        state.targets[0].running = None;
        look(&mut state, 10 * most).unwrap();
    }
}
