//! Scheduling: carrying out the decisions of [`decide`] for each target.

use std::{
    collections::BTreeSet,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_control::protocol::{Event, Origin, Outcome};
use unsnap_fastboot::KnownBad;
use unsnap_pass::{CancelToken, Pace, Progress};

use super::{GLANCE_EVERY, Supervisor};
use crate::{
    archives::Now,
    meter::Meter,
    persistent::PersistentState,
    plan::{Action, decide},
    state::{CancelReason, Chore, End, Running, State, TargetState},
    target::{Adoption, Found, Sweep, Work},
};

impl Supervisor {
    /// Takes and carries out decisions for one target until it has to wait. Returns the time of the
    /// next decision, if there is one.
    pub(super) fn schedule(&mut self, index: usize, now: Now) -> Option<Instant> {
        let shared = self.shared.clone();
        let mut guard = shared.state();
        let state = &mut *guard;
        let Ok(cadence) = state.config.cadence() else { return None };
        let (remover, target) = (&self.remover, &mut state.targets[index]);
        target.leftovers.retain(|path, _| remover.is_pending(path));
        let is_adopting = self.adopt(state, index, now);
        // The bound on the steps that `decide` takes.
        for _ in 0..state.targets[index].queue.len() + 4 {
            let target = &state.targets[index];
            let sweep_first = target.is_sweeping() || (target.sweep_due && self.archives.known());
            let held = state.persistent.paused
                || state.stopping
                || sweep_first
                || is_adopting
                || target.is_waited_for
                || target.has_too_many_leftovers();
            match decide(&state.view(index, &cadence, held, now)) {
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
                    let target = &state.targets[index];
                    // Nobody tells that leftovers are gone, or that nobody waits any more.
                    let is_held = target.is_waited_for || target.has_too_many_leftovers();
                    let glance =
                        (is_held && !target.queue.is_empty()).then_some(now.instant + GLANCE_EVERY);
                    return until.into_iter().chain(glance).min();
                }
            }
        }
        Some(now.instant + GLANCE_EVERY)
    }

    /// Starts a sweep of the target between jobs. Waits until the archives have been scanned: they
    /// decide which interrupted runs will be resumed.
    fn sweep(&self, state: &mut State, index: usize) {
        let target = &mut state.targets[index];
        if !target.sweep_due || target.is_busy() || !self.archives.known() {
            return;
        }
        let sweep = Sweep {
            target: target.target.clone(),
            results: target.results.clone(),
            spare: target.queue.iter().map(|job| job.pair.clone()).collect(),
            kept: kept(&state.persistent, &target.results),
        };
        target.sweep_due = false;
        target.chore = self.workers[index].sweep(sweep).then_some(Chore::Sweep);
    }

    /// Starts to adopt a ready state, if there is one. Returns whether that is under way.
    fn adopt(&self, state: &mut State, index: usize, now: Now) -> bool {
        let target = &state.targets[index];
        let may_begin = target.adoption.due
            && target.adoption.timer.is_due(now.instant)
            && !target.is_busy()
            && !state.persistent.paused
            && !state.stopping;
        if may_begin && let Ok(unpacking) = state.config.unpacking() {
            let pace = state.config.settings.neighbour.removal_files_per_second;
            let adoption = Adoption {
                target: target.target.clone(),
                unpacking: Arc::new(unpacking),
                removal_files_per_second: NonZeroU32::new(pace).unwrap_or(NonZeroU32::MAX),
            };
            let is_begun = self.workers[index].adopt(adoption);
            state.targets[index].chore = is_begun.then_some(Chore::Adoption);
        }
        state.targets[index].chore == Some(Chore::Adoption)
    }

    fn start(&self, state: &mut State, index: usize, id: u64, now: Now) {
        let known_bad = state.persistent.bad.iter().map(|bad| KnownBad {
            path: bad.path.clone(),
            file: bad.file(),
            reason: bad.reason.clone(),
        });
        let known_bad = known_bad.collect();
        let Ok(mut unpacking) = state.config.unpacking() else { return };
        let removal_pace = state.config.settings.neighbour.removal_files_per_second;
        let pace = Pace::new();
        pace.set_rate(state.config.rate_limit());
        unpacking.pass.neighbour.pace = Some(pace.clone());
        let made_from = state.persistent.made.iter();
        let made_from = made_from.filter_map(|made| Some((made.path.clone(), made.hash()?)));
        let made_from = made_from.collect();
        let target = &mut state.targets[index];
        let Some(job) = target.take(id) else { return };
        let (progress, cancel) = (Progress::default(), CancelToken::default());
        let work = Work {
            target: target.target.clone(),
            pair: job.pair.clone(),
            unpacking: Arc::new(unpacking),
            known_bad,
            removal_files_per_second: NonZeroU32::new(removal_pace).unwrap_or(NonZeroU32::MAX),
            submitted: job.origin == Origin::Submitted,
            made_from,
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
            pace,
            hurries: false,
            meter: Meter::default(),
        };
        state.events.push(Event::JobStarted { job: target.running_status(&running, now.instant) });
        target.running = Some(running);
    }
}

impl TargetState {
    /// Returns whether so much waits for removal that no job may start: more than one tree, or
    /// anything of a state. A job that begins meanwhile would need room for yet another one.
    fn has_too_many_leftovers(&self) -> bool {
        self.leftovers.len() > usize::from(!self.is_state())
    }
}

/// Returns the results that stay although newer ones exist: a client submitted their archives, and
/// nothing newer has been published since.
fn kept(persistent: &PersistentState, results: &[Found]) -> BTreeSet<PathBuf> {
    let made = |found: &Found| persistent.made(&found.path);
    let is_outdated = |slot: u64, since: u64| {
        results.iter().any(|other| {
            other.slot > slot && made(other).is_some_and(|made| made.finished_unix_ms > since)
        })
    };
    let is_kept = |found: &&Found| {
        made(found)
            .is_some_and(|made| made.submitted && !is_outdated(found.slot, made.finished_unix_ms))
    };
    results.iter().filter(is_kept).map(|found| found.path.clone()).collect()
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
    state.record_end(index, &job, End::of(outcome, message, Duration::ZERO), now.instant);
    // Files left by an earlier attempt at the job are useless to other jobs.
    state.targets[index].sweep_due = true;
}
