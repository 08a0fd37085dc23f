//! Counting events of targets and exporting metrics.

use unsnap_control::{
    metrics::{ProcessStats, Stats, TargetStats, render},
    protocol::{JobState, Outcome},
};
use unsnap_failure::Family;
use unsnap_unpack::Report;

use crate::{
    archives::Now,
    state::{State, TargetState},
};

impl TargetState {
    /// Adds the numbers of a published result.
    pub fn count_made(&mut self, report: &Report) {
        let counts = &mut self.counts;
        counts.bytes_read += report.bytes_read;
        counts.bytes_decoded += report.bytes_decoded;
        counts.bytes_written += report.bytes_written;
        counts.files += report.files;
        counts.fallbacks += report.fallbacks.len() as u64;
    }

    /// Counts the end of an attempt.
    pub fn count_end(&mut self, outcome: Outcome) {
        let ended = &mut self.counts.ended;
        *match outcome {
            Outcome::Done => &mut ended.done,
            Outcome::Failed => &mut ended.failed,
            Outcome::Cancelled => &mut ended.cancelled,
            Outcome::Superseded => &mut ended.superseded,
            Outcome::BadArchive => &mut ended.bad_archive,
        } += 1;
    }

    /// Counts an error. The caller counts a panic as an error of the environment.
    pub fn count_error(&mut self, family: Family) {
        let errors = &mut self.counts.errors;
        *match family {
            Family::BadArchive => &mut errors.bad_archive,
            Family::Request => &mut errors.request,
            Family::NotClean => &mut errors.not_clean,
            Family::Environment => &mut errors.environment,
            Family::Cancelled => return,
        } += 1;
    }

    fn stats(&self) -> TargetStats {
        let mut stats = TargetStats::new(&self.target.name);
        stats.counts = self.counts.clone();
        stats.newest_result_slot = self.results.first().map(|result| result.slot);
        stats.results = self.results.len() as u64;
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

impl State {
    /// Returns all metrics as OpenMetrics text.
    pub fn metrics(&self, now: Now) -> String {
        let status = self.status(now.instant);
        let targets = self.targets.iter().zip(&status.targets);
        let targets = targets.map(|(target, status)| {
            let mut stats = target.stats();
            stats.state = status.state;
            for job in status.job.iter().chain(&status.queued) {
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
            paused: self.persistent.paused,
            newest_archive_slot: self.pairs.first().map(unsnap_fastboot::Pair::slot),
            bad_archives: self.persistent.bad.len() as u64,
            targets: targets.collect(),
            process: ProcessStats::now(),
        })
    }
}
