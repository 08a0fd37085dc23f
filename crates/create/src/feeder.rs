//! Handing commands over to the creators.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
    thread,
    time::{Duration, Instant},
};

use crossbeam::channel::Sender;
use unsnap_ring::Waker;

use crate::{
    CreateError, Written,
    request::{Command, FileId, Request},
    shared::{Shared, Traffic, in_blocks},
};

/// Commands that travel together. Batches keep hand-offs few when files are small.
const BATCH_COMMANDS: usize = 64;

/// How often to look whether everything is complete, which is asked every few seconds: often at first,
/// and then less, since it may take long (a limit, a pause). A guess.
const SETTLE_POLL: Duration = Duration::from_micros(200);
const SETTLE_POLL_MAX: Duration = Duration::from_millis(20);

/// Indices of the creators of a destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub direct: usize,
    pub cached: usize,
}

/// The way to one creator.
#[derive(Clone)]
pub(crate) struct Inbox {
    pub requests: Sender<Vec<Request>>,
    pub waker: Waker,
    pub sleeping: Arc<AtomicBool>,
}

impl Inbox {
    /// Rouses the creator if it sleeps (or is about to: see the fence in `Creator::sleep`).
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

/// Hands the files of one stream over to the creators, in batches. Those of several streams go to
/// the same creators, each through a feeder of its own.
pub(crate) struct Feeder {
    lanes: Vec<Lane>,
    /// Destination index → its creators.
    routes: Arc<[Route]>,
    shared: Arc<Shared>,
    waited: Duration,
}

struct Lane {
    inbox: Inbox,
    batch: Vec<Request>,
}

impl Feeder {
    pub fn new(
        inboxes: impl Iterator<Item = Inbox>,
        routes: Arc<[Route]>,
        shared: Arc<Shared>,
    ) -> Self {
        let lane = |inbox| Lane { inbox, batch: Vec::with_capacity(BATCH_COMMANDS) };
        Self { lanes: inboxes.map(lane).collect(), routes, shared, waited: Duration::ZERO }
    }

    /// Queues a command. Blocks while the creator has more than enough to do.
    pub fn send(
        &mut self,
        destination: usize,
        direct: bool,
        command: Command,
    ) -> Result<(), CreateError> {
        let (bytes, file) = match &command {
            Command::Whole { data, len, .. } => (in_blocks(len.unwrap_or(data.len() as u64)), true),
            Command::Begin { .. } => (0, false),
            Command::Part { data, .. } => (data.len() as u64, false),
            Command::End { .. } => (0, true),
        };
        self.shared.traffic[destination].handed_over(bytes, u64::from(file));
        self.shared.files_queued.fetch_add(u64::from(file), Ordering::Relaxed);
        let route = self.routes[destination];
        let lane = &mut self.lanes[if direct { route.direct } else { route.cached }];
        lane.batch.push(Request { destination, command });
        if lane.batch.len() < BATCH_COMMANDS {
            return Ok(());
        }
        self.flush()
    }

    /// A name for a file of several writes, that no feeder has given before.
    pub fn next_file(&self) -> FileId {
        self.shared.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends off what is queued.
    pub fn flush(&mut self) -> Result<(), CreateError> {
        if self.shared.failed.load(Ordering::Acquire) {
            return Err(self.shared.error());
        }
        for Lane { inbox, batch } in &mut self.lanes {
            if batch.is_empty() {
                continue;
            }
            let batch = std::mem::replace(batch, Vec::with_capacity(BATCH_COMMANDS));
            let since = Instant::now();
            let sent = inbox.requests.send(batch);
            self.waited += since.elapsed();
            if sent.is_err() {
                return Err(self.shared.error());
            }
            inbox.wake();
        }
        Ok(())
    }

    /// Waits until every file queued so far is complete, whoever has queued it. None of ours may
    /// have been begun and not ended.
    pub fn settle(&mut self) -> Result<(), CreateError> {
        self.flush()?;
        let (since, mut poll) = (Instant::now(), SETTLE_POLL);
        let queued = self.shared.files_queued.load(Ordering::Relaxed);
        while self.shared.progress.files.load(Ordering::Acquire) < queued {
            if self.shared.failed.load(Ordering::Acquire) {
                return Err(self.shared.error());
            }
            thread::park_timeout(poll);
            poll = (poll * 2).min(SETTLE_POLL_MAX);
        }
        self.waited += since.elapsed();
        Ok(())
    }

    /// Time that whoever feeds the creators has waited for them to take more.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// What has been handed over for a destination, by all feeders.
    pub fn written_to(&self, destination: usize) -> Written {
        self.shared.traffic[destination].written()
    }

    /// What has been handed over for each destination, by all feeders.
    pub fn written(&self) -> Vec<Written> {
        self.shared.traffic.iter().map(Traffic::written).collect()
    }
}
