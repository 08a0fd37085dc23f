//! Consequences of the end of a job: counters, bad archives, retries.

use std::path::PathBuf;

use unsnap_control::protocol::{Origin, Outcome};
use unsnap_failure::{Failure as _, Family};
use unsnap_fastboot::{FastbootError, Pair, blamed};

use crate::{
    archives::Now,
    persistent::PublishedResult,
    plan::{Job, RetryTimer},
    state::{CancelReason, Running, State},
    vocabulary::ConfigKeys,
    worker::{Ended, Failure},
};

/// Cause of a failure, which decides about the next attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An archive is bad.
    Bad(PathBuf),
    /// An archive's file cannot be read; other archives may be readable.
    Unreadable(PathBuf),
    /// A validator or another process uses the target. This does not count as a failure; the job is
    /// tried again after the first delay.
    InUse,
    /// An error of the environment, or a request that is impossible at present.
    Failed,
    /// The job was cancelled.
    Cancelled,
}

/// Classifies an error of a job on this pair.
pub fn classify(pair: &Pair, error: &FastbootError) -> Cause {
    match error.family() {
        Family::BadArchive => Cause::Bad(blamed(pair, error).path.clone()),
        Family::Cancelled => Cause::Cancelled,
        _ if error.is_in_the_way() => Cause::InUse,
        _ => match error.unreadable_file() {
            Some(path) if pair.archives().any(|archive| archive.path == path) => {
                Cause::Unreadable(path.to_owned())
            }
            _ => Cause::Failed,
        },
    }
}

impl State {
    /// Records the end of a target's running job.
    pub fn ended(&mut self, index: usize, ended: &Ended, now: Now) {
        let Some(running) = self.targets[index].running.take() else { return };
        self.targets[index].counts.held_back_ms += running.progress.snapshot().held_back_ms;
        self.note_products(index, ended, now);
        let target = &mut self.targets[index];
        target.sweep_due = true;
        target.waits_for = None;
        let Running { job, cancel_reason, .. } = running;
        let log = (job.id, target.target.name.clone(), job.slot());
        let (outcome, message) = match &ended.result {
            Ok(()) => {
                target.retry_timer = RetryTimer::default();
                target.checked = true;
                target.last_error = None;
                target.counts.last_success_unix_ms = Some(now.unix_ms());
                target.counts.last_duration_ms =
                    Some(u64::try_from(ended.elapsed.as_millis()).unwrap_or(u64::MAX));
                for archive in job.pair.archives() {
                    target.unreadable.remove(&archive.path);
                }
                (Outcome::Done, None)
            }
            Err(Failure::Panic(text)) => {
                target.count_error(Family::Environment);
                let text = format!("unpackd panicked, which is a defect: {text}");
                return self.try_again(index, job, &Cause::Failed, text, ended, now);
            }
            Err(Failure::Error(error)) => {
                let hint = error.remedy().and_then(|remedy| remedy.words(&ConfigKeys));
                let text =
                    hint.map_or_else(|| error.to_string(), |hint| format!("{error} ({hint})"));
                match (classify(&job.pair, error), cancel_reason) {
                    (Cause::Cancelled, reason) => {
                        let outcome = match reason {
                            Some(CancelReason::Superseded) => Outcome::Superseded,
                            _ => Outcome::Cancelled,
                        };
                        (outcome, None)
                    }
                    (Cause::Bad(path), _) => {
                        target.count_error(Family::BadArchive);
                        // With its identity when it was chosen: a file changed since is another
                        // one.
                        if let Some((_, file)) = job.files.iter().find(|(known, _)| *known == path)
                        {
                            self.persistent.add_bad(
                                &path,
                                *file,
                                &error.to_string(),
                                now.unix_ms(),
                            );
                            self.unsaved = true;
                        }
                        tracing::warn!(
                            archive = %path.display(), %error,
                            "bad archive; skipping it until its file changes"
                        );
                        (Outcome::BadArchive, Some(error.to_string()))
                    }
                    (cause, _) => {
                        target.count_error(error.family());
                        return self.try_again(index, job, &cause, text, ended, now);
                    }
                }
            }
        };
        tracing::info!(job = log.0, target = log.1, slot = log.2, ?outcome, "job ended");
        self.record_end(index, &job, outcome, message, ended.elapsed, now.instant);
    }

