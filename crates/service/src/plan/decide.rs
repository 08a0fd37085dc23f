//! The decision about the next action for one target.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use unsnap_control::protocol::Origin;
use unsnap_fastboot::Pair;
use unsnap_layout::ArchiveHash;

use super::{Cadence, Hold, Job, RetryTimer, Usage, same_archives};

/// The state of a target as far as the decision needs it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Archives that may be unpacked, the best first.
    pub pairs: &'a [Pair],
    /// Those of them that are not unpacked unasked: validators have ended with their states.
    pub refused: &'a [Pair],
    /// Archives whose file could not be read, and their retry timers.
    pub unreadable: &'a BTreeMap<PathBuf, RetryTimer>,
    /// Highest slot that is on disk or was cancelled: only newer pairs are unpacked unasked.
    pub done: Option<u64>,
    /// Hash in the name of the archive that the result of that slot was made from, if it is known:
    /// another archive of the same slot is unpacked as well.
    pub done_hash: Option<ArchiveHash>,
    /// The running job, and whether it was cancelled.
    pub running: Option<(&'a Job, bool)>,
    /// Queued jobs, in order.
    pub queue: &'a [Job],
    /// Whether the target holds states. Their jobs end before the next one is chosen: a validator
    /// writes archives faster than they can be unpacked, so otherwise no job would ever end.
    pub is_state: bool,
    /// Whether a newer pair stops a running job. Not for states.
    pub supersede: bool,
    /// Rule by which jobs start that nobody asked for.
    pub cadence: &'a Cadence,
    /// Numbers for that rule.
    pub usage: Usage,
    /// Whether no job may start.
    pub paused: bool,
    /// Current time.
    pub now: Instant,
}

/// An action of the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Remove the job from the queue: a newer pair replaces it, or its archives are no longer
    /// usable.
    Drop {
        /// Number of the job.
        job: u64,
        /// Whether a newer pair replaces it.
        superseded: bool,
    },
    /// Cancel the running job in favour of a newer pair.
    Supersede(u64),
    /// Queue a job for a pair.
    Queue(Pair),
    /// Start a queued job.
    Start(u64),
    /// Do nothing until this time, or until a message arrives.
    Wait(Option<Instant>),
}

/// Returns the next action; `Wait` if there is none. If the caller carries out each action and asks
/// again, `Wait` follows after at most three more steps than there are jobs in the queue.
///
/// Only the newest pair is unpacked unasked, and only by the cadence. A job that a client asked for
/// is never superseded, and starts whatever the cadence says.
pub fn decide(view: &View<'_>) -> Action {
    let wanted = wanted(view);
    let mut found = view.queue.iter().filter(|job| job.origin == Origin::Found);
    // One is kept: a cancelled job that failed instead may have been queued again beside another.
    let kept = found.clone().find(|job| wanted.is_some_and(|pair| same_archives(pair, &job.pair)));
    if let Some(job) = found.find(|job| kept.is_none_or(|kept| kept.id != job.id)) {
        let superseded = wanted.is_some_and(|pair| pair.slot() >= job.slot());
        return Action::Drop { job: job.id, superseded };
    }
    if let Some(pair) = wanted {
        if let Some((job, false)) = view.running
            && view.supersede
            && !view.is_state
            && job.origin == Origin::Found
            && job.slot() < pair.slot()
        {
            return Action::Supersede(job.id);
        }
        let running = view.running.is_some_and(|(job, ending)| {
            !ending
                && (view.is_state || job.slot() >= pair.slot() || same_archives(&job.pair, pair))
        });
        let queued = view.queue.iter().any(|job| same_archives(&job.pair, pair));
        if !running && !queued && view.hold(pair.slot()).is_none() {
            return Action::Queue(pair.clone());
        }
    }
    let idle = view.running.is_none() && !view.paused;
    let asked_for_first = |job: &&Job| job.origin == Origin::Found;
    let may_start = |job: &&Job| job.origin != Origin::Found || view.hold(job.slot()).is_none();
    let mut due: Vec<&Job> =
        view.queue.iter().filter(|job| job.is_due(view.now)).filter(may_start).collect();
    due.sort_by_key(asked_for_first);
    if idle && let Some(job) = due.first() {
        return Action::Start(job.id);
    }
    let waits = view.queue.iter().filter_map(|job| job.not_before);
    let held = held(view).and_then(|hold| hold.seconds());
    let held = held.map(|seconds| view.now + Duration::from_secs(seconds));
    let waits = waits.filter(|_| idle).chain(view.unreadable.values().filter_map(|c| c.until));
    Action::Wait(waits.chain(held).filter(|until| *until > view.now).min())
}

/// Returns why the newest pair is not unpacked now, if only the cadence holds it.
pub fn held(view: &View<'_>) -> Option<Hold> {
    if view.running.is_some() || view.queue.iter().any(|job| job.origin != Origin::Found) {
        return None;
    }
    wanted(view).and_then(|pair| view.hold(pair.slot()))
}

impl View<'_> {
    fn hold(&self, slot: u64) -> Option<Hold> {
        self.cadence.hold(slot, &self.usage)
    }
}

/// Returns the newest pair whose files can be read, if it is newer than `done` or another one of
/// that slot.
fn wanted<'a>(view: &View<'a>) -> Option<&'a Pair> {
    let readable =
        |path: &Path| view.unreadable.get(path).is_none_or(|timer| timer.is_due(view.now));
    let mut pairs = view.pairs.iter().filter(|pair| !view.refused.contains(pair));
    let best = pairs.find(|pair| pair.archives().all(|archive| readable(&archive.path)))?;
    let Some(done) = view.done else { return Some(best) };
    let is_other = || {
        let hash = best.archives().last().map(|archive| archive.name.hash());
        view.done_hash.zip(hash).is_some_and(|(done, hash)| done != hash)
    };
    (best.slot() > done || best.slot() == done && is_other()).then_some(best)
}

#[cfg(test)]
mod tests;
