//! States that validators have ended with, as `validator` remembers them.

use std::path::Path;

use unsnap_control::protocol::Event;
use unsnap_fastboot::{Attempts, FileIdentity, Pair};

use crate::state::{CancelReason, State, TargetState};

impl State {
    /// Sets the archives that may be unpacked, the best first. A job that makes a state which no
    /// validator is given any more ends. `file` returns the identity of a file.
    pub fn offer(&mut self, pairs: Vec<Pair>, file: impl Fn(&Path) -> Option<FileIdentity>) {
        for target in &mut self.targets {
            target.refused = target.attempts.refused(&pairs, &file);
            if let Some(running) = &mut target.running
                && running.cancel_reason.is_none()
                && target.refused.contains(&running.job.pair)
            {
                let (job, target) = (running.job.id, &target.target.name);
                tracing::info!(job, target, "ending the job: {}", too_often(running.job.slot()));
                running.end(CancelReason::Cancelled);
            }
        }
        self.pairs = pairs;
    }

    /// Returns the best archives for a target.
    pub fn best_pair(&self, target: &TargetState) -> Option<&Pair> {
        self.pairs.iter().find(|pair| !target.refused.contains(pair))
    }

    /// Returns why nothing is made of the newest archives, if validators have ended with their state.
    pub fn given_up(&self, target: &TargetState) -> Option<String> {
        let newest = self.pairs.first()?;
        target.refused.contains(newest).then(|| {
            let why = too_often(newest.slot());
            format!("{why}; newer archives or `validator --replace` try again")
        })
    }
}

impl TargetState {
    /// Takes note of what is remembered of validators' starts. Returns an event for each state that
    /// was given up since, or before this process began.
    pub fn learn(&mut self, attempts: Attempts) -> Vec<Event> {
        let is_known = |slot: u64| self.attempts.given_up().any(|state| state.slot == slot);
        let new = attempts.given_up().map(|state| state.slot).filter(|slot| !is_known(*slot));
        let events = new.map(|slot| {
            let (target, message) = (self.target.name.clone(), too_often(slot));
            tracing::warn!(target, slot, "{message}");
            Event::StateGivenUp { target, slot, message }
        });
        let events: Vec<Event> = events.collect();
        self.counts.states_given_up += events.len() as u64;
        self.attempts = attempts;
        events
    }
}

fn too_often(slot: u64) -> String {
    format!("validators have ended early with the state of slot {slot}, which is not made again")
}

#[cfg(test)]
mod tests {
    use unsnap_fastboot::StateName;

    use super::*;
    use crate::{archives::Now, testing};

    const FILE: FileIdentity = FileIdentity { bytes: 1, modified_ns: 2, inode: 3 };

    fn given_up(scratch: &Path, slot: u64) -> (Pair, Attempts) {
        let mut archive = testing::archive(slot, None);
        archive.path = scratch.join(archive.path.file_name().unwrap());
        std::fs::write(&archive.path, "x").unwrap();
        let pair = Pair::new(archive, None).unwrap();
        let mut attempts = Attempts::default();
        attempts.suspect(StateName::of(&pair), Some(&pair));
        (pair, attempts)
    }

    #[test]
    fn the_job_of_a_state_that_was_given_up_ends_and_the_next_best_archives_are_wanted() {
        let scratch = tempfile::tempdir().unwrap();
        let (pair, attempts) = given_up(scratch.path(), 5);
        let mut state = testing::at_work(Now::get());
        let older = testing::full(4);
        let file = |path: &Path| FileIdentity::of(path).ok();
        state.targets[0].running.as_mut().unwrap().job.pair = pair.clone();
        state.offer(vec![pair.clone(), older.clone()], file);
        assert_eq!(state.targets[0].running.as_ref().unwrap().cancel_reason, None);
        assert_eq!(state.given_up(&state.targets[0]), None);

        let events = state.targets[0].learn(attempts.clone());
        let [Event::StateGivenUp { target, slot: 5, .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!((&**target, state.targets[0].counts.states_given_up), ("t", 1));
        // Told once.
        assert_eq!(state.targets[0].learn(attempts), []);
        assert_eq!(state.targets[0].counts.states_given_up, 1);
        state.offer(vec![pair.clone(), older.clone()], file);
        let target = &state.targets[0];
        let running = target.running.as_ref().unwrap();
        assert_eq!(running.cancel_reason, Some(CancelReason::Cancelled));
        assert_eq!(state.best_pair(target), Some(&older));
        let told = state.given_up(target).unwrap();
        assert!(told.starts_with("validators have ended early with the state of slot 5"), "{told}");
        // Downloaded again, it is another one.
        state.offer(vec![pair.clone(), older], |_| Some(FILE));
        assert_eq!(state.best_pair(&state.targets[0]), Some(&pair));
    }
}
