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
    protocol::{
        DiskStatus, Event, EventLine, JobState, JobStatus, Origin, Outcome, RECENT_EVENTS_MAX,
    },
};
use unsnap_fastboot::{Attempts, FileIdentity, Pair, Returnable};
use unsnap_pass::{CancelToken, Pace, Progress, Snapshot};

use crate::{
    archives::Now,
    config::{Config, Target, TargetKind},
    meter::Meter,
    persistent::{PersistentState, PublishedResult},
    plan::{Backoff, Cadence, Job, RetryTimer, Usage, View},
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
    /// Start time of the process: milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Whether the service is stopping.
    pub stopping: bool,
    /// Events that are not yet published.
    pub events: Vec<Event>,
    /// Last published events, the oldest first.
    pub recent: VecDeque<EventLine>,
    /// File systems that targets are on, at the last scan.
    pub disks: Vec<Disk>,
}

/// A file system that targets are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Device number, as in `stat`.
    pub device: u64,
    /// Its status.
    pub status: DiskStatus,
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
    /// What the worker does besides jobs.
    pub chore: Option<Chore>,
    /// Whether a sweep is needed.
    pub sweep_due: bool,
    /// Adoption of ready states.
    pub adoption: AdoptionState,
    /// Directory of a ready state that cannot be adopted because it is not whole.
    pub unusable: Option<PathBuf>,
    /// What is remembered of validators' starts from the target's states.
    pub attempts: Attempts,
    /// Pairs of archives of which no state is made, because validators have ended with it.
    pub refused: Vec<Pair>,
    /// Whether the start of a validator waits for the target.
    pub is_waited_for: bool,
    /// What the target keeps on each device, when it was last counted. Only of states.
    pub kept: BTreeMap<u64, Returnable>,
    /// The figures, in words, if less than `min-free` was free at the last look.
    pub shortage: Option<String>,
    /// Directories that wait for their removal, and their sizes in bytes.
    pub leftovers: BTreeMap<PathBuf, u64>,
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

/// What a worker does between jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Cleaning up.
    Sweep,
    /// Adopting a ready state.
    Adoption,
}

/// Adoption of a target's ready states.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdoptionState {
    /// Whether there is a ready state that may be adopted.
    pub due: bool,
    /// Retry timer of adoptions that failed although no validator was running.
    pub timer: RetryTimer,
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
    /// Rate limit and pause of the attempt.
    pub pace: Pace,
    /// Whether the rate limit was lifted because a validator's start waits for the job.
    pub hurries: bool,
    /// Amounts of work.
    pub meter: Meter,
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
    /// The start of a validator waits for the target, and the job could not go on at once.
    Yielded,
}

impl Running {
    /// Cancels the job. The first reason counts.
    pub fn end(&mut self, why: CancelReason) {
        self.cancel_reason.get_or_insert(why);
        self.cancel.cancel();
    }

