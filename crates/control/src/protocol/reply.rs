//! Replies.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{JobState, REPLY_BYTES_MAX, Status};

/// A reply's line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// That of the call, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// `ok` or `error`.
    #[serde(flatten)]
    pub result: ReplyResult,
}

impl Reply {
    /// What became of the call with this `id`.
    pub fn new(id: Option<u64>, result: Result<Answered, Refusal>) -> Self {
        let result = match result {
            Ok(answered) => ReplyResult::Ok(answered),
            Err(refusal) => ReplyResult::Error(refusal),
        };
        Self { id, result }
    }

    /// The line, with its end: at most [`REPLY_BYTES_MAX`]. An answer that is longer becomes a refusal.
    pub fn to_line(&self) -> Vec<u8> {
        let why = match serde_json::to_vec(self) {
            Ok(mut line) if line.len() < REPLY_BYTES_MAX => {
                line.push(b'\n');
                return line;
            }
            Ok(line) => format!("the answer is {} bytes long, more than may be sent", line.len()),
            Err(error) => format!("the answer cannot be said: {error}"),
        };
        Self::new(self.id, Err(Refusal::new(RefusalKind::Internal, why))).to_line()
    }
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyResult {
    /// It was done.
    Ok(Answered),
    /// It was not.
    Error(Refusal),
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answered {
    /// To `status`, and first to `watch`.
    Status(Box<Status>),
    /// To `submit`: the jobs that came of it, one for each target.
    Submitted {
        /// Their numbers.
        jobs: Vec<SubmittedJob>,
    },
    /// To `cancel`.
    Cancelled {
        /// Its number.
        job: u64,
        /// How it stood. A running one takes a moment to take back what it has done.
        was: JobState,
    },
    /// To `pause`.
    Paused {
        /// Whether it was paused before.
        was_paused: bool,
    },
    /// To `resume`.
    Resumed {
        /// Whether it was paused before.
        was_paused: bool,
    },
    /// To `reload`.
    Reloaded {
        /// Keys whose change takes effect only when the service is started again.
        needs_restart: Vec<String>,
    },
    /// To `metrics`.
    Metrics {
        /// In the text format of OpenMetrics.
        text: String,
    },
}

/// A job that a client has submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedJob {
    /// Its number.
    pub id: u64,
    /// What it is for.
    pub target: String,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// For programs.
    pub kind: RefusalKind,
    /// For people.
    pub message: String,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Refusal {
    /// Without a hint.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// With a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Why something was not done, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// There is no such request.
    UnknownRequest,
    /// The line is no request, or lacks something.
    BadRequest,
    /// The line is longer than [`REQUEST_BYTES_MAX`](super::REQUEST_BYTES_MAX).
    TooLarge,
    /// There are as many connections as there may be.
    TooManyConnections,
    /// The client's user may not do that.
    Denied,
    /// No job has that number, or it is over.
    NoSuchJob,
    /// No target has that name.
    NoSuchTarget,
    /// The archive is not there, its name is not that of an archive, or it is known to be bad.
    BadArchive,
    /// The target has as many jobs as it may.
    QueueFull,
    /// The new configuration is bad, and the old one stays.
    BadConfig,
    /// Not now.
    Busy,
    /// The service is stopping.
    Stopping,
    /// A fault of the service.
    Internal,
    /// Something that a later version says.
    #[serde(other)]
    Other,
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}
