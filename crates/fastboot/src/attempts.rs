//! Memory of a validator's starts, so that a start that fails does not recur for ever.
//!
//! Two things must not recur: a state that passes all checks and still ends the validator that loads
//! it, and a preparation that ends this process (out of memory, or a bug). Neither can be seen while
//! it happens. Both can be seen at the next start, because the file `.unsnap-attempts` in the
//! snapshots directory outlives processes and power cuts:
//!
//! | in the file | means at the next start |
//! |---|---|
//! | a preparation that has begun and not ended | it was killed |
//! | a state that was served a short time ago | the validator that loaded it has ended early |
//!
//! A process that has not ended yet says nothing: two starts may be made at once.
//!
//! Times are passed in, in seconds since 1970. A clock that goes backwards counts as no time at all:
//! it never makes a start suspicious.

mod file;
mod judgment;
mod process;
mod suspect;
mod withdrawal;

use std::{path::Path, time::Duration};

use rustix::{
    fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use unsnap_failure::Failure;
use unsnap_ring::Syscalls;

use self::{
    file::overwrite,
    process::ProcessName,
    suspect::{Suspect, SuspectArchive, suspect_archives},
};
pub use self::{file::write_durably, suspect::StateName};
use crate::{
    ATTEMPTS_FILE, FastbootError, FileIdentity, Pair,
    files::{failed, open_directory, read_small},
};

/// Longest file that is read. Its lists are bounded, so that it has at most some 20 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file's length is a multiple of this, a block of most file systems.
const PADDED_TO: usize = 4096;

/// Most states and most pairs of archives that are remembered. A guess: a validator keeps two full
/// and four incremental archives.
const REMEMBERED_MAX: usize = 16;

/// Most pairs of archives whose states may end validators before none is tried any more. A guess.
const PAIRS_MAX: usize = 2;

/// Time after which killed preparations are forgotten. A guess: the reason, such as too little
/// memory, may be gone, and one more attempt a day costs little.
const KILLED_FORGOTTEN_AFTER: u64 = 24 * 3600;

/// Version of the file. A file of another version is ignored.
const VERSION: u32 = 1;

/// When a start counts as failed, and how often that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRules {
    /// Number of failures after which a state is not served again, and after which nothing is
    /// prepared; 0 for no limit.
    pub attempts: u32,
    /// A validator that is started again within this time after it was given a state has failed.
    pub window: Duration,
}

impl Default for AttemptRules {
    fn default() -> Self {
        // Guesses: a validator needs a few minutes from the state to its first vote.
        Self { attempts: 2, window: Duration::from_mins(10) }
    }
}

/// The memory of a validator's starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    version: u32,
    /// When the preparation began that has not ended.
    #[serde(default)]
    begun: Option<u64>,
    /// The process in which it began.
    #[serde(default)]
    begun_by: Option<ProcessName>,
    /// Preparations that were killed, one after the other, and when the last one began.
    #[serde(default)]
    killed: u32,
    #[serde(default)]
    killed_at: u64,
    /// States that were given to a validator, the last one last.
    #[serde(default)]
    served: Vec<Served>,
    /// States that have ended validators too often, the last one last.
    #[serde(default)]
    suspects: Vec<Suspect>,
    /// Numbers of starts, by their results.
    #[serde(default)]
    pub starts: StartCounts,
}

/// Numbers of starts since the file was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartCounts {
    /// A state prepared beside was adopted.
    pub adopted: u64,
    /// Archives were unpacked.
    pub unpacked: u64,
    /// A state existed.
    pub ready: u64,
    /// The validator was started without a state.
    pub given_up: u64,
    /// States withdrawn because validators had ended with them.
    pub withdrawn: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Served {
    state: StateName,
    /// When it was given to a validator the last time, until that has been judged.
    #[serde(default)]
    at: Option<u64>,
    /// The process that becomes that validator.
    #[serde(default)]
    by: Option<ProcessName>,
    /// Number of validators that have ended early with it, one after the other.
    #[serde(default)]
    failures: u32,
}

