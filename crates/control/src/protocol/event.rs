//! What watchers are told.

use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::{JobProgress, JobStatus};

/// An event's line: `{"unix_ms":…,"event":"paused"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLine {
    /// When it was told: milliseconds since 1970, UTC.
    pub unix_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl EventLine {
    /// As of now.
    pub fn now(event: Event) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), event }
    }

    /// The line, with its end.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A job waits for its turn.
    JobQueued {
        /// Which.
        job: JobStatus,
    },
    /// An attempt at a job begins.
    JobStarted {
        /// Which.
        job: JobStatus,
    },
    /// A job has got further. At most four times a second for each job.
    Progress {
        /// Its number.
        job: u64,
        /// What it is for.
        target: String,
        /// What it is doing, in words.
        phase: Option<String>,
        /// How far it is.
        progress: JobProgress,
    },
    /// A job is over, or an attempt at it: then `job.state` is `retrying`.
    JobEnded {
        /// Which.
        job: JobStatus,
        /// How.
        outcome: Outcome,
        /// Why, if it is not done.
        message: Option<String>,
        /// How long the attempt took.
        elapsed_ms: u64,
    },
    /// Somebody has paused the service.
    Paused,
    /// It goes on.
    Resumed,
    /// It has a new configuration.
    Reloaded,
    /// Old results have been removed.
    ResultsRemoved {
        /// Of this target.
        target: String,
        /// Where they were.
        #[serde(with = "super::path::list")]
        paths: Vec<PathBuf>,
    },
    /// The watcher has read too slowly, and some events did not reach it.
    Missed {
        /// How many.
        events: u64,
    },
    /// Something that a later version tells.
    #[serde(other)]
    Unknown,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Its result is there, durably.
    Done,
    /// The machine could not do it.
    Failed,
    /// Somebody asked it to stop.
    Cancelled,
    /// There is something newer to do.
    Superseded,
    /// An archive is bad.
    BadArchive,
}
