//! Scheduling: carrying out the decisions of [`decide`] for each target.

use std::{
    num::NonZeroU32,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_control::protocol::{Event, Origin, Outcome};
use unsnap_fastboot::KnownBad;
use unsnap_pass::{CancelToken, Progress};

use super::{GLANCE_EVERY, Supervisor};
use crate::{
    archives::Now,
    plan::{Action, decide},
    state::{CancelReason, Running, State},
    target::{Sweep, Work},
};

impl Supervisor {
    /// Takes and carries out decisions for one target until it has to wait. Returns the time of the
    /// next decision, if there is one.
    pub(super) fn schedule(&mut self, index: usize, now: Now) -> Option<Instant> {
        let shared = self.shared.clone();
        let mut guard = shared.state();
        let state = &mut *guard;
        let supersede = state.config.settings.service.supersede;
        // The bound on the steps that `decide` takes.
        for _ in 0..state.targets[index].queue.len() + 4 {
            let target = &state.targets[index];
            let sweep_first = target.sweeping || (target.sweep_due && self.archives.known());
            let held = state.persistent.paused || state.stopping || sweep_first;
            match decide(&target.view(&state.pairs, supersede, held, now.instant)) {
                Action::Drop { job, superseded } => {
                    drop_job(state, index, job, superseded, now);
                }
                Action::Supersede(job) => {
                    let target = &mut state.targets[index];
                    tracing::info!(
                        job,
                        target = target.target.name,
                        "newer archives found; stopping the running job unless it is publishing"
                    );
                    if let Some(running) = &mut target.running {
                        running.end(CancelReason::Superseded);
                    }
                }
                Action::Queue(pair) => {
                    let file = |path: &_| Some((Path::to_owned(path), self.archives.file(path)?));
                    let files = pair.archives().filter_map(|archive| file(&archive.path)).collect();
                    state.queue(index, pair, files, Origin::Found, now);
                }
                Action::Start(job) => self.start(state, index, job, now),
                Action::Wait(until) => {
                    self.sweep(state, index);
                    return until;
                }
            }
        }
        Some(now.instant + GLANCE_EVERY)
    }

    /// Starts a sweep of the target between jobs. Waits until the archives have been scanned: they
    /// decide which interrupted runs will be resumed.
    fn sweep(&self, state: &mut State, index: usize) {
        let target = &mut state.targets[index];
        if !target.sweep_due
            || target.sweeping
            || target.running.is_some()
            || !self.archives.known()
        {
            return;
        }
        let spare = target.queue.iter().map(|job| job.pair.clone()).collect();
        let sweep = Sweep { target: target.target.clone(), results: target.results.clone(), spare };
        target.sweep_due = false;
        target.sweeping = self.workers[index].sweep(sweep);
    }

    fn start(&self, state: &mut State, index: usize, id: u64, now: Now) {
        let known_bad = state.persistent.bad.iter().map(|bad| KnownBad {
            path: bad.path.clone(),
            file: bad.file(),
            reason: bad.reason.clone(),
        });
        let known_bad = known_bad.collect();
        let Ok(mut unpacking) = state.config.unpacking() else { return };
        let pace = state.config.settings.neighbour.removal_files_per_second;
        unpacking.pass.neighbour.pace = Some(state.pace.clone());
        let target = &mut state.targets[index];
        let Some(job) = target.take(id) else { return };
        let (progress, cancel) = (Progress::default(), CancelToken::default());
        let work = Work {
            target: target.target.clone(),
            pair: job.pair.clone(),
            unpacking: Arc::new(unpacking),
            known_bad,
            removal_files_per_second: NonZeroU32::new(pace).unwrap_or(NonZeroU32::MAX),
            submitted: job.origin == Origin::Submitted,
            progress: progress.clone(),
            cancel: cancel.clone(),
        };
        tracing::info!(
            job = id, target = target.target.name, slot = job.slot(), attempt = job.attempt,
            archive = %job.pair.full().path.display(), "job started"
        );
        if !self.workers[index].begin(work) {
            tracing::error!(
                target = target.target.name,
                "cannot start a job: the target's worker thread has ended"
            );
            target.queue.push(job);
            return;
        }
        target.waits_for = None;
        let running = Running {
            job,
            since: now.instant,
            started_unix_ms: now.unix_ms(),
            last_change: (progress.snapshot(), now.instant),
            progress,
            cancel,
            cancel_reason: None,
        };
        state.events.push(Event::JobStarted { job: target.running_status(&running, now.instant) });
        target.running = Some(running);
    }
}

/// Removes a job from its queue for good.
fn drop_job(state: &mut State, index: usize, id: u64, superseded: bool, now: Now) {
    let Some(job) = state.targets[index].take(id) else { return };
    let outcome = if superseded { Outcome::Superseded } else { Outcome::Cancelled };
    let reason = if superseded {
        "newer archives replace it"
    } else {
        "its archives are gone, bad or no longer needed"
    };
    let name = &state.targets[index].target.name;
    tracing::info!(job = id, target = name, slot = job.slot(), reason, "queued job dropped");
    let message = (!superseded).then(|| reason.to_owned());
    state.record_end(index, &job, outcome, message, Duration::ZERO, now.instant);
    // Files left by an earlier attempt at the job are useless to other jobs.
    state.targets[index].sweep_due = true;
}
