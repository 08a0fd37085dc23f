//! Making way for the start of a validator.

use unsnap_fastboot::WaitingStart;
use unsnap_pass::Phase;
use unsnap_ring::Syscalls;

use super::Supervisor;
use crate::{
    config::TargetKind,
    state::{CancelReason, TargetState},
};

impl Supervisor {
    /// Looks whether the start of a validator waits for a target that has work, and hurries.
    pub(super) fn look_for_waiting(&self) {
        let places: Vec<_> = {
            let state = self.shared.state();
            let places = |target: &TargetState| match &target.target.kind {
                TargetKind::Fastboot { places, .. } => Some(places.clone()),
                TargetKind::Tree { .. } => None,
            };
            let has_work =
                |target: &TargetState| target.running.is_some() || !target.queue.is_empty();
            state.targets.iter().map(|target| places(target).filter(|_| has_work(target))).collect()
        };
        // The state is not locked while files are examined.
        let calls = Syscalls::default();
        let waiting = places.iter().map(|places| WaitingStart::look(&calls, places.as_ref()?));
        let waiting: Vec<Option<WaitingStart>> = waiting.collect();
        for (target, waiting) in self.shared.state().targets.iter_mut().zip(waiting) {
            target.is_waited_for = waiting.is_some();
            if let Some(start) = waiting {
                target.make_way(start);
            }
        }
    }
}

impl TargetState {
    /// Lifts the rate limit of the running job, so that it ends soon. A job that is paused, that only
    /// removes old files, or whose state would be too old for that start, ends instead: the next one
    /// goes on with that.
    fn make_way(&mut self, start: WaitingStart) {
        let Some(running) = &mut self.running else { return };
        if running.cancel_reason.is_some() {
            return;
        }
        let (job, target, snapshot) =
            (running.job.id, &self.target.name, running.progress.snapshot());
        let is_useless = running.job.slot() < start.oldest;
        if snapshot.paused || snapshot.phase == Phase::Removing || is_useless {
            tracing::info!(job, target, "a validator's start waits for the target; ending the job");
            running.end(CancelReason::Yielded);
        } else if !running.hurries {
            tracing::info!(
                job,
                target,
                rate_limit = snapshot.rate_limit,
                "a validator's start waits for this job; it goes on without its rate limit"
            );
            running.hurries = true;
            running.pace.set_rate(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::{archives::Now, testing};

    /// The running job's state is of use.
    const START: WaitingStart = WaitingStart { oldest: 5 };

    #[test]
    fn the_job_that_a_validators_start_waits_for_goes_on_without_its_rate_limit() {
        let mut state = testing::at_work(Now::get());
        let target = &mut state.targets[0];
        let pace = target.running.as_ref().unwrap().pace.clone();
        pace.set_rate(NonZeroU64::new(5));
        target.make_way(START);
        assert_eq!(pace.rate(), None);
        // Once.
        pace.set_rate(NonZeroU64::new(7));
        target.make_way(START);
        assert_eq!(pace.rate(), NonZeroU64::new(7));
        assert_eq!(target.running.as_ref().unwrap().cancel_reason, None);
    }

    #[test]
    fn a_job_that_is_paused_or_only_removes_old_files_makes_way() {
        for paused in [true, false] {
            let mut state = testing::at_work(Now::get());
            let target = &mut state.targets[0];
            let running = target.running.as_ref().unwrap();
            running.progress.reset(Some(&running.pace));
            if paused {
                running.pace.pause();
            } else {
                running.progress.enter(Phase::Removing);
            }
            target.make_way(START);
            let running = target.running.as_ref().unwrap();
            assert_eq!(running.cancel_reason, Some(CancelReason::Yielded));
            assert!(running.cancel.is_cancelled());
        }
    }
    #[test]
    fn a_job_whose_state_would_be_too_old_makes_way() {
        let mut state = testing::at_work(Now::get());
        let target = &mut state.targets[0];
        target.make_way(WaitingStart { oldest: 6 });
        let running = target.running.as_ref().unwrap();
        assert_eq!(running.cancel_reason, Some(CancelReason::Yielded));
    }
}
