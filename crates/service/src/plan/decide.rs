//! What to do next for one target.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use unsnap_control::protocol::Origin;
use unsnap_unpack::Pair;

use super::{Clock, Job, same_archives};

/// How a target stands.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Archives that may be unpacked, the best first.
    pub pairs: &'a [Pair],
    /// Archives whose file could not be read, and when that may be tried again.
    pub unreadable: &'a BTreeMap<PathBuf, Clock>,
    /// What is there, or has been declined: nothing that is not newer is wanted.
    pub done: Option<u64>,
    /// What is running, and whether it has been told to end.
    pub running: Option<(&'a Job, bool)>,
    /// What waits, in order.
    pub queue: &'a [Job],
    /// Whether a newer pair ends a running job.
    pub supersede: bool,
    /// Whether nothing may be started.
    pub paused: bool,
    /// The time.
    pub now: Instant,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take the job out of the queue: there is something newer, or its archives are no longer any good.
    Drop {
        /// Which.
        job: u64,
        /// Whether there is something newer.
        superseded: bool,
    },
    /// Tell the running job to end: there is something newer.
    Supersede(u64),
    /// Put a job into the queue.
    Queue(Pair),
    /// Start a job of the queue.
    Start(u64),
    /// Nothing until then, or until something happens.
    Wait(Option<Instant>),
}

/// The next action; `Wait` when there is none. Asked again after each, it comes to `Wait` in no more
/// steps than there are jobs in the queue, and three.
///
/// Only the newest pair is ever wanted. A job that somebody has submitted is never superseded: it is
/// what somebody wants.
pub fn decide(view: &View<'_>) -> Action {
    let wanted = wanted(view);
    let mut found = view.queue.iter().filter(|job| job.origin == Origin::Found);
    // One is enough: a job that was to end, and failed instead, may have come back beside another.
    let kept = found.clone().find(|job| wanted.is_some_and(|pair| same_archives(pair, &job.pair)));
    if let Some(job) = found.find(|job| kept.is_none_or(|kept| kept.id != job.id)) {
        let superseded = wanted.is_some_and(|pair| pair.slot() >= job.slot());
        return Action::Drop { job: job.id, superseded };
    }
    if let Some(pair) = wanted {
        if let Some((job, false)) = view.running
            && view.supersede
            && job.origin == Origin::Found
            && job.slot() < pair.slot()
        {
            return Action::Supersede(job.id);
        }
        let running = view.running.is_some_and(|(job, ending)| {
            !ending && (job.slot() >= pair.slot() || same_archives(&job.pair, pair))
        });
        let queued = view.queue.iter().any(|job| same_archives(&job.pair, pair));
        if !running && !queued {
            return Action::Queue(pair.clone());
        }
    }
    let idle = view.running.is_none() && !view.paused;
    let submitted_first = |job: &&Job| job.origin != Origin::Submitted;
    let mut due: Vec<&Job> = view.queue.iter().filter(|job| job.is_due(view.now)).collect();
    due.sort_by_key(submitted_first);
    if idle && let Some(job) = due.first() {
        return Action::Start(job.id);
    }
    let waits = view.queue.iter().filter_map(|job| job.not_before);
    let waits = waits.filter(|_| idle).chain(view.unreadable.values().filter_map(|c| c.until));
    Action::Wait(waits.filter(|until| *until > view.now).min())
}

/// The newest pair whose files can be read, if it is newer than what is there.
fn wanted<'a>(view: &View<'a>) -> Option<&'a Pair> {
    let readable =
        |path: &Path| view.unreadable.get(path).is_none_or(|clock| clock.is_due(view.now));
    let mut pairs = view.pairs.iter();
    let best = pairs.find(|pair| pair.archives().all(|archive| readable(&archive.path)))?;
    view.done.is_none_or(|done| best.slot() > done).then_some(best)
}

#[cfg(test)]
mod tests;
