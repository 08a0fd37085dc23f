//! Whether every stage moves, or is provably idle: what the watchdog is fed by.

use std::time::{Duration, Instant};

use unsnap_control::Heartbeat;

use crate::{
    state::{Running, State},
    target::Remover,
    watch::Watch,
};

/// A number that is watched for standing still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Still {
    number: u64,
    since: Instant,
}

impl Still {
    fn new(now: Instant) -> Self {
        Self { number: 0, since: now }
    }

    /// For how long it has been the same.
    fn at(&mut self, number: u64, now: Instant) -> Duration {
        if number != self.number {
            *self = Self { number, since: now };
        }
        now.saturating_duration_since(self.since)
    }
}

/// Remembers what stood where at the last look.
#[derive(Debug)]
pub struct Health {
    control: Still,
    removed: Still,
}

/// The stages that have threads of their own.
pub struct Stages<'a> {
    /// Watches directories.
    pub watch: &'a Watch,
    /// Talks to clients, if anybody listens.
    pub control: Option<&'a Heartbeat>,
    /// Removes old results.
    pub remover: &'a Remover,
}

impl Health {
    /// From now on.
    pub fn new(now: Instant) -> Self {
        Self { control: Still::new(now), removed: Still::new(now) }
    }

    /// Looks at everything. `Err` says which stage is stuck: it has been at one thing for longer than
    /// `stuck_after`.
    pub fn look(
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
            Err(format!("{what} has not moved for {} s", for_long.as_secs()))
        };
        let watching = stages.watch.busy_since().map(|since| now.saturating_duration_since(since));
        stuck("watching", watching.unwrap_or_default())?;
        if let Some(control) = stages.control {
            let beats = control.beats();
            let still = self.control.at(beats, now);
            stuck("control", if Heartbeat::idle_at(beats) { Duration::ZERO } else { still })?;
        }
        let (removing, removed) = stages.remover.progress();
        let still = self.removed.at(removed, now);
        if removing {
            stuck("removing", still)?;
        } else {
            self.removed.since = now;
        }
        for target in &mut state.targets {
            let Some(running) = &mut target.running else { continue };
            let still = stands_still(running, now);
            stuck(&format!("job {} of {}", running.job.id, target.target.name), still)?;
        }
        Ok(())
    }
}

/// For how long a job's counters and phase have been the same. The time for which it was paused, or
/// held back by the rate limit, is one of the counters: one that rests because somebody wants it to is
/// not stuck.
fn stands_still(running: &mut Running, now: Instant) -> Duration {
    let snapshot = running.progress.snapshot();
    if snapshot != running.stands.0 {
        running.stands = (snapshot, now);
    }
    now.saturating_duration_since(running.stands.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{archives::Now, testing};

    #[test]
    fn what_moves_is_not_still() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut still = Still::new(now);
        assert_eq!(still.at(0, now + second), second);
        assert_eq!(still.at(5, now + 2 * second), Duration::ZERO);
        assert_eq!(still.at(5, now + 9 * second), 7 * second);
        assert_eq!(still.at(6, now + 9 * second), Duration::ZERO);
    }

    #[test]
    fn a_job_whose_counters_stand_still_is_stuck_until_they_move() {
        let now = Now::get();
        let mut state = testing::at_work(now);
        let most = state.config.settings.service.stuck_after.0;
        let (watch, remover) = (Watch::start(|_| {}).unwrap(), Remover::start(0).unwrap());
        let stages = Stages { watch: &watch, control: None, remover: &remover };
        let mut health = Health::new(now.instant);
        let mut look = |state: &mut State, after| health.look(state, &stages, now.instant + after);
        look(&mut state, most / 2).unwrap();
        let stuck = look(&mut state, most).unwrap_err();
        assert_eq!(stuck, format!("job 7 of t has not moved for {} s", most.as_secs()));
        // One byte more than at the last look.
        let running = state.targets[0].running.as_mut().unwrap();
        running.stands.0.bytes_written += 1;
        look(&mut state, 2 * most).unwrap();
        look(&mut state, 3 * most).unwrap_err();
        // Nothing that runs, nothing that is stuck: the others are idle.
        state.targets[0].running = None;
        look(&mut state, 9 * most).unwrap();
    }
}
