//! Feeder: sends commands to the creators in batches.

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

/// Commands in one batch. Batches reduce the number of hand-offs when files are small.
const BATCH_COMMANDS: usize = 64;

/// Polling interval of [`Feeder::settle`], which is called every few seconds. It grows from the
/// first value to the second, since waiting may take long (a rate limit, a pause). A guess.
const SETTLE_POLL: Duration = Duration::from_micros(200);
const SETTLE_POLL_MAX: Duration = Duration::from_millis(20);

/// Indices of the creators of a destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub large: usize,
    pub small: usize,
}

/// Sender's end of a creator's queue.
#[derive(Clone)]
pub(crate) struct Inbox {
    pub requests: Sender<Vec<Request>>,
    pub waker: Waker,
    pub sleeping: Arc<AtomicBool>,
}

impl Inbox {
    /// Wakes the creator if it sleeps or is about to (see the fence in `Creator::sleep`).
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

/// Sends the files of one stream to the creators, in batches. Several streams share the creators,
/// each through its own feeder.
pub(crate) struct Feeder {
    lanes: Vec<Lane>,
    /// Destination index → its creators.
    routes: Arc<[Route]>,
    shared: Arc<Shared>,
    /// Index of the stream.
    stream: usize,
    /// Number of the next file.
    next_file: u64,
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
        let stream = shared.streams_fed.fetch_add(1, Ordering::Relaxed);
        assert!(stream < shared.streams.len(), "the pool was started for fewer streams");
        let (lanes, waited) = (inboxes.map(lane).collect(), Duration::ZERO);
        Self { lanes, routes, shared, stream, next_file: 0, waited }
    }

    /// Queues a command for a large or a small file. Blocks while the creator's queue is full.
    pub fn send(&mut self, request: Request, large: bool) -> Result<(), CreateError> {
        let Request { destination, command, .. } = &request;
        let (bytes, file) = match command {
            Command::Whole { data, .. } => (in_blocks(data.len() as u64), true),
            Command::Begin { .. } => (0, false),
            Command::Part { data, .. } => (data.len() as u64, false),
            Command::End { tail } => {
                (tail.as_ref().map_or(0, |(_, data)| in_blocks(data.len() as u64)), true)
            }
        };
        self.shared.traffic[*destination].handed_over(bytes, u64::from(file));
        self.shared.streams[self.stream].queued.fetch_add(u64::from(file), Ordering::Relaxed);
        let route = self.routes[*destination];
        let lane = &mut self.lanes[if large { route.large } else { route.small }];
        lane.batch.push(request);
        if lane.batch.len() < BATCH_COMMANDS {
            return Ok(());
        }
        self.flush()
    }

    /// Returns the identity of a new file.
    pub fn next_file(&mut self) -> FileId {
        let number = self.next_file;
        self.next_file += 1;
        FileId { stream: self.stream, number }
    }

    /// Sends all queued commands.
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

    /// Waits until every file that was queued by this feeder is complete. It must have no unfinished
    /// file.
    pub fn settle(&mut self) -> Result<(), CreateError> {
        self.flush()?;
        let (since, mut poll) = (Instant::now(), SETTLE_POLL);
        let stream = &self.shared.streams[self.stream];
        // Only this thread adds to it.
        let queued = stream.queued.load(Ordering::Relaxed);
        while stream.complete.load(Ordering::Acquire) < queued {
            if self.shared.failed.load(Ordering::Acquire) {
                return Err(self.shared.error());
            }
            thread::park_timeout(poll);
            poll = (poll * 2).min(SETTLE_POLL_MAX);
        }
        self.waited += since.elapsed();
        Ok(())
    }

    /// Returns the time spent waiting for the creators.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the amount of data sent for a destination by all feeders.
    pub fn written_to(&self, destination: usize) -> Written {
        self.shared.traffic[destination].written()
    }

    /// Returns the amount of data sent for each destination by all feeders.
    pub fn written(&self) -> Vec<Written> {
        self.shared.traffic.iter().map(Traffic::written).collect()
    }
}

impl Drop for Feeder {
    /// Commands that were never sent are those of lost files.
    fn drop(&mut self) {
        for request in self.lanes.iter_mut().flat_map(|lane| lane.batch.drain(..)) {
            self.shared.lost.drop_request(request);
        }
    }
}
