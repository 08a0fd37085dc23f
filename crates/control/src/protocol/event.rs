//! Events sent to watching clients.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{JobProgress, JobStatus};

/// An event with its time, as one line: `{"unix_ms":…,"event":"paused"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLine {
    /// Time at which the event was sent: milliseconds since 1970, UTC.
    pub unix_ms: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

impl EventLine {
    /// Gives an event the current time.
    pub fn now(event: Event) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), event }
    }

    /// Formats the event as a line, with its newline.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// An event of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A job was added to a queue.
    JobQueued {
        /// The job.
        job: JobStatus,
    },
    /// An attempt at a job began.
    JobStarted {
        /// The job.
        job: JobStatus,
    },
    /// A job made progress. Sent at most four times a second for each job.
    Progress {
        /// Number of the job.
        job: u64,
        /// Name of its target.
        target: String,
        /// Name of its current phase.
        phase: Option<String>,
        /// Its progress.
        progress: JobProgress,
    },
    /// A job ended, or only an attempt at it: then `job.state` is `retrying`, otherwise `ended`.
    JobEnded {
        /// The job.
        job: JobStatus,
        /// Its outcome.
        outcome: Outcome,
        /// The reason, unless it is done.
        message: Option<String>,
        /// Duration of the attempt in milliseconds.
        elapsed_ms: u64,
        /// Exit code with which `ledger-tool` would have ended: 0 for `done`.
        #[serde(default)]
        exit_code: u8,
    },
    /// A ready state was moved to where the validator looks.
    Adopted {
        /// Name of the target.
        target: String,
        /// Slot of the state.
        slot: u64,
        /// Directory of the state now.
        #[serde(with = "super::path")]
        path: PathBuf,
    },
    /// Validators have ended early with a state. It is not made again.
    StateGivenUp {
        /// Name of the target.
        target: String,
        /// Slot of the state.
        slot: u64,
        /// The same in words.
        message: String,
    },
    /// Less than `min-free` is free beside a running validator. Sent when it begins, and when something
    /// was given back.
    SpaceShort {
        /// Name of the target.
        target: String,
        /// Whether the shadow of the state in use was removed.
        shadow_removed: bool,
        /// Whether the ready state was discarded.
        ready_discarded: bool,
        /// The figures, in words.
        message: String,
    },
    /// A client paused the service.
    Paused,
    /// A client resumed the service.
    Resumed,
    /// A new configuration is in force.
    Reloaded,
    /// Old results were removed.
    ResultsRemoved {
        /// Name of their target.
        target: String,
        /// Their paths.
        #[serde(with = "super::path::list")]
        paths: Vec<PathBuf>,
    },
    /// The client read too slowly, and events were dropped.
    Missed {
        /// Number of dropped events.
        events: u64,
    },
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

/// Outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The result is published and durable.
    Done,
    /// An error that is not the archive's fault.
    Failed,
    /// Stopped on request.
    Cancelled,
    /// Stopped in favour of newer archives.
    Superseded,
    /// An archive is bad.
    BadArchive,
}
