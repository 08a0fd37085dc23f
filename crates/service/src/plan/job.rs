//! A job: one pair of archives for one target.

use std::{path::PathBuf, time::Instant};

use unsnap_control::protocol::Origin;
use unsnap_unpack::{FileIdentity, Pair};

/// A job that waits, or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// No other job has had it.
    pub id: u64,
    /// What is to be unpacked.
    pub pair: Pair,
    /// The files of the pair when it was chosen.
    pub files: Vec<(PathBuf, FileIdentity)>,
    /// Who wanted it.
    pub origin: Origin,
    /// The how manieth attempt is next, or running; from 1.
    pub attempt: u32,
    /// Not to be started before this.
    pub not_before: Option<Instant>,
    /// What the attempt before failed of.
    pub last_error: Option<String>,
}

impl Job {
    /// The slot that comes of it.
    pub fn slot(&self) -> u64 {
        self.pair.slot()
    }

    /// Whether it may be started.
    pub fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|until| until <= now)
    }
}

/// Whether two pairs are of the same files.
pub fn same_archives(one: &Pair, other: &Pair) -> bool {
    one.archives().map(|archive| &archive.path).eq(other.archives().map(|archive| &archive.path))
}
