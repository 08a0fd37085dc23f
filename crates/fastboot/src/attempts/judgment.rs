//! What becomes of preparations and of validators that were given a state.

use super::{
    AttemptRules, Attempts, Failed, KILLED_FORGOTTEN_AFTER, Killed, Served, StateName, keep_last,
    process::ProcessName,
};

impl Attempts {
    /// Judges what became of the last preparation. Called before each one.
    pub fn judge_preparations(&mut self, now: u64, rules: AttemptRules) -> Killed {
        let by = self.begun_by.take();
        if let Some(begun) = self.begun.take().filter(|_| !is_alive(by.as_ref())) {
            self.killed = self.killed.saturating_add(1);
            self.killed_at = begun;
        }
        if now.saturating_sub(self.killed_at) >= KILLED_FORGOTTEN_AFTER {
            self.killed = 0;
        }
        let too_often = rules.attempts > 0 && self.killed >= rules.attempts;
        Killed { times: self.killed, too_often }
    }

    /// Judges what became of the validator that was given a state last. Called once at each start,
    /// when no validator is running on the ledger. `None` if it is not known to have ended early: it may
    /// be about to lock the ledger.
    ///
    /// A state that was given to a validator although it was a suspect, and with which that one has
    /// run for long, is none any more.
    pub fn judge_state(&mut self, now: u64, rules: AttemptRules) -> Option<Failed> {
        let last = self.served.last_mut()?;
        // Counted once: a start that gives no state to a validator says nothing about the last one.
        if let Some(at) = last.at.take_if(|_| !is_alive(last.by.as_ref())) {
            let is_early = now >= at && now - at < rules.window.as_secs();
            last.failures = if is_early { last.failures.saturating_add(1) } else { 0 };
            // A clock that has gone backwards clears nobody.
            if !is_early && now >= at {
                self.suspects.retain(|suspect| !suspect.state.may_be(&last.state));
            }
        }
        let times = last.failures;
        let too_often = rules.attempts > 0 && times >= rules.attempts;
        (times > 0).then(|| Failed { state: last.state.clone(), times, too_often })
    }

    /// A preparation begins.
    pub fn begin(&mut self, now: u64) {
        (self.begun, self.begun_by) = (Some(now), ProcessName::of_this());
    }

    /// The preparation only waits for another process: a kill says nothing about it. It begins again
    /// when the wait is over.
    pub fn wait(&mut self) {
        (self.begun, self.begun_by) = (None, None);
    }

    /// The preparation has ended, in whatever way, and this process has not.
    pub fn end(&mut self) {
        (self.begun, self.begun_by) = (None, None);
        self.killed = 0;
    }

    /// A state is given to a validator.
    pub fn serve(&mut self, state: StateName, now: u64) {
        let before = self.served.iter().position(|served| served.state.may_be(&state));
        let failures = before.map_or(0, |index| self.served.remove(index).failures);
        self.served.push(Served { state, at: Some(now), by: ProcessName::of_this(), failures });
        keep_last(&mut self.served);
    }
}

/// Returns whether a process other than this one is still there.
fn is_alive(process: Option<&ProcessName>) -> bool {
    process.is_some_and(ProcessName::is_another_alive)
}