    /// Records and counts the published results.
    fn note_products(&mut self, index: usize, ended: &Ended, now: Now) {
        for product in &ended.products {
            let Some(report) = &product.report else { continue };
            let slot = report.incremental.as_ref().map_or(report.slot, |upon| upon.slot);
            self.targets[index].count_made(report);
            self.persistent.add_made(PublishedResult {
                path: product.path.clone(),
                finished_unix_ms: now.unix_ms(),
                bytes: report.bytes_written,
                files: report.files,
            });
            self.unsaved = true;
            tracing::info!(
                path = %product.path.display(),
                slot,
                bytes = report.bytes_written,
                files = report.files,
                ms = report.elapsed_ms,
                "result published"
            );
        }
    }

    /// Queues a failed job again, with its retry timer set.
    fn try_again(
        &mut self,
        index: usize,
        mut job: Job,
        cause: &Cause,
        text: String,
        ended: &Ended,
        now: Now,
    ) {
        let backoff = self.backoff();
        let target = &mut self.targets[index];
        job.not_before = match cause {
            Cause::InUse => {
                // No failure: a validator is running with the state that it has.
                target.waits_for = Some(text.clone());
                target.checked = true;
                Some(now.instant + backoff.first)
            }
            Cause::Unreadable(path) => {
                let timer = target.unreadable.entry(path.clone()).or_default();
                timer.failed(backoff, now.instant);
                timer.until
            }
            _ => {
                target.retry_timer.failed(backoff, now.instant);
                target.retry_timer.until
            }
        };
        let wait = job.not_before.map(|until| until.saturating_duration_since(now.instant));
        tracing::warn!(
            job = job.id,
            target = target.target.name,
            slot = job.slot(),
            attempt = job.attempt,
            retry_in_s = wait.unwrap_or_default().as_secs(),
            error = text,
            "{}",
            match cause {
                Cause::InUse => "another process uses the target; trying again later",
                Cause::Unreadable(_) => "cannot read an archive; trying again later",
                _ => "job failed; trying again later",
            }
        );
        if *cause != Cause::InUse {
            job.attempt += 1;
            job.last_error = Some(text.clone());
            target.last_error = Some(text.clone());
        }
        self.record_end(index, &job, Outcome::Failed, Some(text), ended.elapsed, now.instant);
        // A submitted job stays queued. A found pair with an unreadable archive is queued again by
        // `decide` once its retry timer is due.
        let target = &mut self.targets[index];
        let others_may_serve = matches!(cause, Cause::Unreadable(_));
        if job.origin == Origin::Submitted || !others_may_serve {
            target.queue.insert(0, job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::time::Duration;
    use unsnap_control::protocol::Event;

    #[test]
    fn a_panic_is_reported_and_the_job_is_retried_later() {
        let now = Now::get();
        let mut state = testing::at_work(now);
        let ended = Ended {
            worker: 1,
            products: Vec::new(),
            result: Err(Failure::Panic("of a cat".to_owned())),
            elapsed: Duration::from_secs(1),
        };
        state.ended(0, &ended, now);
        let target = &state.targets[0];
        assert!(target.running.is_none());
        let job = &target.queue[0];
        assert_eq!((job.id, job.attempt), (7, 2));
        assert!(job.not_before.is_some_and(|until| until > now.instant));
        assert_eq!(
            job.last_error.as_deref(),
            Some("unpackd panicked, which is a defect: of a cat")
        );
        assert_eq!((target.counts.ended.failed, target.counts.errors.environment), (1, 1));
        let failed = |event: &Event| match event {
            Event::JobEnded { outcome: Outcome::Failed, message: Some(message), .. } => {
                message.contains("of a cat")
            }
            _ => false,
        };
        assert!(state.events.iter().any(failed), "{:?}", state.events);
        assert!(state.persistent.bad.is_empty(), "no archive is to blame");
    }
}
