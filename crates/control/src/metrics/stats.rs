//! Values of the metrics.

use super::ProcessStats;
use crate::protocol::TargetState;

/// Metrics of the service at one moment.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Version of the service.
    pub version: String,
    /// Start time: milliseconds since 1970, UTC.
    pub started_unix_ms: u64,
    /// Whether the service is paused.
    pub paused: bool,
    /// Slot of the newest usable archives.
    pub newest_archive_slot: Option<u64>,
    /// Number of bad archives, which are skipped.
    pub bad_archives: u64,
    /// All targets.
    pub targets: Vec<TargetStats>,
    /// The process; `None` where its metrics would clash with those of another one.
    pub process: Option<ProcessStats>,
}

/// Metrics of a target.
#[derive(Clone, Debug)]
pub struct TargetStats {
    /// Its name in the configuration.
    pub name: String,
    /// State.
    pub state: TargetState,
    /// Jobs that run or wait, by state.
    pub jobs: JobCounts,
    /// Counters.
    pub counts: TargetCounts,
    /// Progress of the running job, from 0 to 1.
    pub progress: Option<f64>,
    /// Slot of the newest result.
    pub newest_result_slot: Option<u64>,
    /// Number of results on disk.
    pub results: u64,
    /// Slot of the ready state, which waits beside a validator's own.
    pub ready_slot: Option<u64>,
    /// Time at which it was complete: milliseconds since 1970, UTC.
    pub ready_unix_ms: Option<u64>,
    /// Slots by which the newest result is older than the newest archives.
    pub behind_slots: Option<u64>,
    /// Bytes of old files that wait for their removal.
    pub leftover_bytes: u64,
    /// Time of the last successful job, perhaps of an earlier process: milliseconds since 1970,
    /// UTC.
    pub last_success_unix_ms: Option<u64>,
    /// Duration of that job in milliseconds.
    pub last_duration_ms: Option<u64>,
}

/// Counters of a target since the start of the service. Bytes and files are those of all attempts,
/// the running one included.
#[derive(Clone, Debug, Default)]
pub struct TargetCounts {
    /// Finished attempts at jobs.
    pub ended: OutcomeCounts,
    /// Errors of jobs.
    pub errors: ErrorCounts,
    /// Compressed bytes decoded.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files completed.
    pub files: u64,
    /// Milliseconds that the rate limit delayed jobs.
    pub held_back_ms: u64,
    /// Fallbacks of jobs to a slower method (no direct I/O, no io_uring).
    pub fallbacks: u64,
    /// Results removed.
    pub results_removed: u64,
    /// Ready states adopted.
    pub adopted: u64,
    /// Microseconds for which adopting kept the ledger's lock.
    pub ledger_locked_us: u64,
    /// States that are not made again, because validators have ended early with them.
    pub states_given_up: u64,
    /// Shadows removed because space was short or their state was gone.
    pub shadow_removed: u64,
    /// Ready states discarded because space was short.
    pub ready_discarded: u64,
    /// Completed looks at the free space beside the validator.
    pub space_looks: u64,
    /// Bytes that only the shadow of the validator's state keeps on the disk, when they were last
    /// counted.
    pub shadow_bytes: Option<u64>,
}

/// Number of jobs by state: [`JobState`](crate::protocol::JobState).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the states themselves
pub struct JobCounts {
    pub queued: u64,
    pub running: u64,
    pub paused: u64,
    pub retrying: u64,
}

/// Number of finished attempts by outcome: [`Outcome`](crate::protocol::Outcome).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the outcomes themselves
pub struct OutcomeCounts {
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub superseded: u64,
    pub bad_archive: u64,
}

/// Number of errors by family, as in `unsnap_unpack::Family`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the families themselves
pub struct ErrorCounts {
    pub bad_archive: u64,
    pub request: u64,
    pub environment: u64,
    pub not_clean: u64,
}

impl TargetStats {
    /// Creates the metrics of a target that has done nothing yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: TargetState::Idle,
            jobs: JobCounts::default(),
            counts: TargetCounts::default(),
            progress: None,
            newest_result_slot: None,
            results: 0,
            ready_slot: None,
            ready_unix_ms: None,
            behind_slots: None,
            leftover_bytes: 0,
            last_success_unix_ms: None,
            last_duration_ms: None,
        }
    }
}
