//! What follows from the end of a job.

use std::path::{Path, PathBuf};

use unsnap_control::protocol::{Origin, Outcome};
use unsnap_unpack::{Error, Family, Pair};

use crate::{
    archives::Now,
    memory::Made,
    plan::{Clock, Job},
    state::{Ending, Running, State},
    worker::{Ended, Trouble},
};

/// What a failure means for what is tried next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// An archive is bad.
    Bad(PathBuf),
    /// An archive's file cannot be read; others may be.
    Unreadable(PathBuf),
    /// A validator, or another process, is in the way: that is no failure, and is looked at again after
    /// the first wait.
    InTheWay,
    /// The machine cannot do it, or a request makes no sense as things are.
    Failed,
    /// It was told to end.
    Cancelled,
}

/// What an error means for a pair.
pub fn meaning(pair: &Pair, error: &Error) -> Meaning {
    match error.family() {
        Family::BadArchive => Meaning::Bad(pair.blamed(error).path.clone()),
        Family::Cancelled => Meaning::Cancelled,
        _ if matches!(error, Error::Running { .. } | Error::Locked { .. }) => Meaning::InTheWay,
        _ => match file_of(error) {
            Some(path) if pair.archives().any(|archive| archive.path == path) => {
                Meaning::Unreadable(path.to_owned())
            }
            _ => Meaning::Failed,
        },
    }
}

/// The archive's file that could not be read.
fn file_of(error: &Error) -> Option<&Path> {
    use unsnap_unpack::SourceError as Source;
    match error {
        Error::Source(
            Source::Open { path, .. }
            | Source::Read { path, .. }
            | Source::Shrank { path, .. }
            | Source::Grew { path, .. },
        ) => Some(path),
        _ => None,
    }
}

impl State {
    /// Takes note of the end of a job.
    pub fn ended(&mut self, index: usize, ended: &Ended, now: Now) {
        let Some(running) = self.targets[index].running.take() else { return };
        self.targets[index].counts.held_back_ms += running.progress.snapshot().held_back_ms;
        self.note_products(index, ended, now);
        let target = &mut self.targets[index];
        target.sweep_due = true;
        target.waits_for = None;
        let Running { job, ending, .. } = running;
        let log = (job.id, target.target.name.clone(), job.slot());
        let (outcome, message) = match &ended.result {
            Ok(()) => {
                target.clock = Clock::default();
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
            Err(Trouble::Panic(text)) => {
                target.count_error(Family::Environment);
                let text = format!("a defect of unpackd: {text}");
                return self.try_again(index, job, &Meaning::Failed, text, ended, now);
            }
            Err(Trouble::Error(error)) => {
                let text = error
                    .hint()
                    .map_or_else(|| error.to_string(), |hint| format!("{error} ({hint})"));
                match (meaning(&job.pair, error), ending) {
                    (Meaning::Cancelled, ending) => {
                        let outcome = match ending {
                            Some(Ending::Superseded) => Outcome::Superseded,
                            _ => Outcome::Cancelled,
                        };
                        (outcome, None)
                    }
                    (Meaning::Bad(path), _) => {
                        target.count_error(Family::BadArchive);
                        // As it was when it was chosen: what has changed since is another one.
                        if let Some((_, file)) = job.files.iter().find(|(known, _)| *known == path)
                        {
                            self.memory.add_bad(&path, *file, &error.to_string(), now.unix_ms());
                            self.unsaved = true;
                        }
                        tracing::warn!(archive = %path.display(), %error, "a bad archive");
                        (Outcome::BadArchive, Some(error.to_string()))
                    }
                    (meaning, _) => {
                        target.count_error(error.family());
                        return self.try_again(index, job, &meaning, text, ended, now);
                    }
                }
            }
        };
        tracing::info!(job = log.0, target = log.1, slot = log.2, ?outcome, "a job has ended");
        self.tell_ended(index, &job, outcome, message, ended.elapsed, now.instant);
    }

    /// Remembers what was made, and counts it.
    fn note_products(&mut self, index: usize, ended: &Ended, now: Now) {
        for product in &ended.products {
            let Some(report) = &product.report else { continue };
            let slot = report.incremental.as_ref().map_or(report.slot, |upon| upon.slot);
            self.targets[index].count_made(report);
            self.memory.add_made(Made {
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
                "published"
            );
        }
    }

    /// Puts a job that has failed back into the queue, with its clock set.
    fn try_again(
        &mut self,
        index: usize,
        mut job: Job,
        meaning: &Meaning,
        text: String,
        ended: &Ended,
        now: Now,
    ) {
        let backoff = self.backoff();
        let target = &mut self.targets[index];
        tracing::warn!(job = job.id, target = target.target.name, slot = job.slot(), error = text);
        job.not_before = match meaning {
            Meaning::InTheWay => {
                // Nobody fails: a validator is at work with what it has.
                target.waits_for = Some(text.clone());
                target.checked = true;
                Some(now.instant + backoff.first)
            }
            Meaning::Unreadable(path) => {
                let clock = target.unreadable.entry(path.clone()).or_default();
                clock.failed(backoff, now.instant);
                clock.until
            }
            _ => {
                target.clock.failed(backoff, now.instant);
                target.clock.until
            }
        };
        if *meaning != Meaning::InTheWay {
            job.attempt += 1;
            job.last_error = Some(text.clone());
            target.last_error = Some(text.clone());
        }
        self.tell_ended(index, &job, Outcome::Failed, Some(text), ended.elapsed, now.instant);
        // Somebody's own wishes are not forgotten; what was found is found again.
        let target = &mut self.targets[index];
        let others_may_serve = matches!(meaning, Meaning::Unreadable(_));
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
    fn a_defect_of_ours_is_told_and_tried_again_later() {
        let now = Now::get();
        let mut state = testing::at_work(now);
        let ended = Ended {
            worker: 1,
            products: Vec::new(),
            result: Err(Trouble::Panic("of a cat".to_owned())),
            elapsed: Duration::from_secs(1),
        };
        state.ended(0, &ended, now);
        let target = &state.targets[0];
        assert!(target.running.is_none());
        let job = &target.queue[0];
        assert_eq!((job.id, job.attempt), (7, 2));
        assert!(job.not_before.is_some_and(|until| until > now.instant));
        assert_eq!(job.last_error.as_deref(), Some("a defect of unpackd: of a cat"));
        assert_eq!((target.counts.ended.failed, target.counts.errors.environment), (1, 1));
        let failed = |event: &Event| match event {
            Event::JobEnded { outcome: Outcome::Failed, message: Some(message), .. } => {
                message.contains("of a cat")
            }
            _ => false,
        };
        assert!(state.events.iter().any(failed), "{:?}", state.events);
        assert!(state.memory.bad.is_empty(), "no archive is to blame");
    }
}
