//! Replies of the service.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{JobState, REPLY_BYTES_MAX, Status};

/// The reply to a call, as one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The call's `id`, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// `ok` or `error`.
    #[serde(flatten)]
    pub result: ReplyResult,
}

impl Reply {
    /// Creates the reply to the call with this `id`.
    pub fn new(id: Option<u64>, result: Result<Answered, Refusal>) -> Self {
        let result = match result {
            Ok(answered) => ReplyResult::Ok(answered),
            Err(refusal) => ReplyResult::Error(refusal),
        };
        Self { id, result }
    }

    /// Formats the reply as a line of at most [`REPLY_BYTES_MAX`] bytes, newline included. An
    /// answer that is longer becomes a refusal.
    pub fn to_line(&self) -> Vec<u8> {
        let why = match serde_json::to_vec(self) {
            Ok(mut line) if line.len() < REPLY_BYTES_MAX => {
                line.push(b'\n');
                return line;
            }
            Ok(line) => {
                format!("the answer has {} bytes, the limit is {REPLY_BYTES_MAX}", line.len())
            }
            Err(error) => format!("the answer cannot be encoded: {error}"),
        };
        Self::new(self.id, Err(Refusal::new(RefusalKind::Internal, why))).to_line()
    }
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyResult {
    /// The request was carried out.
    Ok(Answered),
    /// The request was refused.
    Error(Refusal),
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answered {
    /// Answer to `status`, and first answer to `watch`.
    Status(Box<Status>),
    /// Answer to `submit`.
    Submitted {
        /// The queued jobs, one for each target.
        jobs: Vec<SubmittedJob>,
    },
    /// Answer to `prepare`.
    Preparing {
        /// The jobs, one for each target.
        jobs: Vec<PreparingJob>,
    },
    /// Answer to `cancel`.
    Cancelled {
        /// Number of the job.
        job: u64,
        /// State of the job before.
        was: JobState,
        /// Whether the job has yet to end: a running one cleans up first, and `job-ended` follows.
        #[serde(default)]
        ending: bool,
    },
    /// Answer to `pause`.
    Paused {
        /// Whether the service was paused before.
        was_paused: bool,
    },
    /// Answer to `resume`.
    Resumed {
        /// Whether the service was paused before.
        was_paused: bool,
    },
    /// Answer to `reload`.
    Reloaded {
        /// Changed keys that take effect only after a restart of the service.
        needs_restart: Vec<String>,
    },
    /// Answer to `metrics`.
    Metrics {
        /// OpenMetrics text.
        text: String,
    },
}

/// A job submitted by a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmittedJob {
    /// Number of the job.
    pub id: u64,
    /// Name of its target.
    pub target: String,
    /// Slot of the target's newest result, if that is newer than the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer: Option<u64>,
}

/// A job for the newest archives, which a client wants now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparingJob {
    /// Name of the target.
    pub target: String,
    /// Slot of the newest archives.
    pub slot: u64,
    /// Number of the job; `None` if the result is on disk already.
    pub job: Option<u64>,
}

/// Reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Kind, for programs.
    pub kind: RefusalKind,
    /// Message, for people.
    pub message: String,
    /// Suggested remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Refusal {
    /// Creates a refusal without a hint.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Kind of refusal, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The request does not exist.
    UnknownRequest,
    /// The line is not a valid request, or a field is missing.
    BadRequest,
    /// The line is longer than [`REQUEST_BYTES_MAX`](super::REQUEST_BYTES_MAX).
    TooLarge,
    /// The limit of connections is reached.
    TooManyConnections,
    /// The client's user lacks the right.
    Denied,
    /// No job has that number, or the job has ended.
    NoSuchJob,
    /// No target has that name.
    NoSuchTarget,
    /// There are no archives to unpack.
    NoArchive,
    /// The archive does not exist, its name is not an archive's, or it is known to be bad.
    BadArchive,
    /// The target's queue is full.
    QueueFull,
    /// The new configuration is invalid; the old one stays in force.
    BadConfig,
    /// The request cannot be carried out now.
    Busy,
    /// The service is stopping.
    Stopping,
    /// A defect of the service.
    Internal,
    /// A kind of a later version.
    #[serde(other)]
    Other,
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::{Event, EventLine, Outcome, Status};

    /// Returns a status with every field set, as it goes over the socket.
    fn status() -> serde_json::Value {
        let job = json!({
            "id": 12, "target": "validator", "slot": 47, "base_slot": 39,
            "archives": ["/a/full", "/a/incremental"], "origin": "found", "state": "running",
            "phase": "unpacking", "attempt": 1, "retry_in_ms": null, "started_unix_ms": 5,
            "last_error": null,
            "progress": {
                "bytes_total": 100, "bytes_read": 61, "bytes_written": 300, "files": 9,
                "rate_bytes_per_s": 7, "eta_ms": 8,
            },
        });
        json!({
            "answer": "status", "version": "0.1.0", "pid": 7, "started_unix_ms": 1, "paused": false,
            "rate_limit": 3,
            "archives": {
                "directories": ["/a"],
                "newest": {"slot": 47, "base_slot": 39, "full": "/a/full", "incremental": "/a/i"},
                "rescan_ms": 60000,
            },
            "targets": [{
                "name": "validator", "kind": "fastboot", "state": "working", "detail": null,
                "results": [{
                    "slot": 39, "base_slot": null, "path": "/l/39", "finished_unix_ms": 3,
                    "bytes": 4, "files": 5,
                }],
                "job": job, "queued": [job],
            }],
            "bad": [{"path": "/a/bad", "reason": "it is cut", "seen_unix_ms": 2}],
            "disks": [{
                "path": "/l", "targets": ["validator"], "bytes": 9, "bytes_available": 8,
                "kept": [{"target": "validator", "what": "ready", "bytes": 6}],
            }],
            "recent": [{"unix_ms": 5, "event": "paused"}],
        })
    }

    #[test]
    fn replies_are_what_they_were_on_the_other_side() {
        for ok in [
            status(),
            json!({"answer": "submitted", "jobs": [{"id": 3, "target": "tree"}]}),
            json!({"answer": "submitted", "jobs": [{"id": 3, "target": "tree", "newer": 47}]}),
            json!({
                "answer": "preparing",
                "jobs": [
                    {"target": "tree", "slot": 47, "job": null},
                    {"target": "validator", "slot": 47, "job": 12},
                ],
            }),
            json!({"answer": "cancelled", "job": 3, "was": "retrying", "ending": false}),
            json!({"answer": "paused", "was_paused": false}),
            json!({"answer": "resumed", "was_paused": true}),
            json!({"answer": "reloaded", "needs_restart": ["control.socket"]}),
            json!({"answer": "metrics", "text": "a 1\n"}),
        ] {
            let reply = json!({"id": 7, "ok": ok});
            let read: Reply = serde_json::from_value(reply.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), reply);
            let line = read.to_line();
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            assert_eq!(serde_json::from_slice::<Reply>(&line).unwrap(), read);
        }
        let refused = json!({"error": {"kind": "queue-full", "message": "m", "hint": "h"}});
        let read: Reply = serde_json::from_value(refused.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), refused);
    }

    #[test]
    fn events_are_what_they_were_on_the_other_side() {
        let job = status()["targets"][0]["job"].clone();
        for event in [
            json!({"event": "job-queued", "job": job}),
            json!({"event": "job-started", "job": job}),
            json!({
                "event": "progress", "job": 12, "target": "validator", "phase": null,
                "progress": job["progress"],
            }),
            json!({
                "event": "job-ended", "job": job, "outcome": "bad-archive", "message": "it is cut",
                "elapsed_ms": 1500, "exit_code": 1,
            }),
            json!({"event": "adopted", "target": "validator", "slot": 47, "path": "/l/47"}),
            json!({"event": "paused"}),
            json!({"event": "results-removed", "target": "tree", "paths": ["/t/1"]}),
            json!({"event": "missed", "events": 3}),
        ] {
            let mut line = event.clone();
            line["unix_ms"] = 9.into();
            let read: EventLine = serde_json::from_value(line.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), line);
        }
        let later = json!({"unix_ms": 1, "event": "tired", "how": "very"});
        let read: EventLine = serde_json::from_value(later).unwrap();
        assert_eq!(read.event, Event::Unknown);
        assert_eq!(serde_json::to_value(Outcome::Superseded).unwrap(), "superseded");
    }

    #[test]
    fn a_name_that_is_no_text_does_not_spoil_a_status() {
        use std::os::unix::ffi::OsStringExt;
        let mut status: Status = serde_json::from_value(status()).unwrap();
        status.bad[0].path = std::ffi::OsString::from_vec(b"/a/\xff".to_vec()).into();
        status.archives.directories.push(status.bad[0].path.clone());
        status.archives.newest.as_mut().unwrap().incremental = Some(status.bad[0].path.clone());
        let line = Reply::new(None, Ok(Answered::Status(Box::new(status)))).to_line();
        let read: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(read["ok"]["bad"][0]["path"], "/a/\u{fffd}");
    }

    #[test]
    fn an_answer_that_is_too_long_becomes_a_refusal() {
        let text = "a".repeat(REPLY_BYTES_MAX);
        let line = Reply::new(Some(3), Ok(Answered::Metrics { text })).to_line();
        let reply: Reply = serde_json::from_slice(&line).unwrap();
        let ReplyResult::Error(refusal) = reply.result else { panic!("{line:?}") };
        assert_eq!((reply.id, refusal.kind), (Some(3), RefusalKind::Internal));
    }
}
