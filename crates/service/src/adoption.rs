//! Consequences of adopting a ready state.

use unsnap_control::protocol::Event;
use unsnap_fastboot::FastbootError;

use crate::{
    archives::Now,
    plan::RetryTimer,
    state::State,
    target::{Adopted, AdoptionEnd},
};

impl State {
    /// Records that a ready state was moved to where the validator looks.
    pub fn adopted(&mut self, index: usize, adopted: &Adopted) {
        let Adopted { slot, from, to, took, ledger_locked } = adopted;
        self.persistent.move_made(from, to);
        self.unsaved = true;
        let target = &mut self.targets[index];
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let locked_us = u64::try_from(ledger_locked.as_micros()).unwrap_or(u64::MAX);
        target.counts.adopted += 1;
        target.counts.ledger_locked_us += locked_us;
        target.adoption.timer = RetryTimer::default();
        let bytes = self.persistent.made(to).map(|made| made.bytes);
        let target = target.target.name.clone();
        tracing::info!(target, slot, path = %to.display(), bytes, ms, locked_us, "ready state adopted");
        self.events.push(Event::Adopted { target, slot: *slot, path: to.clone() });
    }

    /// Records the result of an attempt to adopt a ready state. Returns whether it was adopted.
    pub fn adoption_ended(
        &mut self,
        index: usize,
        result: Result<AdoptionEnd, FastbootError>,
        now: Now,
    ) -> bool {
        let backoff = self.backoff();
        let target = &mut self.targets[index];
        (target.chore, target.adoption.due) = (None, false);
        match result {
            Ok(AdoptionEnd::Adopted(adopted)) => {
                self.adopted(index, &adopted);
                return true;
            }
            // Things have changed since the scan.
            Ok(AdoptionEnd::Unwanted) => {}
            Ok(AdoptionEnd::NotWhole) => {
                // A job makes another one.
                let newest = target.results.first().map(|newest| newest.path.clone());
                tracing::warn!(
                    target = target.target.name,
                    path = newest.as_ref().map(|path| path.display().to_string()),
                    "the ready state cannot be adopted; the next job replaces it"
                );
                target.unusable = newest;
                target.checked = false;
                target.adoption.timer.failed(backoff, now.instant);
            }
            // A validator runs, or starts just now.
            Err(error) if error.is_in_the_way() => {}
            Err(error) => {
                target.adoption.timer.failed(backoff, now.instant);
                tracing::warn!(
                    target = target.target.name, %error,
                    "cannot adopt the ready state; trying again later"
                );
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{state::Chore, target::Found, testing};

    #[test]
    fn a_ready_state_that_is_not_whole_does_not_keep_the_next_one_away() {
        let now = Now::get();
        let mut state = testing::at_work(now);
        let target = &mut state.targets[0];
        (target.running, target.checked) = (None, true);
        let found = |slot: u64| Found {
            slot,
            base_slot: None,
            path: slot.to_string().into(),
            changed_unix_ms: 0,
        };
        target.results = vec![found(9), found(5)];
        assert_eq!(target.done(), Some(9));
        assert!(!state.adoption_ended(0, Ok(AdoptionEnd::Unwanted), now));
        assert_eq!(state.targets[0].done(), Some(9));
        assert!(!state.adoption_ended(0, Ok(AdoptionEnd::NotWhole), now));
        let target = &state.targets[0];
        assert_eq!(target.newest().map(|newest| newest.slot), Some(5));
        assert_eq!(target.done(), None, "a job is to check what is there");
        // It is not tried again and again.
        assert!(!target.adoption.timer.is_due(now.instant));
        // While a validator runs, nothing has failed.
        let mut state = testing::at_work(now);
        state.targets[0].chore = Some(Chore::Adoption);
        let ledger = "/l".into();
        let running = FastbootError::Running { ledger, holder: None };
        assert!(!state.adoption_ended(0, Err(running), now));
        let target = &state.targets[0];
        assert!(target.adoption.timer.is_due(now.instant) && target.chore.is_none());
        assert_eq!(target.unusable, None);
    }
}
