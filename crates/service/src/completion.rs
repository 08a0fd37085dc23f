//! Consequences of the end of a job: counters, bad archives, retries.

use std::path::PathBuf;

use unsnap_control::protocol::{Origin, Outcome};
use unsnap_failure::{Failure as _, Family};
use unsnap_fastboot::{FastbootError, Pair, blamed};

use crate::{
    archives::Now,
    meter::Amounts,
    persistent::PublishedResult,
    plan::{Job, RetryTimer},
    state::{CancelReason, End, Running, State},
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
        self.count_work(index, &running, ended, now);
        let Running { job, cancel_reason, .. } = running;
        self.note_products(index, &job, ended, now);
        let target = &mut self.targets[index];
        target.sweep_due = true;
        target.waits_for = None;
        target.unusable = None;
        let log = (job.id, target.target.name.clone(), job.slot());
        let (outcome, message) = match &ended.result {
            Ok(()) => {
                target.retry_timer = RetryTimer::default();
                target.checked = true;
                target.last_error = None;
                for archive in job.pair.archives() {
                    target.unreadable.remove(&archive.path);
                }
                let history = self.persistent.history_mut(&log.1);
                history.last_success_unix_ms = Some(now.unix_ms());
                history.last_duration_ms =
                    Some(u64::try_from(ended.elapsed.as_millis()).unwrap_or(u64::MAX));
                self.unsaved = true;
                (Outcome::Done, None)
            }
            Err(Failure::Panic(text)) => {
                target.count_error(Family::Environment);
                let text = format!("unpackd panicked, which is a defect: {text}");
                let failed = Failed { cause: Cause::Failed, text, exit_code: ENVIRONMENT };
                return self.try_again(index, job, failed, ended, now);
            }
            Err(Failure::Error(error)) => {
                let hint = error.remedy().and_then(|remedy| remedy.words(&ConfigKeys));
                let text =
                    hint.map_or_else(|| error.to_string(), |hint| format!("{error} ({hint})"));
                match (classify(&job.pair, error), cancel_reason) {
                    (Cause::Cancelled, Some(CancelReason::Yielded)) => {
                        let text = "a validator's start waits for the target".to_owned();
                        let failed = Failed { cause: Cause::InUse, text, exit_code: NOT_CLEAN };
                        return self.try_again(index, job, failed, ended, now);
                    }
                    (Cause::Cancelled, Some(CancelReason::Superseded)) => {
                        (Outcome::Superseded, None)
                    }
                    (Cause::Cancelled, _) => (Outcome::Cancelled, None),
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
                        let exit_code = exit_code(error.family());
                        let failed = Failed { cause, text, exit_code };
                        return self.try_again(index, job, failed, ended, now);
                    }
                }
            }
        };
        tracing::info!(job = log.0, target = log.1, slot = log.2, ?outcome, "job ended");
        self.record_end(index, &job, End::of(outcome, message, ended.elapsed), now.instant);
    }

    /// Counts what a job has read and written, whatever became of it.
    fn count_work(&mut self, index: usize, running: &Running, ended: &Ended, now: Now) {
        let reports = ended.products.iter().filter_map(|product| product.report.as_ref());
        let reported = reports.map(|report| Amounts::of_report(report));
        let reported = reported.fold(Amounts::default(), Amounts::plus);
        let snapshot = running.progress.snapshot();
        let amounts = running.meter.read(&snapshot).max(reported);
        let target = &mut self.targets[index];
        target.counts.held_back_ms += snapshot.held_back_ms;
        target.count_amounts(amounts);
        let history = self.persistent.history_mut(&self.targets[index].target.name);
        history.count_written(amounts.bytes_written, now.unix_ms() / 1000);
        self.unsaved = true;
    }

    /// Records the published results.
    fn note_products(&mut self, index: usize, job: &Job, ended: &Ended, now: Now) {
        let submitted = job.origin == Origin::Submitted;
        for product in &ended.products {
            if let Some(adopted) = &product.adopted {
                self.adopted(index, adopted);
                continue;
            }
            let Some(report) = &product.report else {
                // It was there already, and is now the client's as well.
                if let Some(made) = self.persistent.made(&product.path).filter(|_| submitted) {
                    let made = PublishedResult { submitted, ..made.clone() };
                    self.persistent.add_made(made);
                    self.unsaved = true;
                }
                continue;
            };
            let slot = report.incremental.as_ref().map_or(report.slot, |upon| upon.slot);
            self.targets[index].counts.fallbacks += report.fallbacks.len() as u64;
            self.persistent.add_made(PublishedResult {
                path: product.path.clone(),
                finished_unix_ms: now.unix_ms(),
                bytes: report.bytes_written,
                files: report.files,
                archive: product.archive.clone(),
                submitted,
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
    fn try_again(&mut self, index: usize, mut job: Job, failed: Failed, ended: &Ended, now: Now) {
        let Failed { cause, text, exit_code } = failed;
        let backoff = self.backoff();
        let target = &mut self.targets[index];
        job.not_before = match &cause {
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
        if cause != Cause::InUse {
            job.attempt += 1;
            job.last_error = Some(text.clone());
            target.last_error = Some(text.clone());
        }
        // A submitted job stays queued. A found pair with an unreadable archive is queued again by
        // `decide` once its retry timer is due.
        let others_may_serve = matches!(cause, Cause::Unreadable(_));
        let again = job.origin == Origin::Submitted || !others_may_serve;
        let (outcome, message, elapsed) = (Outcome::Failed, Some(text), ended.elapsed);
        let end = End { outcome, message, elapsed, exit_code, again };
        self.record_end(index, &job, end, now.instant);
        if again {
            self.targets[index].queue.insert(0, job);
        }
    }
}

/// A failed attempt, after which another one follows.
struct Failed {
    cause: Cause,
    /// The error and its remedy, in words.
    text: String,
    exit_code: u8,
}

/// Exit codes of `ledger-tool` for errors of the environment and for a destination in use.
const ENVIRONMENT: u8 = 3;
pub const NOT_CLEAN: u8 = 4;

/// Returns the exit code of `ledger-tool` for an error.
fn exit_code(family: Family) -> u8 {
    match family {
        Family::BadArchive => 1,
        Family::Request => 2,
        Family::Environment => ENVIRONMENT,
        Family::NotClean => NOT_CLEAN,
        Family::Cancelled => 130,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::time::Duration;
    use unsnap_control::protocol::{Event, JobState};

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

    fn ended_by(reason: CancelReason) -> State {
        let now = Now::get();
        let mut state = testing::at_work(now);
        state.targets[0].running.as_mut().unwrap().end(reason);
        let ended = Ended {
            worker: 1,
            products: Vec::new(),
            result: Err(Failure::Error(FastbootError::CANCELLED)),
            elapsed: Duration::from_secs(1),
        };
        state.ended(0, &ended, now);
        state
    }

    #[test]
    fn a_job_that_has_ended_is_not_called_queued() {
        for (reason, expected) in [
            (CancelReason::Cancelled, (JobState::Ended, Outcome::Cancelled, 130)),
            (CancelReason::Superseded, (JobState::Ended, Outcome::Superseded, 130)),
            (CancelReason::Yielded, (JobState::Retrying, Outcome::Failed, 4)),
        ] {
            let state = ended_by(reason);
            let ends = state.events.iter().filter_map(|event| match event {
                Event::JobEnded { job, outcome, exit_code, .. } => {
                    Some((job.state, *outcome, *exit_code))
                }
                _ => None,
            });
            assert_eq!(ends.collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn a_job_that_made_way_begins_again_later_and_has_not_failed() {
        let mut state = ended_by(CancelReason::Yielded);
        let target = &state.targets[0];
        let job = &target.queue[0];
        assert_eq!((job.id, job.attempt, target.retry_timer.failures), (7, 1, 0));
        assert!(job.not_before.is_some() && target.waits_for.is_some());
        assert!(state.targets[0].take(7).is_some());
        assert_eq!(state.targets[0].waits_for, None, "without a job, nothing is waited for");
    }
}