    /// Counts the work done since the last glance.
    pub fn glance(&mut self) {
        self.meter.advance(&self.progress.snapshot());
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
            chore: None,
            sweep_due: true,
            adoption: AdoptionState::default(),
            unusable: None,
            attempts: Attempts::default(),
            refused: Vec::new(),
            is_waited_for: false,
            kept: BTreeMap::new(),
            shortage: None,
            leftovers: BTreeMap::new(),
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

    /// Returns whether the target holds states.
    pub fn is_state(&self) -> bool {
        matches!(self.target.kind, TargetKind::Fastboot { .. })
    }

    /// Returns the newest result, but for a ready state that proved not to be whole.
    pub fn newest(&self) -> Option<&Found> {
        self.results.iter().find(|result| self.unusable.as_ref() != Some(&result.path))
    }

    /// Returns the slot that archives must exceed to be unpacked unasked.
    pub fn done(&self) -> Option<u64> {
        let newest = self.newest().map(|result| result.slot).filter(|_| self.checked);
        newest.max(self.declined)
    }

    /// Returns the ready state, which waits beside the validator's own.
    pub fn ready(&self) -> Option<&Found> {
        let TargetKind::Fastboot { places, .. } = &self.target.kind else { return None };
        let ready = places.beside().states();
        let is_ready = |found: &&Found| found.path.parent() == Some(&ready);
        self.results
            .iter()
            .find(is_ready)
            .filter(|found| self.unusable.as_ref() != Some(&found.path))
    }

    /// Returns whether a sweep is running.
    pub fn is_sweeping(&self) -> bool {
        self.chore == Some(Chore::Sweep)
    }

    /// Returns whether the target's worker is at work.
    pub fn is_busy(&self) -> bool {
        self.running.is_some() || self.chore.is_some()
    }

    /// Takes a job out of the queue. Without jobs, the target waits for nothing.
    pub fn take(&mut self, id: u64) -> Option<Job> {
        let index = self.queue.iter().position(|job| job.id == id)?;
        let job = self.queue.remove(index);
        if self.queue.is_empty() {
            self.waits_for = None;
        }
        Some(job)
    }
}

impl State {
    /// Creates the state from configuration and persistent state, without targets.
    pub fn new(config: Arc<Config>, persistent: PersistentState, now: Now) -> Self {
        Self {
            config,
            next_config: None,
            persistent,
            unsaved: false,
            targets: Vec::new(),
            pairs: Vec::new(),
            search_error: None,
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

    /// Returns the view of a target on which [`decide`](crate::plan::decide) decides. `held`: no job
    /// may start.
    pub fn view<'a>(
        &'a self,
        index: usize,
        cadence: &'a Cadence,
        held: bool,
        now: Now,
    ) -> View<'a> {
        let target = &self.targets[index];
        let (done, newest) = (target.done(), target.newest());
        let made = newest.and_then(|newest| self.persistent.made(&newest.path));
        let history = self.persistent.history(&target.target.name);
        let unix_s = now.unix_ms() / 1000;
        // Of a state the directory's name tells the slot only, and a newer one replaces it anyway.
        let made_done = made.filter(|_| !target.is_state() && target.declined < done);
        View {
            pairs: &self.pairs,
            refused: &target.refused,
            unreadable: &target.unreadable,
            done,
            done_hash: made_done.and_then(PublishedResult::hash),
            running: target
                .running
                .as_ref()
                .map(|running| (&running.job, running.cancel_reason.is_some())),
            queue: &target.queue,
            is_state: target.is_state(),
            supersede: self.config.settings.service.supersede,
            cadence,
            usage: Usage {
                newest: newest.map(|newest| newest.slot).filter(|_| target.is_state()),
                written_bytes: history.map_or(0, |history| history.written_bytes(unix_s)),
                expected_bytes: made.map_or(0, |made| made.bytes),
                unix_s,
            },
            paused: held,
            now: now.instant,
        }
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
    pub fn record_end(&mut self, target: usize, job: &Job, end: End, now: Instant) {
        let target = &mut self.targets[target];
        let End { outcome, message, elapsed, exit_code, again } = end;
        target.count_end(outcome);
        let state = if again { JobState::Retrying } else { JobState::Ended };
        let job = JobStatus { state, ..target.queued_status(job, now) };
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        self.events.push(Event::JobEnded { job, outcome, message, elapsed_ms, exit_code });
    }
}

/// End of an attempt at a job.
#[derive(Clone, Debug)]
pub struct End {
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason, unless it is done.
    pub message: Option<String>,
    /// Duration of the attempt.
    pub elapsed: Duration,
    /// Exit code that tells the outcome.
    pub exit_code: u8,
    /// Whether another attempt follows.
    pub again: bool,
}

impl End {
    /// Creates the end of a job of which nothing more comes.
    pub fn of(outcome: Outcome, message: Option<String>, elapsed: Duration) -> Self {
        let exit_code = match outcome {
            Outcome::Done => 0,
            Outcome::BadArchive => 1,
            Outcome::Failed => 3,
            // As after SIGINT.
            Outcome::Cancelled | Outcome::Superseded => 130,
        };
        Self { outcome, message, elapsed, exit_code, again: false }
    }
}
