//! Counting events of targets and exporting metrics.

use unsnap_control::{
    metrics::{ProcessStats, Stats, TargetCounts, TargetStats, render},
    protocol::{JobState, Outcome},
};
use unsnap_failure::Family;
use unsnap_fastboot::Pair;

use crate::{
    archives::Now,
    meter::Amounts,
    persistent::TargetHistory,
    state::{State, TargetState},
};

impl TargetState {
    /// Adds the work of an attempt.
    pub fn count_amounts(&mut self, amounts: Amounts) {
        add(&mut self.counts, amounts);
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

    fn stats(&self, history: Option<&TargetHistory>) -> TargetStats {
        let mut stats = TargetStats::new(&self.target.name);
        stats.counts = self.counts.clone();
        stats.last_success_unix_ms = history.and_then(|history| history.last_success_unix_ms);
        stats.last_duration_ms = history.and_then(|history| history.last_duration_ms);
        stats.newest_result_slot = self.newest().map(|result| result.slot);
        stats.results = self.results.len() as u64;
        stats.leftover_bytes = self.leftovers.values().sum();
        if let Some(running) = &self.running {
            let snapshot = running.progress.snapshot();
            add(&mut stats.counts, running.meter.read(&snapshot));
            stats.counts.held_back_ms += snapshot.held_back_ms;
            stats.progress = snapshot.bytes_total.map(|total| {
                #[expect(clippy::cast_precision_loss, reason = "a ratio for a graph")]
                let ratio = snapshot.bytes_read.min(total) as f64 / total.max(1) as f64;
                ratio
            });
        }
        stats
    }
}

fn add(counts: &mut TargetCounts, amounts: Amounts) {
    counts.bytes_read += amounts.bytes_read;
    counts.bytes_decoded += amounts.bytes_decoded;
    counts.bytes_written += amounts.bytes_written;
    counts.files += amounts.files;
}

impl State {
    /// Returns all metrics as OpenMetrics text. Those of the process itself are for a reader that
    /// sees no other process's: node_exporter exports its own under the same names.
    pub fn metrics(&self, now: Now, with_process: bool) -> String {
        let status = self.status(now);
        let newest_archive_slot = self.pairs.first().map(Pair::slot);
        let targets = self.targets.iter().zip(&status.targets);
        let targets = targets.map(|(target, status)| {
            let mut stats = target.stats(self.persistent.history(&target.target.name));
            stats.state = status.state;
            if let Some(ready) = target.ready() {
                let made = self.persistent.made(&ready.path);
                stats.ready_slot = Some(ready.slot);
                stats.ready_unix_ms =
                    Some(made.map_or(ready.changed_unix_ms, |made| made.finished_unix_ms));
            }
            stats.behind_slots = newest_archive_slot
                .zip(stats.newest_result_slot)
                .map(|(archive, result)| archive.saturating_sub(result));
            for job in status.job.iter().chain(&status.queued) {
                *match job.state {
                    JobState::Queued => &mut stats.jobs.queued,
                    JobState::Running => &mut stats.jobs.running,
                    JobState::Paused => &mut stats.jobs.paused,
                    JobState::Retrying => &mut stats.jobs.retrying,
                    // Neither running nor queued.
                    JobState::Ended => continue,
                } += 1;
            }
            stats
        });
        render(&Stats {
            version: status.version.clone(),
            started_unix_ms: self.started_unix_ms,
            paused: self.persistent.paused,
            newest_archive_slot,
            bad_archives: self.persistent.bad.len() as u64,
            targets: targets.collect(),
            process: with_process.then(ProcessStats::now),
        })
    }
}
