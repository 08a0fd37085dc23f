//! Status of the service, as clients and the service manager see it.

use std::{
    num::NonZeroU64,
    time::{Duration, Instant},
};

use unsnap_control::protocol::{
    ArchivesStatus, BadArchive, Event, JobProgress, JobState, JobStatus, PairName, ResultStatus,
    Status, TargetKind, TargetState as Stands, TargetStatus,
};
use unsnap_fastboot::Pair;
use unsnap_pass::{Phase, Snapshot};
use unsnap_settings::format_duration;

use crate::{
    archives::Now,
    config,
    plan::{Hold, Job, held},
    state::{Running, State, TargetState},
    target::Found,
};

impl State {
    /// Returns the answer to `status`.
    pub fn status(&self, now: Now) -> Status {
        let archives = &self.config.archives;
        let mut directories = vec![archives.full.clone()];
        if archives.incremental != archives.full {
            directories.push(archives.incremental.clone());
        }
        let rescan = self.config.settings.archives.rescan.0.as_millis();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_unix_ms: self.started_unix_ms,
            paused: self.persistent.paused,
            rate_limit: self.config.rate_limit().map(NonZeroU64::get),
            archives: ArchivesStatus {
                directories,
                newest: self.pairs.first().map(name),
                rescan_ms: u64::try_from(rescan).unwrap_or(u64::MAX),
            },
            targets: (0..self.targets.len()).map(|index| self.target_status(index, now)).collect(),
            bad: self
                .persistent
                .bad
                .iter()
                .map(|bad| BadArchive {
                    path: bad.path.clone(),
                    reason: bad.reason.clone(),
                    seen_unix_ms: bad.seen_unix_ms,
                })
                .collect(),
            disks: self.disks.iter().map(|disk| disk.status.clone()).collect(),
            recent: self.recent.iter().cloned().collect(),
        }
    }

    fn target_status(&self, index: usize, now: Now) -> TargetStatus {
        let target = &self.targets[index];
        let failing = target.queue.iter().find(|job| job.last_error.is_some());
        let (state, detail) = if target.running.is_some() {
            (Stands::Working, None)
        } else if let Some(reason) = &target.waits_for {
            (Stands::Waiting, Some(reason.clone()))
        } else if let Some(job) = failing {
            (Stands::Failing, job.last_error.clone())
        } else if let Some(error) = &self.search_error {
            (Stands::Failing, Some(error.clone()))
        } else if target.is_sweeping() || target.sweep_due {
            (Stands::Working, Some("removing old results".to_owned()))
        } else if !target.queue.is_empty() && target.is_waited_for {
            let reason = "the start of a validator comes first";
            (Stands::Waiting, Some(reason.to_owned()))
        } else if !target.queue.is_empty() && !target.leftovers.is_empty() {
            let reason = "old files are removed first";
            (Stands::Waiting, Some(reason.to_owned()))
        } else if !target.queue.is_empty() {
            let reason = if self.persistent.paused {
                "the service is paused"
            } else {
                "the job is about to start"
            };
            (Stands::Waiting, Some(reason.to_owned()))
        } else {
            let detail = target.last_error.clone().or_else(|| self.given_up(target));
            (Stands::Idle, detail.or_else(|| self.hold(index, now)))
        };
        let instant = now.instant;
        TargetStatus {
            name: target.target.name.clone(),
            kind: match target.target.kind {
                config::TargetKind::Tree { .. } => TargetKind::Tree,
                config::TargetKind::Fastboot { .. } => TargetKind::Fastboot,
            },
            state,
            detail,
            results: target.results.iter().map(|found| self.result_status(found)).collect(),
            job: target.running.as_ref().map(|running| target.running_status(running, instant)),
            queued: target.queue.iter().map(|job| target.queued_status(job, instant)).collect(),
        }
    }

    /// Returns why the newest archives are not unpacked now, if only the cadence holds them.
    fn hold(&self, index: usize, now: Now) -> Option<String> {
        let cadence = self.config.cadence().ok()?;
        let after = |seconds| format_duration(Duration::from_secs(seconds));
        let until = match held(&self.view(index, &cadence, false, now))? {
            Hold::Slots { from } => format!("when archives of slot {from} are there (min-slots)"),
            Hold::Budget { seconds } => {
                format!("in {} (bytes-per-day is used up)", after(seconds))
            }
            Hold::Window { seconds } => format!("in {} (windows)", after(seconds)),
        };
        Some(format!("the next job starts {until}; `ledger-tool service prepare` starts it now"))
    }

    fn result_status(&self, found: &Found) -> ResultStatus {
        let made = self.persistent.made(&found.path);
        ResultStatus {
            slot: found.slot,
            base_slot: found.base_slot,
            path: found.path.clone(),
            finished_unix_ms: made.map_or(found.changed_unix_ms, |made| made.finished_unix_ms),
            bytes: made.map_or(0, |made| made.bytes),
            files: made.map_or(0, |made| made.files),
        }
    }
}

