//! A server with fake answers, and raw connections to it.
#![allow(dead_code)] // each test target uses its part

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use unsnap_control::{
    Access, Answer, Limits, Listener, Server,
    protocol::{
        Answered, ArchivesStatus, Event, JobProgress, Refusal, RefusalKind, Request, Status,
    },
};

/// Timeout that exceeds every step even on the slowest machine.
const PATIENCE: Duration = Duration::from_mins(2);

pub struct Ground {
    pub server: Server,
    pub answers: Arc<Answers>,
    pub socket: PathBuf,
    scratch: TempDir,
}

/// The fake answers.
#[derive(Default)]
pub struct Answers {
    pub paused: AtomicBool,
    pub asked: AtomicU64,
    /// Bytes by which each status is longer than it need be.
    pub padding: AtomicUsize,
}

impl Answer for Answers {
    fn answer(&self, request: Request) -> Result<Answered, Refusal> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(match request {
            Request::Status {} | Request::Watch {} => Answered::Status(Box::new(self.status())),
            Request::Pause {} => {
                Answered::Paused { was_paused: self.paused.swap(true, Ordering::Relaxed) }
            }
            Request::Metrics {} => {
                Answered::Metrics { text: "unsnap_paused 0\n# EOF\n".to_owned() }
            }
            Request::Cancel { job } => {
                return Err(Refusal::new(RefusalKind::NoSuchJob, format!("no job {job}")));
            }
            _ => return Err(Refusal::new(RefusalKind::Busy, "not here")),
        })
    }
}

impl Answers {
    fn status(&self) -> Status {
        Status {
            version: "v".repeat(self.padding.load(Ordering::Relaxed)),
            pid: 1,
            started_unix_ms: 2,
            paused: self.paused.load(Ordering::Relaxed),
            rate_limit: None,
            archives: ArchivesStatus { directories: Vec::new(), newest: None, rescan_ms: 60_000 },
            targets: Vec::new(),
            bad: Vec::new(),
            disks: Vec::new(),
            recent: Vec::new(),
        }
    }
}

impl Ground {
    pub fn new(access: Access, limits: Limits) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let socket = scratch.path().join("control.sock");
        let answers = Arc::new(Answers::default());
        // Everybody may connect, so that it is the server that refuses.
        let listener = Listener::bind(&socket, 0o666).unwrap();
        let answer: Arc<dyn Answer> = answers.clone();
        let server = Server::start(listener, access, limits, answer).unwrap();
        Self { server, answers, socket, scratch }
    }

    pub fn connect(&self) -> Raw {
        Raw::new(&self.socket)
    }

    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Checks that the server still answers every client.
    pub fn is_well(&self) {
        let mut client = self.connect();
        client.say("{\"id\":1,\"request\":\"status\"}\n");
        let reply = client.hear().expect("a reply");
        assert_eq!((&reply["id"], &reply["ok"]["answer"]), (&1.into(), &"status".into()));
    }
}

/// A raw connection, which can send anything.
pub struct Raw {
    pub stream: BufReader<UnixStream>,
}

impl Raw {
    pub fn new(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Writes. That the server hangs up meanwhile is its good right.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.get_mut().write_all(bytes.as_ref());
    }

    /// The next line; `None` at the end.
    pub fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).expect(&line)),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next line's kind of refusal.
    pub fn refused(&mut self) -> String {
        let reply = self.hear().expect("a refusal");
        reply["error"]["kind"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }

    /// Ends the sending, and reads everything.
    pub fn drain(mut self) -> Vec<u8> {
        let _ = self.stream.get_ref().shutdown(std::net::Shutdown::Write);
        let mut bytes = Vec::new();
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }
}

/// Some event of about 200 bytes.
pub fn progress(job: u64) -> Event {
    let progress = JobProgress { bytes_read: job, ..JobProgress::default() };
    Event::Progress { job, target: "validator".to_owned(), phase: None, progress }
}

/// Waits for a condition that must become true, however slow the machine is.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
