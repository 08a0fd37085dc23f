//! Status of a job.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A job: one pair of archives for one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Number, never reused.
    pub id: u64,
    /// Name of its target.
    pub target: String,
    /// Slot of the resulting state.
    pub slot: u64,
    /// Slot of the full archive, if there is an incremental one.
    pub base_slot: Option<u64>,
    /// Path of the full archive, followed by that of the incremental one, if there is one.
    #[serde(with = "super::path::list")]
    pub archives: Vec<PathBuf>,
    /// Origin.
    pub origin: Origin,
    /// State.
    pub state: JobState,
    /// Name of the current phase.
    pub phase: Option<String>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Time until the next attempt, in milliseconds.
    pub retry_in_ms: Option<u64>,
    /// Start time of this attempt.
    pub started_unix_ms: Option<u64>,
    /// Error of the previous attempt.
    pub last_error: Option<String>,
    /// Progress, while the job runs.
    pub progress: Option<JobProgress>,
}

/// Origin of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The service found the archives itself.
    Found,
    /// A client submitted the archives.
    Submitted,
    /// The service found the archives, and a client wants them unpacked now.
    Requested,
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Waiting in the queue.
    Queued,
    /// Running.
    Running,
    /// Started, but suspended by a pause.
    Paused,
    /// Failed, and waiting for the next attempt.
    Retrying,
    /// Ended for good. Only in events.
    Ended,
}

/// Progress of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProgress {
    /// Total size of its archives.
    pub bytes_total: Option<u64>,
    /// Compressed bytes decoded.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files completed.
    pub files: u64,
    /// Bytes written per second, averaged over the attempt.
    pub rate_bytes_per_s: Option<u64>,
    /// Estimated remaining time at this rate, in milliseconds.
    pub eta_ms: Option<u64>,
}
