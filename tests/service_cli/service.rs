//! A service whose answers are made up.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use unsnap_control::{
    Access, Answer, Events, Limits, Listener, Server,
    protocol::{
        Answered, Event, JobProgress, JobState, JobStatus, Outcome, PreparingJob, Refusal,
        RefusalKind, Request, Status, SubmittedJob,
    },
};

/// Longer than anything takes on the slowest machine.
const PATIENCE: Duration = Duration::from_mins(4);

pub struct Service {
    server: Server,
    answers: Arc<Answers>,
    pub socket: PathBuf,
    scratch: TempDir,
}

#[derive(Default)]
struct Answers {
    asked: Mutex<Vec<Request>>,
}

impl Service {
    pub fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    /// Ends it, and returns its directory for the next one.
    pub fn stop(self) -> TempDir {
        let Self { server, scratch, .. } = self;
        drop(server);
        scratch
    }

    /// Starts one in the directory of another one.
    pub fn start_in(scratch: TempDir) -> Self {
        let socket = scratch.path().join("control.sock");
        let answers = Arc::new(Answers::default());
        let answer: Arc<dyn Answer> = answers.clone();
        let listener = Listener::bind(&socket, 0o660).unwrap();
        let server = Server::start(listener, Access::default(), Limits::default(), answer).unwrap();
        Self { server, answers, socket, scratch }
    }

    pub fn events(&self) -> Events {
        self.server.events()
    }

    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Everything that was asked for until now.
    pub fn asked(&self) -> Vec<Request> {
        self.answers.asked.lock().unwrap().clone()
    }

    /// Waits for something that must come, however slow the machine is.
    pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !condition() {
            assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Answer for Answers {
    fn answer(&self, request: Request) -> Result<Answered, Refusal> {
        self.asked.lock().unwrap().push(request.clone());
        let refusal = |kind, message| Err(Refusal::new(kind, message));
        Ok(match request {
            Request::Status {} | Request::Watch {} => Answered::Status(Box::new(status())),
            Request::Submit { .. } => Answered::Submitted {
                jobs: vec![
                    SubmittedJob { id: 3, target: "tree".to_owned(), newer: None },
                    SubmittedJob { id: 4, target: "validator".to_owned(), newer: Some(47) },
                ],
            },
            Request::Prepare { target } => Answered::Preparing {
                jobs: vec![
                    PreparingJob { target: "tree".to_owned(), slot: 47, job: None },
                    PreparingJob {
                        target: target.unwrap_or_else(|| "validator".to_owned()),
                        slot: 47,
                        job: Some(12),
                    },
                ],
            },
            Request::Cancel { job: 1 } => {
                return refusal(RefusalKind::NoSuchJob, "there is no job 1")
                    .map_err(|refusal| refusal.hint("see \u{1b}status"));
            }
            Request::Cancel { job: 2 } => {
                return refusal(RefusalKind::QueueFull, "the queue is full");
            }
            Request::Cancel { job: 3 } => {
                return refusal(RefusalKind::BadArchive, "the archive is bad");
            }
            Request::Cancel { job: 4 } => {
                return refusal(RefusalKind::Denied, "you may observe, but not operate");
            }
            Request::Cancel { job } => {
                Answered::Cancelled { job, was: JobState::Running, ending: true }
            }
            Request::Pause {} => Answered::Paused { was_paused: false },
            Request::Resume {} => Answered::Resumed { was_paused: false },
            Request::Reload {} => {
                Answered::Reloaded { needs_restart: vec!["control.socket".to_owned()] }
            }
            Request::Metrics {} => {
                Answered::Metrics { text: "unsnap_paused 0\n# EOF\n".to_owned() }
            }
        })
    }
}

pub fn progress(bytes_read: u64) -> Event {
    let progress = JobProgress { bytes_total: Some(100), bytes_read, ..JobProgress::default() };
    let phase = Some("unpacking".to_owned());
    Event::Progress { job: 12, target: "validator".to_owned(), phase, progress }
}

pub fn ended(outcome: Outcome) -> Event {
    let message = (outcome == Outcome::BadArchive).then(|| "frame 3 is damaged".to_owned());
    let exit_code = u8::from(outcome == Outcome::BadArchive);
    Event::JobEnded { job: job(), outcome, message, elapsed_ms: 1500, exit_code }
}

fn job() -> JobStatus {
    serde_json::from_value(running()).unwrap()
}

fn running() -> Value {
    json!({
        "id": 12, "target": "validator", "slot": 47, "base_slot": 39,
        "archives": ["/mnt/snapshots/full", "/mnt/incremental/i"], "origin": "found",
        "state": "running", "phase": "unpacking", "attempt": 2, "retry_in_ms": null,
        "started_unix_ms": 1_763_773_200_000_u64, "last_error": "disk full",
        "progress": {
            "bytes_total": 21_796_959_027_u64, "bytes_read": 13_314_398_618_u64,
            "bytes_written": 52_505_995_674_u64, "files": 181_000,
            "rate_bytes_per_s": 2_061_584_302_u64, "eta_ms": 14_000,
        },
    })
}

fn status() -> Status {
    let mut queued = running();
    for (key, value) in [
        ("id", json!(13)),
        ("slot", json!(52)),
        ("base_slot", json!(null)),
        ("state", json!("queued")),
        ("attempt", json!(1)),
        ("phase", json!(null)),
        ("progress", json!(null)),
        ("last_error", json!(null)),
    ] {
        queued[key] = value;
    }
    let status = json!({
        "version": "0.1.0", "pid": 7, "started_unix_ms": 1_763_700_000_000_u64, "paused": false,
        "rate_limit": 20 << 20,
        "archives": {
            "directories": ["/mnt/snapshots", "/mnt/incremental"],
            "newest": {"slot": 47, "base_slot": 39, "full": "/mnt/snapshots/full", "incremental": null},
            "rescan_ms": 60_000,
        },
        "targets": [
            {
                "name": "validator", "kind": "fastboot", "state": "working", "detail": null,
                "results": [{
                    "slot": 39, "base_slot": null, "path": "/mnt/ledger/39",
                    "finished_unix_ms": 1_763_700_000_000_u64, "bytes": 109_521_666_048_u64,
                    "files": 430_000,
                }],
                "job": running(), "queued": [queued],
            },
            {
                "name": "tree", "kind": "tree", "state": "failing", "detail": "\u{1b}[2Jodd",
                "results": [], "job": null, "queued": [],
            },
        ],
        "disks": [{
            "path": "/mnt/ledger", "targets": ["validator"],
            "bytes": 2_000_000_000_000_u64, "bytes_available": 500_000_000_000_u64,
            "kept": [
                {"target": "validator", "what": "ready", "bytes": 109_521_666_048_u64},
                {"target": "validator", "what": "shadow", "bytes": 2048},
            ],
        }],
        "bad": [{
            "path": "/mnt/snapshots/bad", "reason": "it is cut",
            "seen_unix_ms": 1_763_700_000_000_u64,
        }],
    });
    serde_json::from_value(status).unwrap()
}
