//! State of the service, its targets and their jobs. It is shared under a lock that is held for
//! moments only: no function here blocks.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_control::{
    metrics::TargetCounts,
    protocol::{DiskStatus, Event, EventLine, Origin, Outcome, RECENT_EVENTS_MAX},
};
use unsnap_fastboot::{FileIdentity, Pair};
use unsnap_pass::{CancelToken, Pace, Progress, Snapshot};

use crate::{
    archives::Now,
    config::{Config, Target, TargetKind},
    persistent::PersistentState,
    plan::{Backoff, Job, RetryTimer, View},
    target::Found,
};

/// State of the service as a whole.
#[derive(Debug)]
pub struct State {
    /// Configuration in force.
    pub config: Arc<Config>,
    /// New configuration that the supervisor has yet to apply.
    pub next_config: Option<Config>,
    /// State that survives restarts.
    pub persistent: PersistentState,
    /// Whether the persistent state has unsaved changes.
    pub unsaved: bool,
    /// Targets, in the order of the configuration.
    pub targets: Vec<TargetState>,
    /// Archives that may be unpacked, the best first.
    pub pairs: Vec<Pair>,
    /// Error of the last scan of the directories of archives.
    pub search_error: Option<String>,
    /// Rate limit and pause of all jobs.
    pub pace: Pace,
    /// Start time of the process: milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether the service is stopping.
    pub stopping: bool,
    /// Events that are not yet published.
    pub events: Vec<Event>,
    /// Last published events, the oldest first.
    pub recent: VecDeque<EventLine>,
    /// File systems that targets are on, at the last scan.
    pub disks: Vec<DiskStatus>,
}

/// State of a target.
#[derive(Debug)]
pub struct TargetState {
    /// Configuration of the target.
    pub target: Target,
    /// Id of its worker.
    pub worker: u64,
    /// The running job.
    pub running: Option<Running>,
    /// Whether a sweep is running.
    pub sweeping: bool,
    /// Whether a sweep is needed.
    pub sweep_due: bool,
    /// Queued jobs.
    pub queue: Vec<Job>,
    /// Retry timer of failures of the machine rather than of an archive.
    pub retry_timer: RetryTimer,
    /// Archives that could not be read, and their retry timers.
    pub unreadable: BTreeMap<PathBuf, RetryTimer>,
    /// Results on disk, the newest first.
    pub results: Vec<Found>,
    /// Whether the results are known to be complete. For a fastboot target only a job can prove
    /// that, once after each start.
    pub checked: bool,
    /// Highest slot whose job a client cancelled: no archive up to it is unpacked unasked.
    pub declined: Option<u64>,
    /// Reason for waiting that is not a failure.
    pub waits_for: Option<String>,
    /// Last error.
    pub last_error: Option<String>,
    /// Counters for metrics.
    pub counts: TargetCounts,
}

/// A running job.
#[derive(Debug)]
pub struct Running {
    /// The job.
    pub job: Job,
    /// Start of the attempt.
    pub since: Instant,
    /// Start of the attempt in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Progress of the attempt.
    pub progress: Progress,
    /// Token that cancels the attempt.
    pub cancel: CancelToken,
    /// Reason for the cancellation, if it was cancelled.
    pub cancel_reason: Option<CancelReason>,
    /// Last snapshot that differed from the one before, and its time.
    pub last_change: (Snapshot, Instant),
}

/// Reason why a running job was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// Newer archives were found.
    Superseded,
    /// A client asked for it, or the target was removed.
    Cancelled,
    /// The service is stopping.
    Stopping,
}

impl Running {
    /// Cancels the job. The first reason counts.
    pub fn end(&mut self, why: CancelReason) {
        self.cancel_reason.get_or_insert(why);
        self.cancel.cancel();
    }
}

impl TargetState {
    /// Creates the state of a target that has not been scanned yet.
    pub fn new(target: Target, worker: u64) -> Self {
        let checked = matches!(target.kind, TargetKind::Tree { .. });
        Self {
            target,
            worker,
            running: None,
            sweeping: false,
            sweep_due: true,
            queue: Vec::new(),
            retry_timer: RetryTimer::default(),
            unreadable: BTreeMap::new(),
            results: Vec::new(),
            checked,
            declined: None,
            waits_for: None,
            last_error: None,
            counts: TargetCounts::default(),
        }
    }

    /// Returns the slot that archives must exceed to be unpacked unasked.
    pub fn done(&self) -> Option<u64> {
        let newest = self.results.first().map(|result| result.slot).filter(|_| self.checked);
        newest.max(self.declined)
    }

    /// Returns the view on which [`decide`](crate::plan::decide) decides. `held`: no job may start.
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
            running: self
                .running
                .as_ref()
                .map(|running| (&running.job, running.cancel_reason.is_some())),
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
    /// Creates the state from configuration and persistent state, without targets.
    pub fn new(config: Arc<Config>, persistent: PersistentState, now: Now) -> Self {
        let pace = Pace::new();
        pace.set_rate(config.rate_limit());
        if persistent.paused {
            pace.pause();
        }
        Self {
            config,
            next_config: None,
            persistent,
            unsaved: false,
            targets: Vec::new(),
            pairs: Vec::new(),
            search_error: None,
            pace,
            started_unix_ms: now.unix_ms(),
            stopping: false,
            events: Vec::new(),
            recent: VecDeque::new(),
            disks: Vec::new(),
        }
    }

    /// Takes the events that are to be published, and remembers the last ones.
    pub fn take_events(&mut self) -> Vec<Event> {
        let events = std::mem::take(&mut self.events);
        self.recent.extend(events.iter().cloned().map(EventLine::now));
        let surplus = self.recent.len().saturating_sub(RECENT_EVENTS_MAX);
        self.recent.drain(..surplus);
        events
    }

    /// Returns the configured backoff.
    pub fn backoff(&self) -> Backoff {
        let retry = &self.config.settings.retry;
        Backoff { first: retry.first.0, most: retry.most.0 }
    }

    /// Adds a job to a target's queue and returns its number.
    pub fn queue(
        &mut self,
        target: usize,
        pair: Pair,
        files: Vec<(PathBuf, FileIdentity)>,
        origin: Origin,
        now: Now,
    ) -> u64 {
        let id = self.persistent.next_job;
        self.persistent.next_job += 1;
        self.unsaved = true;
        let target = &mut self.targets[target];
        // A failure of the machine would hit the next archive as well, so found archives wait for
        // the retry timer. A client that submits a job may know better.
        let not_before = target.retry_timer.until.filter(|_| origin == Origin::Found);
        let job = Job { id, pair, files, origin, attempt: 1, not_before, last_error: None };
        tracing::info!(job = id, target = target.target.name, slot = job.slot(), "job queued");
        let job_status = target.queued_status(&job, now.instant);
        target.queue.push(job);
        self.events.push(Event::JobQueued { job: job_status });
        id
    }

    /// Counts the end of a running or queued job and publishes the event.
    pub fn record_end(
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
