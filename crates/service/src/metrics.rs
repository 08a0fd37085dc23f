//! What is counted, and how it is told to Prometheus.

use unsnap_control::{
    metrics::{ErrorCounts, OutcomeCounts, ProcessStats, Stats, TargetStats, render},
    protocol::{JobState, Outcome},
};
use unsnap_unpack::{Family, Report};

use crate::{
    archives::Now,
    state::{State, TargetState},
};

/// Counted of a target since the start of the process. Bytes and files are those of attempts that have
/// made something.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub ended: OutcomeCounts,
    pub errors: ErrorCounts,
    pub bytes_read: u64,
    pub bytes_decoded: u64,
    pub bytes_written: u64,
    pub files: u64,
    pub held_back_ms: u64,
    pub fallbacks: u64,
    pub last_success_unix_ms: Option<u64>,
    pub last_duration_ms: Option<u64>,
    pub results_removed: u64,
}

impl Figures {
    /// Counts what was made.
    pub fn add(&mut self, report: &Report) {
        self.bytes_read += report.bytes_read;
        self.bytes_decoded += report.bytes_decoded;
        self.bytes_written += report.bytes_written;
        self.files += report.files;
        self.fallbacks += report.fallbacks.len() as u64;
    }

    /// Counts the end of an attempt.
    pub fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Done => &mut self.ended.done,
            Outcome::Failed => &mut self.ended.failed,
            Outcome::Cancelled => &mut self.ended.cancelled,
            Outcome::Superseded => &mut self.ended.superseded,
            Outcome::BadArchive => &mut self.ended.bad_archive,
        } += 1;
    }

    /// Counts an error. A defect of ours counts as one of the environment.
    pub fn count_error(&mut self, family: Family) {
        *match family {
            Family::BadArchive => &mut self.errors.bad_archive,
            Family::Request => &mut self.errors.request,
            Family::NotClean => &mut self.errors.not_clean,
            Family::Environment => &mut self.errors.environment,
            Family::Cancelled => return,
        } += 1;
    }
}

impl State {
    /// The text that Prometheus reads.
    pub fn metrics(&self, now: Now) -> String {
        let status = self.status(now.instant);
        let targets = self.targets.iter().zip(&status.targets);
        let targets = targets.map(|(target, told)| {
            let mut stats = target.stats();
            stats.state = told.state;
            for job in told.job.iter().chain(&told.queued) {
                *match job.state {
                    JobState::Queued => &mut stats.jobs.queued,
                    JobState::Running => &mut stats.jobs.running,
                    JobState::Paused => &mut stats.jobs.paused,
                    JobState::Retrying => &mut stats.jobs.retrying,
                } += 1;
            }
            stats
        });
        render(&Stats {
            version: status.version.clone(),
            started_unix_ms: self.started_unix_ms,
            paused: self.memory.paused,
            newest_archive_slot: self.pairs.first().map(unsnap_unpack::Pair::slot),
            bad_archives: self.memory.bad.len() as u64,
            targets: targets.collect(),
            process: ProcessStats::now(),
        })
    }
}

impl TargetState {
    fn stats(&self) -> TargetStats {
        let mut stats = TargetStats::new(&self.target.name);
        let Figures { ended, errors, .. } = self.figures.clone();
        let figures = &self.figures;
        (stats.ended, stats.errors) = (ended, errors);
        stats.bytes_read = figures.bytes_read;
        stats.bytes_decoded = figures.bytes_decoded;
        stats.bytes_written = figures.bytes_written;
        stats.files = figures.files;
        stats.held_back_ms = figures.held_back_ms;
        stats.fallbacks = figures.fallbacks;
        stats.last_success_unix_ms = figures.last_success_unix_ms;
        stats.last_duration_ms = figures.last_duration_ms;
        stats.newest_result_slot = self.results.first().map(|result| result.slot);
        stats.results = self.results.len() as u64;
        stats.results_removed = figures.results_removed;
        stats.progress = self.running.as_ref().and_then(|running| {
            let snapshot = running.progress.snapshot();
            let total = snapshot.bytes_total?;
            #[expect(clippy::cast_precision_loss, reason = "a ratio for a graph")]
            let ratio = snapshot.bytes_read.min(total) as f64 / total.max(1) as f64;
            Some(ratio)
        });
        stats
    }
}
