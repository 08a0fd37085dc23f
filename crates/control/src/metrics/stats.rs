//! The numbers.

use super::ProcessStats;
use crate::protocol::TargetState;

/// The service at one moment.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Version of the service.
    pub version: String,
    /// When it was started: milliseconds since 1970, UTC.
    pub started_unix_ms: u64,
    /// Whether somebody has paused it.
    pub paused: bool,
    /// Slot of the newest archives that are there.
    pub newest_archive_slot: Option<u64>,
    /// Archives that are passed over since they are bad.
    pub bad_archives: u64,
    /// All targets.
    pub targets: Vec<TargetStats>,
    /// The process.
    pub process: ProcessStats,
}

/// A target.
#[derive(Clone, Debug)]
pub struct TargetStats {
    /// Its name in the configuration.
    pub name: String,
    /// How it stands.
    pub state: TargetState,
    /// Its jobs by now.
    pub jobs: JobCounts,
    /// What has been counted.
    pub counts: TargetCounts,
    /// How far the running job is, from 0 to 1.
    pub progress: Option<f64>,
    /// Slot of the newest result.
    pub newest_result_slot: Option<u64>,
    /// Results that are there.
    pub results: u64,
}

/// What is counted of a target since the start of the service. Bytes and files are those of attempts
/// that have made something.
#[derive(Clone, Debug, Default)]
pub struct TargetCounts {
    /// Attempts at jobs that are over.
    pub ended: OutcomeCounts,
    /// Errors.
    pub errors: ErrorCounts,
    /// Compressed bytes that have been decoded.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files that are complete.
    pub files: u64,
    /// Milliseconds for which jobs were held back by the rate limit.
    pub held_back_ms: u64,
    /// Times that a job went another way than the best (no direct I/O, no io_uring).
    pub fallbacks: u64,
    /// When a job was done last: milliseconds since 1970, UTC. Of an earlier process, if need be.
    pub last_success_unix_ms: Option<u64>,
    /// How long that job took.
    pub last_duration_ms: Option<u64>,
    /// Results that have been removed.
    pub results_removed: u64,
}

/// Jobs by their state: [`JobState`](crate::protocol::JobState).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the states themselves
pub struct JobCounts {
    pub queued: u64,
    pub running: u64,
    pub paused: u64,
    pub retrying: u64,
}

/// Attempts at jobs by how they ended: [`Outcome`](crate::protocol::Outcome).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the outcomes themselves
pub struct OutcomeCounts {
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub superseded: u64,
    pub bad_archive: u64,
}

/// Errors by their family, as of `unsnap_unpack::Family`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the families themselves
pub struct ErrorCounts {
    pub bad_archive: u64,
    pub request: u64,
    pub environment: u64,
    pub not_clean: u64,
}

impl TargetStats {
    /// A target of which nothing is known yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: TargetState::Idle,
            jobs: JobCounts::default(),
            counts: TargetCounts::default(),
            progress: None,
            newest_result_slot: None,
            results: 0,
        }
    }
}