/// Preparations that were killed, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Killed {
    /// Their number.
    pub times: u32,
    /// Whether no other one is to be begun.
    pub too_often: bool,
}

/// A state with which validators have ended early, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The state.
    pub state: StateName,
    /// Their number.
    pub times: u32,
    /// Whether the state is not to be served again.
    pub too_often: bool,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            version: VERSION,
            begun: None,
            begun_by: None,
            killed: 0,
            killed_at: 0,
            served: Vec::new(),
            suspects: Vec::new(),
            starts: StartCounts::default(),
        }
    }
}

impl Attempts {
    /// Reads the memory in a snapshots directory. A file that is missing, damaged or of another
    /// version counts as empty: nothing that is remembered is worth failing a start.
    pub fn read(calls: &Syscalls, snapshots: &Path) -> Self {
        let bytes = open_directory(calls, snapshots).and_then(|directory| {
            read_small(calls, &directory, ATTEMPTS_FILE, FILE_BYTES_MAX)
                .map_err(|errno| failed("read", &snapshots.join(ATTEMPTS_FILE), errno))
        });
        let bytes = match bytes {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Self::default(),
            Err(error) => {
                tracing::warn!(%error, "earlier starts are not known");
                return Self::default();
            }
        };
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(read) if read.version == VERSION => read,
            Ok(read) => {
                tracing::warn!(
                    version = read.version,
                    "earlier starts are not known: {ATTEMPTS_FILE} has another version"
                );
                Self::default()
            }
            Err(error) => {
                tracing::warn!(%error, "earlier starts are not known: {ATTEMPTS_FILE} is damaged");
                Self::default()
            }
        }
    }

    /// Writes the memory, durably. On an error the old file stays. On a full disk, where a state that
    /// ends validators must not be forgotten either, the old file is overwritten instead of replaced;
    /// a power cut may then damage it.
    pub fn write(&self, calls: &Syscalls, snapshots: &Path) -> Result<(), FastbootError> {
        let path = snapshots.join(ATTEMPTS_FILE);
        let mut text = serde_json::to_string(self).unwrap_or_default();
        // Room for later, in blocks that the file has already.
        let padding = text.len().next_multiple_of(PADDED_TO) - text.len();
        text.extend(std::iter::repeat_n(' ', padding));
        match write_durably(calls, &path, text.as_bytes()) {
            Err(error) if matches!(error.errno(), Some(Errno::NOSPC | Errno::DQUOT)) => {
                overwrite(calls, &path, text.as_bytes()).map_err(|_| error)
            }
            result => result,
        }
    }

    /// Tells others that a validator is about to be started ([`is_starting`](crate::is_starting)). What is
    /// remembered stays as it is: another front end may be writing it.
    pub fn announce_start(calls: &Syscalls, snapshots: &Path) -> Result<(), FastbootError> {
        let path = snapshots.join(ATTEMPTS_FILE);
        let keep = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let now = Timestamps {
            last_access: keep,
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        match utimensat(CWD, &path, &now, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Self::default().write(calls, snapshots),
            touched => touched.map_err(|errno| failed("change the time of", &path, errno)),
        }
    }

    /// Forgets everything but the counts: the operator asks for one more attempt.
    pub fn forget(&mut self) {
        *self = Self { starts: self.starts, ..Self::default() };
    }

    /// Returns the slots of states with which the last validator has ended early. They may be good:
    /// that is verified before they are served again.
    pub fn accused(&self) -> Vec<u64> {
        let failed = self.served.iter().filter(|served| served.failures > 0);
        failed.map(|served| served.state.slot).collect()
    }

    /// A state is not to be served again, nor another one made from the same archives.
    pub fn suspect(&mut self, state: StateName, pair: Option<&Pair>) {
        let paths = pair.into_iter().flat_map(Pair::archives).map(|archive| &*archive.path);
        let archives = paths.filter_map(SuspectArchive::of).collect();
        self.served.retain(|served| !served.state.may_be(&state));
        self.suspects.retain(|suspect| !suspect.state.may_be(&state));
        self.suspects.push(Suspect { state, archives, withdrawn: false, checked: false });
        keep_last(&mut self.suspects);
    }

    /// Returns whether a state is not to be served.
    pub fn is_suspect(&self, state: &StateName) -> bool {
        self.suspects.iter().any(|suspect| suspect.state.may_be(state))
    }

    /// Returns whether a validator has ended early with the state of a slot.
    pub fn has_failed(&self, slot: u64) -> bool {
        self.accused().contains(&slot) || self.is_suspect_slot(slot)
    }

    /// Forgets suspects that are gone. Called before each start.
    pub fn forget_gone(&mut self) {
        self.suspects.retain(Suspect::may_exist);
    }

    /// The states that are not to be served were withdrawn.
    pub fn withdrawn(&mut self) {
        self.suspects.iter_mut().for_each(|suspect| suspect.withdrawn = true);
    }

    /// The archives of a suspect were checked.
    pub fn checked(&mut self, pair: &Pair) {
        if let Some(suspect) = suspect_archives(pair).and_then(|archives| {
            self.suspects.iter_mut().find(|suspect| suspect.archives == archives)
        }) {
            suspect.checked = true;
        }
    }

    /// Returns whether the archives of a suspect were checked.
    pub fn is_checked(&self, pair: &Pair) -> bool {
        suspect_archives(pair).is_some_and(|archives| {
            self.suspects.iter().any(|suspect| suspect.checked && suspect.archives == archives)
        })
    }

    /// Returns the states that are not to be served, the last one last.
    pub fn given_up(&self) -> impl Iterator<Item = &StateName> {
        self.suspects.iter().map(|suspect| &suspect.state)
    }

    /// Returns the pairs of which no state is to be made, of all pairs, the best first: those of
    /// states that are not to be served, or all pairs if the newest and another one are among them.
    /// If the second is no better, the reason is elsewhere.
    ///
    /// `file` returns the identity of a file. Archives that have been replaced since are others.
    pub fn refused(
        &self,
        pairs: &[Pair],
        file: impl Fn(&Path) -> Option<FileIdentity>,
    ) -> Vec<Pair> {
        let is_suspect = |pair: &&Pair| self.is_suspect_pair(pair, &file);
        let suspects: Vec<Pair> = pairs.iter().filter(is_suspect).cloned().collect();
        let is_newest = pairs.first().is_some_and(|newest| suspects.first() == Some(newest));
        if is_newest && suspects.len() >= PAIRS_MAX { pairs.to_vec() } else { suspects }
    }

    fn is_suspect_pair(&self, pair: &Pair, file: impl Fn(&Path) -> Option<FileIdentity>) -> bool {
        if self.suspects.is_empty() {
            return false;
        }
        let archive = |path: &Path| Some(SuspectArchive::new(path, file(path)?));
        let archives: Option<Vec<_>> = pair.archives().map(|one| archive(&one.path)).collect();
        archives.is_some_and(|archives| {
            self.suspects.iter().any(|suspect| suspect.was_made_from(&archives))
        })
    }

    /// Returns whether the state of a slot is not to be served, whatever archive it was made from.
    pub(crate) fn is_suspect_slot(&self, slot: u64) -> bool {
        self.is_suspect(&StateName { slot, hash: None })
    }

    /// Returns whether no state is to be made from the archives of a pair.
    pub(crate) fn has_suspect_archives(&self, pair: &Pair) -> bool {
        self.is_suspect_pair(pair, |path| FileIdentity::of(path).ok())
    }
}

/// Forgets the oldest.
fn keep_last<T>(list: &mut Vec<T>) {
    list.drain(..list.len().saturating_sub(REMEMBERED_MAX));
}

#[cfg(test)]
mod tests;