impl TargetState {
    /// Returns the status of a job that is queued or has ended.
    pub fn queued_status(&self, job: &Job, now: Instant) -> JobStatus {
        let wait = job.not_before.and_then(|until| until.checked_duration_since(now));
        JobStatus {
            id: job.id,
            target: self.target.name.clone(),
            slot: job.slot(),
            base_slot: job.pair.incremental().and_then(|one| one.name.base_slot()),
            archives: job.pair.archives().map(|archive| archive.path.clone()).collect(),
            origin: job.origin,
            state: if job.attempt > 1 { JobState::Retrying } else { JobState::Queued },
            phase: None,
            attempt: job.attempt,
            retry_in_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            started_unix_ms: None,
            last_error: job.last_error.clone(),
            progress: None,
        }
    }

    /// Returns the status of the running job.
    pub fn running_status(&self, running: &Running, now: Instant) -> JobStatus {
        let snapshot = running.progress.snapshot();
        JobStatus {
            state: if snapshot.paused { JobState::Paused } else { JobState::Running },
            phase: Some(running_phase(running, &snapshot).to_owned()),
            retry_in_ms: None,
            started_unix_ms: Some(running.started_unix_ms),
            progress: Some(progress(&snapshot, running.since, now)),
            ..self.queued_status(&running.job, now)
        }
    }
}

/// Returns the name of a running job's phase.
fn running_phase(running: &Running, snapshot: &Snapshot) -> &'static str {
    if running.cancel_reason.is_some() { "ending" } else { phase(snapshot.phase) }
}

/// Returns the name of a phase.
pub fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Preparing => "preparing",
        Phase::CheckingIndex => "checking the index",
        Phase::Unpacking => "unpacking",
        Phase::Verifying => "verifying",
        Phase::Syncing => "syncing",
        Phase::Publishing => "publishing",
        Phase::CleaningUp => "cleaning up",
        Phase::Writing => "writing",
        Phase::LookingAtFiles => "checking files",
        Phase::Linking => "linking files",
        Phase::Removing => "removing old files",
        Phase::Done => "done",
    }
}

/// Returns the progress of a job. Rate and remaining time are averages over the whole attempt.
pub fn progress(snapshot: &Snapshot, since: Instant, now: Instant) -> JobProgress {
    let elapsed = now.saturating_duration_since(since).as_millis();
    let whole = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    let (read, written) = (u128::from(snapshot.bytes_read), u128::from(snapshot.bytes_written));
    let left = snapshot.bytes_total.map(|total| u128::from(total).saturating_sub(read));
    JobProgress {
        bytes_total: snapshot.bytes_total,
        bytes_read: snapshot.bytes_read,
        bytes_written: snapshot.bytes_written,
        files: snapshot.files,
        rate_bytes_per_s: (elapsed > 0).then(|| whole(written * 1000 / elapsed.max(1))),
        eta_ms: left.filter(|_| read > 0).map(|left| whole(left * elapsed / read)),
    }
}

fn name(pair: &Pair) -> PairName {
    PairName {
        slot: pair.slot(),
        base_slot: pair.incremental().and_then(|one| one.name.base_slot()),
        full: pair.full().path.clone(),
        incremental: pair.incremental().map(|one| one.path.clone()),
    }
}

/// Returns the status line for the service manager.
pub fn status_line(state: &State) -> String {
    let mut parts: Vec<String> = Vec::new();
    for target in &state.targets {
        let name = &target.target.name;
        let newest = target.results.first().map(|result| format!("slot {}", result.slot));
        let newest = newest.unwrap_or_else(|| "no result yet".to_owned());
        parts.push(match &target.running {
            Some(running) => {
                let snapshot = running.progress.snapshot();
                let percent = snapshot.bytes_total.map_or_else(String::new, |total| {
                    format!(" {} %", snapshot.bytes_read.min(total) * 100 / total.max(1))
                });
                let phase = phase(snapshot.phase);
                format!("{name}: slot {}, {phase}{percent}", running.job.slot())
            }
            None if target.waits_for.is_some() => format!("{name}: {newest}, waiting"),
            None if target.queue.iter().any(|job| job.last_error.is_some()) => {
                format!("{name}: {newest}, failing")
            }
            None => format!("{name}: {newest}"),
        });
    }
    let paused = if state.persistent.paused { "paused; " } else { "" };
    format!("{paused}{}", parts.join("; "))
}

impl State {
    /// Returns a progress event for each running job.
    pub fn progress_events(&self, now: Instant) -> Vec<Event> {
        let running =
            self.targets.iter().filter_map(|target| Some((target, target.running.as_ref()?)));
        let event = |(target, running): (&TargetState, &Running)| {
            let snapshot = running.progress.snapshot();
            Event::Progress {
                job: running.job.id,
                target: target.target.name.clone(),
                phase: Some(running_phase(running, &snapshot).to_owned()),
                progress: progress(&snapshot, running.since, now),
            }
        };
        running.map(event).collect()
    }
}
