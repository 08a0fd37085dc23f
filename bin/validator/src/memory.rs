//! What earlier starts tell about this one: which state is not served again, and when nothing is
//! prepared.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use unsnap_cli::units::count;
use unsnap_fastboot::{
    AttemptRules, Attempts, Candidates, Failed, FastbootError, FileIdentity, Killed, LedgerLock,
    Pair, Places, Request, StartCounts, StateName,
};
use unsnap_ring::Syscalls;
use unsnap_settings::format_duration;

/// The memory of starts on a ledger.
pub struct Memory {
    attempts: Attempts,
    rules: AttemptRules,
    snapshots: PathBuf,
    /// Seconds since 1970 at the beginning.
    now: u64,
    /// All archives, to tell which state was made from which.
    candidates: Option<Candidates>,
}

/// What is to be prepared.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    /// What was requested.
    AsRequested,
    /// An older pair of archives. The validator must be told to ignore the newer ones.
    Older {
        /// The pair.
        pair: Box<Pair>,
        /// Number of slots by which it is older than the newest one.
        behind: u64,
    },
    /// Nothing, for this reason.
    Nothing(String),
}

/// What has been learned from earlier starts.
#[derive(Debug, Default)]
pub struct Learned {
    /// The number of preparations that were killed, one after the other.
    pub killed: u32,
    /// The state with which validators have ended early.
    pub failed: Option<Failed>,
    /// Slots of states that were withdrawn for that reason.
    pub withdrawn: Vec<u64>,
}

impl Memory {
    /// Reads the memory. `None` if nothing may be written there: the ledger is missing, belongs to
    /// another user, or a validator is running on it.
    pub fn open(places: &Places, rules: AttemptRules, now: u64) -> Option<Self> {
        let owner = |path: &Path| path.metadata().map(|metadata| metadata.uid());
        // procfs shows a process's own directory under its effective user.
        let user = owner(Path::new("/proc/self")).ok()?;
        if owner(&places.ledger).ok()? != user || owner(&places.snapshots).ok()? != user {
            return None;
        }
        if let Err(error @ FastbootError::Running { .. }) = LedgerLock::take(&places.ledger) {
            tracing::debug!(%error, "starts are not remembered");
            return None;
        }
        Some(Self {
            attempts: Attempts::read(&Syscalls::default(), &places.snapshots),
            rules,
            snapshots: places.snapshots.clone(),
            now,
            candidates: Candidates::find(&places.search_dirs()).ok(),
        })
    }

    /// Judges earlier starts. With `is_start`, a validator is to be started now: then the one before
    /// has ended. `takes_older` says whether a validator can be told to ignore archives.
    ///
    /// Withdraws states that are not to be served. Remembers that a preparation begins, unless
    /// nothing is to be prepared.
    pub fn plan(
        &mut self,
        request: &Request,
        is_start: bool,
        takes_older: bool,
    ) -> (Plan, Learned) {
        if request.replace {
            self.attempts.forget();
        }
        let killed = self.attempts.judge_preparations(self.now, self.rules);
        let failed = if is_start { self.attempts.judge_state(self.now, self.rules) } else { None };
        if let Some(failed) = failed.as_ref().filter(|failed| failed.too_often) {
            self.suspect(failed);
        }
        let name = |slot| self.name(slot);
        let withdrawn =
            self.attempts.withdraw_suspects(&Syscalls::default(), &request.places, name);
        let (plan, withdrawn) = match withdrawn {
            Ok(withdrawn) => (self.choose(killed, takes_older), withdrawn),
            // A suspect could be served if more were done. The mark of a state that cannot be
            // removed could not be replaced either.
            Err(error) => (Plan::Nothing(error.to_string()), Vec::new()),
        };
        self.attempts.starts.withdrawn += withdrawn.len() as u64;
        if !matches!(plan, Plan::Nothing(_)) {
            self.attempts.begin(self.now);
        }
        self.write();
        (plan, Learned { killed: killed.times, failed, withdrawn })
    }

    fn suspect(&mut self, failed: &Failed) {
        let slot = failed.state.slot;
        let pair = self.pairs().find(|pair| pair.slot() == slot);
        self.attempts.suspect(failed.state.clone(), pair.as_ref());
    }

    fn choose(&self, killed: Killed, takes_older: bool) -> Plan {
        if killed.too_often {
            return Plan::Nothing(format!(
                "{} ended by SIGKILL, the lack of memory or a crash, one after the other; --replace \
                 tries again, as does the first start after a day",
                count(killed.times.into(), "preparation")
            ));
        }
        let pairs: Vec<Pair> = self.pairs().collect();
        let refused = self.attempts.refused(&pairs, |path| FileIdentity::of(path).ok());
        let Some(newest) = pairs.first().filter(|newest| refused.contains(newest)) else {
            return Plan::AsRequested;
        };
        match pairs.iter().find(|pair| !refused.contains(pair)) {
            Some(pair) if takes_older => {
                let behind = newest.slot() - pair.slot();
                Plan::Older { pair: Box::new(pair.clone()), behind }
            }
            _ => Plan::Nothing(
                "validators have ended early with states made from the newest archives; newer \
                 archives or --replace try again"
                    .to_owned(),
            ),
        }
    }

    /// The preparation has ended, and this process has not.
    pub fn end(&mut self) {
        self.attempts.end();
        self.write();
    }

    /// A state is given to the validator now.
    pub fn serve(&mut self, slot: u64, now: u64) {
        self.attempts.serve(self.name(slot), now);
        self.write();
    }

    /// Returns the numbers of starts.
    pub fn starts(&mut self) -> &mut StartCounts {
        &mut self.attempts.starts
    }

    /// Writes the memory. Nothing is worse without it than it was before.
    pub fn write(&self) {
        if let Err(error) = self.attempts.write(&Syscalls::default(), &self.snapshots) {
            tracing::warn!(%error, "this start is not remembered");
        }
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.candidates.iter().flat_map(Candidates::pairs)
    }

    fn name(&self, slot: u64) -> StateName {
        StateName::of_slot(slot, self.pairs())
    }
}

/// Withdraws states that are not to be served, as [`Memory::plan`] does: another unsnap may have made
/// one since.
pub fn withdraw_given_up(places: &Places) -> Result<(), FastbootError> {
    let calls = Syscalls::default();
    let candidates = Candidates::find(&places.search_dirs()).ok();
    let pairs = || candidates.iter().flat_map(Candidates::pairs);
    let attempts = Attempts::read(&calls, &places.snapshots);
    let name = |slot| StateName::of_slot(slot, pairs());
    for slot in attempts.withdraw_suspects(&calls, places, name)? {
        tracing::warn!(
            slot,
            "withdrew a state that was made meanwhile: validators had ended with it"
        );
    }
    Ok(())
}

impl Learned {
    /// Returns what an operator should know, in words.
    pub fn warnings(&self, window: Duration) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.killed > 0 {
            warnings.push(format!(
                "{} before this one did not end by itself",
                count(self.killed.into(), "preparation")
            ));
        }
        if let Some(Failed { state, times, too_often }) = &self.failed {
            let then = if *too_often { ": it is not served again" } else { "" };
            warnings.push(format!(
                "{} started from the state of slot {} and ended within {}{then}",
                count((*times).into(), "validator"),
                state.slot,
                format_duration(window),
            ));
        }
        for slot in &self.withdrawn {
            warnings.push(format!("withdrew the state of slot {slot}"));
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
