//! A job: one pair of archives for one target.

use std::{path::PathBuf, time::Instant};

use unsnap_control::protocol::Origin;
use unsnap_fastboot::{FileIdentity, Pair};

/// A queued or running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Number, never reused.
    pub id: u64,
    /// Archives to unpack.
    pub pair: Pair,
    /// Identity of the pair's files when it was chosen.
    pub files: Vec<(PathBuf, FileIdentity)>,
    /// Origin of the job.
    pub origin: Origin,
    /// Number of the running or next attempt, from 1.
    pub attempt: u32,
    /// Earliest start of the next attempt.
    pub not_before: Option<Instant>,
    /// Error of the previous attempt.
    pub last_error: Option<String>,
}

impl Job {
    /// Returns the slot of the resulting state.
    pub fn slot(&self) -> u64 {
        self.pair.slot()
    }

    /// Returns whether the job may start.
    pub fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|until| until <= now)
    }
}

/// Returns whether two pairs have the same paths.
pub fn same_archives(one: &Pair, other: &Pair) -> bool {
    one.archives().map(|archive| &archive.path).eq(other.archives().map(|archive| &archive.path))
}
