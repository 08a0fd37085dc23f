//! What earlier starts tell about this one: which state is not served again, and when nothing is
//! prepared.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use unsnap_cli::units::count;
use unsnap_fastboot::{
    AttemptRules, Attempts, Candidates, Failed, FastbootError, FileIdentity, Killed, LedgerLock,
    Pair, Places, Request, SearchDirs, StartCounts, StateName, marked_states,
};
use unsnap_ring::Syscalls;
use unsnap_settings::format_duration;

/// The memory of starts on a ledger.
pub struct Memory {
    attempts: Attempts,
    rules: AttemptRules,
    snapshots: PathBuf,
    dirs: SearchDirs,
    /// Seconds since 1970 at the beginning.
    now: u64,
    /// All archives, to tell which state was made from which.
    candidates: Option<Candidates>,
}

/// The mark of a preparation that has begun. It is taken away while the preparation only waits: a
/// process that is killed then was not killed by preparing.
#[derive(Clone)]
pub struct Mark {
    attempts: Attempts,
    snapshots: PathBuf,
}

impl Mark {
    /// The preparation waits for another process.
    pub fn take_away(&mut self) {
        self.attempts.wait();
        write(&self.attempts, &self.snapshots);
    }

    /// The wait is over.
    pub fn set_again(&mut self, now: u64) {
        self.attempts.begin(now);
        write(&self.attempts, &self.snapshots);
    }
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
    /// No state: the validator is to unpack the archives, which are checked before.
    Checked,
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
    /// Slot of a state that was not withdrawn, because the validator takes nothing but states, and there
    /// is no other one to be made.
    pub kept: Option<u64>,
}

impl Memory {
    /// Reads the memory. `None` if nothing may be written there: the ledger is missing, belongs to
    /// another user, or a validator is running on it.
    pub fn open(places: &Places, rules: AttemptRules, now: u64) -> Option<Self> {
        if !is_own(places) {
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
            dirs: places.search_dirs(),
            now,
            candidates: Candidates::find(&places.search_dirs()).ok(),
        })
    }

    /// Judges earlier starts. With `is_start`, a validator is to be started now: then the one before
    /// has ended. `takes_older` says whether a validator can be told to ignore archives, `takes_states`
    /// whether it is told to take nothing but states.
    ///
    /// Withdraws states that are not to be served. Remembers that a preparation begins, unless
    /// nothing is to be prepared.
    pub fn plan(
        &mut self,
        request: &Request,
        is_start: bool,
        takes_older: bool,
        takes_states: bool,
    ) -> (Plan, Learned) {
        if request.replace {
            self.attempts.forget();
        }
        self.attempts.forget_gone();
        let killed = self.attempts.judge_preparations(self.now, self.rules);
        let failed = if is_start { self.attempts.judge_state(self.now, self.rules) } else { None };
        if let Some(failed) = failed.as_ref().filter(|failed| failed.too_often) {
            self.suspect(failed);
        }
        let kept = if takes_states { self.last_resort(&request.places) } else { None };
        let name = |slot| self.name(slot);
        let withdrawn = match kept {
            Some(_) => Ok(Vec::new()),
            None => self.attempts.withdraw_suspects(&Syscalls::default(), &request.places, name),
        };
        let (plan, withdrawn) = match withdrawn {
            Ok(withdrawn) => {
                self.attempts.withdrawn();
                let is_kept = kept.is_some() && !killed.too_often;
                let choose = || self.choose(&request.places, killed, takes_older);
                (if is_kept { Plan::AsRequested } else { choose() }, withdrawn)
            }
            // A suspect could be served if more were done. The mark of a state that cannot be
            // removed could not be replaced either.
            Err(error) => (Plan::Nothing(error.to_string()), Vec::new()),
        };
        self.attempts.starts.withdrawn += withdrawn.len() as u64;
        if !matches!(plan, Plan::Nothing(_)) {
            self.attempts.begin(self.now);
        }
        self.write();
        (plan, Learned { killed: killed.times, failed, withdrawn, kept })
    }

    /// Returns the slot of the validator's state if it is not to be served, and no other state is to be
    /// made. A validator that takes nothing but states would end without it, at every start. It is
    /// verified by then, and states of several archives have ended validators: the reason is elsewhere.
    fn last_resort(&self, places: &Places) -> Option<u64> {
        let states = marked_states(&Syscalls::default(), places).unwrap_or_default();
        let (slot, _) = states.first()?;
        let pairs: Vec<Pair> = self.pairs().collect();
        let refused = self.attempts.refused(&pairs, |path| FileIdentity::of(path).ok());
        let is_last = pairs.iter().all(|pair| refused.contains(pair));
        (is_last && self.attempts.is_suspect(&self.name(*slot))).then_some(*slot)
    }

    fn suspect(&mut self, failed: &Failed) {
        let slot = failed.state.slot;
        let pair = self.pairs().find(|pair| pair.slot() == slot);
        self.attempts.suspect(failed.state.clone(), pair.as_ref());
    }

    fn choose(&self, places: &Places, killed: Killed, takes_older: bool) -> Plan {
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
        // A validator's own state, which may be served, is newer.
        let states = marked_states(&Syscalls::default(), places).unwrap_or_default();
        if states.first().is_some_and(|(slot, _)| *slot > newest.slot()) {
            return Plan::AsRequested;
        }
        match pairs.iter().find(|pair| !refused.contains(pair)) {
            Some(pair) if takes_older => {
                let behind = newest.slot() - pair.slot();
                Plan::Older { pair: Box::new(pair.clone()), behind }
            }
            _ if !self.attempts.is_checked(newest) => Plan::Checked,
            _ => Plan::Nothing(
                "validators have ended early with states made from the newest archives; newer \
                 archives or --replace try again"
                    .to_owned(),
            ),
        }
    }

    /// Returns the slots of states that are to be verified before they are served again.
    pub fn accused(&self) -> Vec<u64> {
        if self.rules.attempts == 0 { Vec::new() } else { self.attempts.accused() }
    }

    /// No other state could be made, and the validator cannot do without one: the one that was withdrawn
    /// stays. Returns its slot.
    pub fn restore(&mut self, places: &Places, learned: &mut Learned) -> Option<u64> {
        let pairs: Vec<Pair> = self.pairs().collect();
        let name = |slot| StateName::of_slot(slot, pairs.iter().cloned());
        let slot = match self.attempts.restore_withdrawn(&Syscalls::default(), places, name) {
            Ok(slot) => slot?,
            Err(error) => {
                tracing::warn!(%error, "the withdrawn state cannot be restored");
                return None;
            }
        };
        let before = learned.withdrawn.len();
        learned.withdrawn.retain(|withdrawn| *withdrawn != slot);
        self.attempts.starts.withdrawn -= (before - learned.withdrawn.len()) as u64;
        learned.kept = Some(slot);
        Some(slot)
    }

    /// Returns the mark of the preparation that [`plan`](Self::plan) has begun. It remembers what was
    /// known then, so it is of use only until the preparation has ended.
    pub fn mark(&self) -> Mark {
        Mark { attempts: self.attempts.clone(), snapshots: self.snapshots.clone() }
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

    /// The newest archives were checked, and bad ones set aside.
    pub fn checked(&mut self) {
        let pairs = Candidates::find(&self.dirs).ok();
        if let Some(pair) = pairs.iter().flat_map(Candidates::pairs).next() {
            self.attempts.checked(&pair);
        }
    }

    /// No state is given to the validator, but it may find an old one, which then counts as given.
    /// `takes_any` says whether it loads one that is older than the archives.
    pub fn give_up(&mut self, places: &Places, takes_any: bool, now: u64) {
        let states = marked_states(&Syscalls::default(), places).unwrap_or_default();
        let newest = self.pairs().next().map_or(0, |pair| pair.slot());
        match states.first().filter(|(slot, _)| takes_any || *slot >= newest) {
            Some((slot, _)) => self.serve(*slot, now),
            None => self.write(),
        }
    }

    /// Returns the numbers of starts.
    pub fn starts(&mut self) -> &mut StartCounts {
        &mut self.attempts.starts
    }

    /// Writes the memory. Nothing is worse without it than it was before.
    pub fn write(&self) {
        write(&self.attempts, &self.snapshots);
    }

    fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.candidates.iter().flat_map(Candidates::pairs)
    }

    fn name(&self, slot: u64) -> StateName {
        StateName::of_slot(slot, self.pairs())
    }
}

