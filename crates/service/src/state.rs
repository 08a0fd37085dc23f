//! How everything stands. Held under a lock, for moments only: nothing here waits for anything.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_control::{
    metrics::TargetCounts,
    protocol::{Event, Origin, Outcome},
};
use unsnap_unpack::{CancelToken, FileIdentity, Pace, Pair, Progress, Snapshot};

use crate::{
    archives::Now,
    config::{Config, Target, TargetKind},
    memory::Memory,
    plan::{Backoff, Clock, Job, View},
    target::Found,
};

/// The whole.
#[derive(Debug)]
pub struct State {
    /// What is in force.
    pub config: Arc<Config>,
    /// A configuration that comes into force when the supervisor gets to it.
    pub next_config: Option<Config>,
    /// What survives restarts.
    pub memory: Memory,
    /// Whether it is to be saved.
    pub unsaved: bool,
    /// In the order of the configuration.
    pub targets: Vec<TargetState>,
    /// Archives that may be unpacked, the best first.
    pub pairs: Vec<Pair>,
    /// Why the directories could not be looked at.
    pub search_error: Option<String>,
    /// Limits and pauses all jobs.
    pub pace: Pace,
    /// When the process began: milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether it is ending.
    pub stopping: bool,
    /// What watchers are to be told.
    pub events: Vec<Event>,
}

/// A target.
#[derive(Debug)]
pub struct TargetState {
    /// As it is configured.
    pub target: Target,
    /// Who works for it.
    pub worker: u64,
    /// What is being done.
    pub running: Option<Running>,
    /// Whether it is being swept.
    pub sweeping: bool,
    /// Whether there may be something to sweep.
    pub sweep_due: bool,
    /// What waits.
    pub queue: Vec<Job>,
    /// After failures that are nobody's but the machine's.
    pub clock: Clock,
    /// Archives that cannot be read.
    pub unreadable: BTreeMap<PathBuf, Clock>,
    /// What there is, the newest first.
    pub results: Vec<Found>,
    /// Whether what there is has been proved whole since the start, where that takes a job.
    pub checked: bool,
    /// Nothing up to this slot is wanted: somebody has cancelled the job.
    pub declined: Option<u64>,
    /// What it waits for that is no failure.
    pub waits_for: Option<String>,
    /// What it has failed of last.
    pub last_error: Option<String>,
    /// For metrics.
    pub counts: TargetCounts,
}

/// A job that runs.
#[derive(Debug)]
pub struct Running {
    /// Which.
    pub job: Job,
    /// Since when.
    pub since: Instant,
    /// The same as milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How far it is.
    pub progress: Progress,
    /// To stop it by.
    pub cancel: CancelToken,
    /// Why it has been told to end.
    pub ending: Option<Ending>,
    /// What was counted last, and since when it is the same.
    pub stands: (Snapshot, Instant),
}

/// Why a job has been told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// There is something newer.
    Superseded,
    /// Somebody asked for it, or its target is gone.
    Cancelled,
    /// The service ends.
    Stopping,
}

impl Running {
    /// Tells it to end. The first reason counts.
    pub fn end(&mut self, why: Ending) {
        self.ending.get_or_insert(why);
        self.cancel.cancel();
    }
}

impl TargetState {
    /// A target that nothing is known of yet.
    pub fn new(target: Target, worker: u64) -> Self {
        let checked = matches!(target.kind, TargetKind::Tree { .. });
        Self {
            target,
            worker,
            running: None,
            sweeping: false,
            sweep_due: true,
            queue: Vec::new(),
            clock: Clock::default(),
            unreadable: BTreeMap::new(),
            results: Vec::new(),
            checked,
            declined: None,
            waits_for: None,
            last_error: None,
            counts: TargetCounts::default(),
        }
    }

    /// Nothing is wanted that is not newer.
    pub fn done(&self) -> Option<u64> {
        let newest = self.results.first().map(|result| result.slot).filter(|_| self.checked);
        newest.max(self.declined)
    }

    /// What is to be decided on. `held`: nothing may be started.
    pub fn view<'a>(
        &'a self,
        pairs: &'a [Pair],
        supersede: bool,
        held: bool,
        now: Instant,
    ) -> View<'a> {
        View {
            pairs,
            unreadable: &self.unreadable,
            done: self.done(),
            running: self.running.as_ref().map(|running| (&running.job, running.ending.is_some())),
            queue: &self.queue,
            supersede,
            paused: held,
            now,
        }
    }

    /// Takes a job out of the queue.
    pub fn take(&mut self, id: u64) -> Option<Job> {
        let index = self.queue.iter().position(|job| job.id == id)?;
        Some(self.queue.remove(index))
    }
}

impl State {
    /// As configured and remembered, with no targets yet.
    pub fn new(config: Arc<Config>, memory: Memory, now: Now) -> Self {
        let pace = Pace::new();
        pace.set_rate(config.rate_limit());
        if memory.paused {
            pace.pause();
        }
        Self {
            config,
            next_config: None,
            memory,
            unsaved: false,
            targets: Vec::new(),
            pairs: Vec::new(),
            search_error: None,
            pace,
            started_unix_ms: now.unix_ms(),
            stopping: false,
            events: Vec::new(),
        }
    }

    /// How waits grow.
    pub fn backoff(&self) -> Backoff {
        let retry = &self.config.settings.retry;
        Backoff { first: retry.first.0, most: retry.most.0 }
    }

    /// Puts a job into a target's queue, and gives its number.
    pub fn queue(
        &mut self,
        target: usize,
        pair: Pair,
        files: Vec<(PathBuf, FileIdentity)>,
        origin: Origin,
        now: Now,
    ) -> u64 {
        let id = self.memory.next_job;
        self.memory.next_job += 1;
        self.unsaved = true;
        let target = &mut self.targets[target];
        // What fails of the machine fails for the next archive as well; but somebody may know better.
        let not_before = target.clock.until.filter(|_| origin == Origin::Found);
        let job = Job { id, pair, files, origin, attempt: 1, not_before, last_error: None };
        tracing::info!(job = id, target = target.target.name, slot = job.slot(), "queued");
        let job_status = target.queued_status(&job, now.instant);
        target.queue.push(job);
        self.events.push(Event::JobQueued { job: job_status });
        id
    }

    /// Tells that a job, which ran or waited, is over.
    pub fn tell_ended(
        &mut self,
        target: usize,
        job: &Job,
        outcome: Outcome,
        message: Option<String>,
        elapsed: Duration,
        now: Instant,
    ) {
        let target = &mut self.targets[target];
        target.count_end(outcome);
        let job = target.queued_status(job, now);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.events.push(Event::JobEnded { job, outcome, message, elapsed_ms });
    }
}
