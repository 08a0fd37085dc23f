//! What is decided is done.

use std::{
    num::NonZeroU32,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_control::protocol::{Event, Origin, Outcome};
use unsnap_fastboot::KnownBad;
use unsnap_unpack::{CancelToken, Progress};

use super::{GLANCE_EVERY, Supervisor};
use crate::{
    archives::Now,
    plan::{Action, decide},
    state::{Ending, Running, State},
    target::{Sweep, Work},
};

impl Supervisor {
    /// Decides for one target, and does it. Gives the time to look at it again.
    pub(super) fn serve(&mut self, index: usize, now: Now) -> Option<Instant> {
        let shared = self.shared.clone();
        let mut guard = shared.state();
        let state = &mut *guard;
        let supersede = state.config.settings.service.supersede;
        // As many steps as `decide` takes at most.
        for _ in 0..state.targets[index].queue.len() + 4 {
            let target = &state.targets[index];
            let sweep_first = target.sweeping || (target.sweep_due && self.archives.known());
            let held = state.memory.paused || state.stopping || sweep_first;
            match decide(&target.view(&state.pairs, supersede, held, now.instant)) {
                Action::Drop { job, superseded } => {
                    drop_job(state, index, job, superseded, now);
                }
                Action::Supersede(job) => {
                    tracing::info!(job, "superseded by newer archives");
                    if let Some(running) = &mut state.targets[index].running {
                        running.end(Ending::Superseded);
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

    /// Tidies up between jobs, once the archives are known: they say what is to be gone on with.
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
        let known_bad = state.memory.bad.iter().map(|bad| KnownBad {
            path: bad.path.clone(),
            file: bad.file(),
            reason: bad.reason.clone(),
        });
        let known_bad = known_bad.collect();
        let Ok(mut config) = state.config.unpacking() else { return };
        let pace = state.config.settings.neighbour.removal_files_per_second;
        config.pace = Some(state.pace.clone());
        let target = &mut state.targets[index];
        let Some(job) = target.take(id) else { return };
        let (progress, cancel) = (Progress::default(), CancelToken::default());
        let work = Work {
            target: target.target.clone(),
            pair: job.pair.clone(),
            config: Arc::new(config),
            known_bad,
            removal_files_per_second: NonZeroU32::new(pace).unwrap_or(NonZeroU32::MAX),
            submitted: job.origin == Origin::Submitted,
            progress: progress.clone(),
            cancel: cancel.clone(),
        };
        tracing::info!(
            job = id, target = target.target.name, slot = job.slot(), attempt = job.attempt,
            archive = %job.pair.full.path.display(), "started"
        );
        if !self.workers[index].begin(work) {
            tracing::error!(target = target.target.name, "its worker is gone");
            target.queue.push(job);
            return;
        }
        target.waits_for = None;
        let running = Running {
            job,
            since: now.instant,
            started_unix_ms: now.unix_ms(),
            stands: (progress.snapshot(), now.instant),
            progress,
            cancel,
            ending: None,
        };
        state.events.push(Event::JobStarted { job: target.running_status(&running, now.instant) });
        target.running = Some(running);
    }
}

/// Takes a job out of its queue, for good.
fn drop_job(state: &mut State, index: usize, id: u64, superseded: bool, now: Now) {
    let Some(job) = state.targets[index].take(id) else { return };
    let outcome = if superseded { Outcome::Superseded } else { Outcome::Cancelled };
    let message = (!superseded).then(|| "its archives are gone, or no good".to_owned());
    state.tell_ended(index, &job, outcome, message, Duration::ZERO, now.instant);
    // What it has left is of no use to others.
    state.targets[index].sweep_due = true;
}