/// Tells others that a validator is about to be started, so that they keep away from its ledger's lock.
pub fn announce_start(places: &Places) {
    if is_own(places)
        && let Err(error) = Attempts::announce_start(&Syscalls::default(), &places.snapshots)
    {
        tracing::warn!(%error, "others do not know of this start");
    }
}

/// Returns whether ledger and snapshots directory belong to this process's user.
fn is_own(places: &Places) -> bool {
    let owner = |path: &Path| path.metadata().map(|metadata| metadata.uid()).ok();
    // procfs shows a process's own directory under its effective user.
    let user = owner(Path::new("/proc/self"));
    user.is_some() && owner(&places.ledger) == user && owner(&places.snapshots) == user
}

fn write(attempts: &Attempts, snapshots: &Path) {
    if let Err(error) = attempts.write(&Syscalls::default(), snapshots) {
        tracing::warn!(%error, "this start is not remembered");
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
    pub fn warnings(&self, rules: AttemptRules) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.killed > 0 {
            warnings.push(format!(
                "{} before this one did not end by itself",
                count(self.killed.into(), "preparation")
            ));
        }
        if let Some(Failed { state, times, too_often }) = &self.failed {
            let then = match (too_often, rules.attempts) {
                (true, _) if self.kept.is_some() => {
                    ": it is served again, because this validator takes nothing but states"
                }
                (true, _) => ": it is not served again",
                (false, 0) => "",
                (false, _) => ": its accounts are verified before it is served again",
            };
            warnings.push(format!(
                "{} started from the state of slot {} and ended within {}{then}",
                count((*times).into(), "validator"),
                state.slot,
                format_duration(rules.window),
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
