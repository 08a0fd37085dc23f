//! A creator: one thread with one engine that creates files on one device.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
    time::{Duration, Instant},
};

use crossbeam::channel::{Receiver, TryRecvError};
use unsnap_ring::{
    Admission, Bucket, Completion, CreateFile, Engine, FinishFile, OpError, Operation, Outcome,
    WriteAt, WriteFile,
};

use crate::{
    CreateError, FILE_BLOCK_BYTES, FileSink, FinishedFile,
    limiter::{Bounds, Limiter},
    request::{Command, FileId, Request},
    shared::{Shared, in_blocks},
    ticket::{About, Ending, OpenFile, Ticket},
    times::{CreatorTimes, FileKind},
};

/// Interval at which a creator that the rate limit holds back updates its statistics. A guess.
const HELD_BACK_REPORT: Duration = Duration::from_millis(250);

pub(crate) struct Creator {
    engine: Box<dyn Engine>,
    inbox: Receiver<Vec<Request>>,
    /// No more requests will come.
    inbox_ended: bool,
    sleeping: Arc<AtomicBool>,
    shared: Arc<Shared>,
    /// Receives complete files.
    sink: Option<FileSink>,
    /// Rate limit of the device, shared by all its writers.
    bucket: Arc<Bucket>,
    /// Reason why no operation begins although the engine has room.
    held: Option<Held>,
    open_files_max: usize,
    /// Limits the workers and the operations in flight.
    limiter: Limiter,
    in_flight_per_worker: usize,
    in_flight_max: usize,
    /// When the engine last returned, by its clock.
    returned_at: Instant,
    /// Requests received and not yet begun.
    requests: VecDeque<Request>,
    /// Operations that are ready and wait for room in the engine.
    ready: VecDeque<(Ticket, Operation)>,
    /// Tickets of the operations in flight, by token.
    tickets: Vec<Option<Ticket>>,
    free_tokens: Vec<u64>,
    /// Open files of several writes.
    files: HashMap<FileId, OpenFile>,
    times: CreatorTimes,
}

/// What a creator is made of.
pub(crate) struct Parts {
    pub engine: Box<dyn Engine>,
    pub inbox: Receiver<Vec<Request>>,
    pub sleeping: Arc<AtomicBool>,
    pub shared: Arc<Shared>,
    pub sink: Option<FileSink>,
    pub bucket: Arc<Bucket>,
    pub open_files_max: usize,
    /// Bounds of the workers, and operations in flight for each.
    pub workers: Bounds,
    pub in_flight_per_worker: usize,
    /// Device and kind of the files, for the statistics.
    pub device: u64,
    pub files: FileKind,
}

/// Reason why a creator does not begin its operations.
#[derive(Clone, Copy)]
enum Held {
    /// The rate limit was exceeded. The creator may continue after this time.
    Back(Duration),
    Paused,
}

impl Creator {
    pub fn new(parts: Parts) -> Self {
        let (capacity, returned_at) = (parts.engine.capacity(), parts.engine.now());
        let Parts { device, files, .. } = parts;
        let mut creator = Self {
            engine: parts.engine,
            inbox: parts.inbox,
            inbox_ended: false,
            sleeping: parts.sleeping,
            shared: parts.shared,
            sink: parts.sink,
            bucket: parts.bucket,
            held: None,
            open_files_max: parts.open_files_max,
            limiter: Limiter::new(parts.workers),
            in_flight_per_worker: parts.in_flight_per_worker,
            in_flight_max: 0,
            returned_at,
            requests: VecDeque::new(),
            ready: VecDeque::new(),
            tickets: (0..capacity).map(|_| None).collect(),
            free_tokens: (0..capacity as u64).rev().collect(),
            files: HashMap::new(),
            times: CreatorTimes { device, files, ..CreatorTimes::default() },
        };
        creator.follow_limit();
        creator
    }

    /// Applies the current limit to the engine and to the operations in flight.
    fn follow_limit(&mut self) {
        let workers = self.limiter.limit();
        self.in_flight_max =
            workers.saturating_mul(self.in_flight_per_worker).clamp(1, self.engine.capacity());
        self.engine.limit_workers(workers);
    }

    /// Runs until no more requests can arrive and all operations have completed. After a failure it
    /// still receives requests but drops them, so that their memory is returned.
    pub fn run(mut self) -> CreatorTimes {
        let started = Instant::now();
        let mut done = Vec::with_capacity(self.engine.capacity());
        loop {
            self.begin_operations();
            let nothing_queued = self.ready.is_empty() && self.requests.is_empty();
            if self.inbox_ended && nothing_queued && self.engine.in_flight() == 0 {
                break;
            }
            if let Err(error) = self.sleep(&mut done) {
                self.shared.fail(error);
                // What becomes of the operations in flight, and of later requests, is unknown.
                self.shared.lost.creator_died();
                break;
            }
            for completion in done.drain(..) {
                self.complete(completion);
            }
        }
        self.check_all_complete();
        self.drop_queued();
        self.times.chosen_workers = self.limiter.settled();
        self.times.chosen_in_flight =
            (self.limiter.settled() * self.in_flight_per_worker).clamp(1, self.engine.capacity());
        self.times.choices = self.limiter.choices();
        self.times.engine = self.engine.kind().name();
        self.times.ring_restricted = self.engine.ring_restricted();
        self.times.registered_buffers = self.engine.registered_buffers();
        self.times.workers = self.engine.workers();
        self.times.total = started.elapsed();
        self.times
    }

    /// Checks that nothing is left at the end, since success must mean that every file is complete.
    fn check_all_complete(&self) {
        let left = self.tickets.iter().flatten().count() + self.ready.len() + self.files.len();
        if left > 0 && !self.shared.failed.load(Ordering::Acquire) {
            let reason = format!("{left} operations were not completed (a bug)");
            self.shared.fail(CreateError::Stopped { reason });
        }
    }

    /// Fills the engine, first with operations that are ready, then with requests, as far as the
    /// rate limit allows.
    fn begin_operations(&mut self) {
        self.held = None;
        if self.shared.failed.load(Ordering::Acquire) {
            self.drop_queued();
        }
        while self.engine.in_flight() < self.in_flight_max {
            if let Some((ticket, _)) = self.ready.front() {
                self.held = match self.bucket.admit(ticket.about.bytes_on_disk()) {
                    Admission::Granted => None,
                    Admission::Later(time) => Some(Held::Back(time)),
                    Admission::Paused => Some(Held::Paused),
                };
                let None = self.held else { return };
                if let Some((ticket, operation)) = self.ready.pop_front() {
                    self.submit(ticket, operation);
                }
                continue;
            }
            if self.requests.is_empty() {
                self.receive();
            }
            let Some(request) = self.requests.pop_front() else { return };
            if self.shared.failed.load(Ordering::Acquire) {
                self.shared.lost.drop_request(request);
                continue;
            }
            let begins = matches!(request.command, Command::Begin { .. });
            if begins && self.files.len() >= self.open_files_max {
                // All commands for earlier files of this stream have arrived, so those files will
                // be closed without further requests.
                self.requests.push_front(request);
                return;
            }
            self.handle(request);
        }
    }

    fn receive(&mut self) {
        match self.inbox.try_recv() {
            Ok(batch) => self.requests.extend(batch),
            Err(TryRecvError::Empty) if !self.shared.abandoned.load(Ordering::Acquire) => {}
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => self.inbox_ended = true,
        }
    }

    fn submit(&mut self, ticket: Ticket, operation: Operation) {
        // There is a token for each slot of the engine, and the engine has room.
        let token = self.free_tokens.pop();
        let place = token.and_then(|token| self.tickets.get_mut(usize::try_from(token).ok()?));
        let (Some(token), Some(place)) = (token, place) else {
            let reason = "an operation has no token (a bug)".to_owned();
            return self.shared.fail(CreateError::Stopped { reason });
        };
        *place = Some(ticket);
        self.engine.submit(token, operation);
    }

    fn handle(&mut self, Request { destination, file, command }: Request) {
        match command {
            Command::Whole { new, data } => {
                let (path, bytes) = (new.path.clone(), data.len() as u64);
                let cached_bytes =
                    if new.direct.is_some() { bytes % FILE_BLOCK_BYTES as u64 } else { bytes };
                let about = About::Whole { bytes, cached_bytes };
                let ticket = Ticket { destination, file, path, about };
                self.ready.push_back((ticket, Operation::WriteFile(WriteFile::new(new, data))));
            }
            Command::Begin { new } => {
                let path = new.path.clone();
                let state = OpenFile {
                    destination,
                    path: path.clone(),
                    direct: new.direct,
                    file: None,
                    waiting: Vec::new(),
                    writes_in_flight: 0,
                    bytes: 0,
                    end: None,
                };
                self.files.insert(file, state);
                let ticket = Ticket { destination, file, path, about: About::Begin };
                self.ready.push_back((ticket, Operation::Create(CreateFile::new(new))));
            }
            Command::Part { offset, data } => {
                if let Some(state) = self.files.get_mut(&file) {
                    state.waiting.push((offset, data));
                }
                self.advance(file);
            }
            Command::End { tail } => {
                if let Some(state) = self.files.get_mut(&file) {
                    state.end = Some(Ending { tail });
                }
                self.advance(file);
            }
        }
    }

    /// Prepares the next operations for a file of several writes.
    fn advance(&mut self, id: FileId) {
        let Some(state) = self.files.get_mut(&id) else { return };
        let Some(file) = &state.file else { return };
        for (offset, data) in state.waiting.drain(..) {
            let bytes = data.len() as u64;
            state.writes_in_flight += 1;
            state.bytes += bytes;
            let (destination, path) = (state.destination, state.path.clone());
            let cached = state.direct.is_none();
            let about = About::Part { bytes, cached };
            let ticket = Ticket { destination, file: id, path, about };
            let write = WriteAt::new(Arc::clone(file), offset, data, state.direct);
            self.ready.push_back((ticket, Operation::Write(write)));
        }
        if state.writes_in_flight == 0
            && let Some(Ending { tail }) = state.end.take()
        {
            let Some(OpenFile { destination, path, file: Some(file), bytes, .. }) =
                self.files.remove(&id)
            else {
                return;
            };
            let tail_bytes = tail.as_ref().map_or(0, |(_, data)| data.len() as u64);
            let about = About::End { bytes: bytes + tail_bytes, tail_bytes };
            let ticket = Ticket { destination, file: id, path, about };
            let keep_open = self.sink.as_ref().is_some_and(FileSink::wants_open_files);
            let finish = FinishFile::new(file, tail, keep_open);
            self.ready.push_back((ticket, Operation::Finish(finish)));
        }
    }

    fn complete(&mut self, Completion { token, result }: Completion) {
        let place = usize::try_from(token).ok().and_then(|at| self.tickets.get_mut(at));
        let Some(ticket) = place.and_then(Option::take) else {
            let reason = "a completion belongs to no operation (a bug)".to_owned();
            return self.shared.fail(CreateError::Stopped { reason });
        };
        self.free_tokens.push(token);
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => return self.fail(&ticket, error),
        };
        let progress = &self.shared.progress;
        let traffic = &self.shared.traffic[ticket.destination];
        match ticket.about {
            About::Whole { bytes, cached_bytes } => {
                progress.wrote(bytes - cached_bytes, false);
                progress.wrote(cached_bytes, true);
                traffic.done(in_blocks(bytes));
                self.complete_file(&ticket, bytes, outcome);
            }
            About::End { bytes, tail_bytes } => {
                progress.wrote(tail_bytes, true);
                traffic.done(in_blocks(tail_bytes));
                self.complete_file(&ticket, bytes, outcome);
            }
            About::Begin => {
                let state = self.files.get_mut(&ticket.file);
                if let (Some(state), Outcome::Created(file)) = (state, outcome) {
                    state.file = Some(file);
                }
                self.advance(ticket.file);
            }
            About::Part { bytes, cached } => {
                progress.wrote(bytes, cached);
                traffic.done(bytes);
                if let Some(state) = self.files.get_mut(&ticket.file) {
                    state.writes_in_flight -= 1;
                }
                self.advance(ticket.file);
            }
        }
    }

    /// Counts a complete file and sends it to the sink.
    fn complete_file(&mut self, ticket: &Ticket, bytes: u64, outcome: Outcome) {
        if let Some(sink) = &self.sink {
            let (destination, path) = (ticket.destination, ticket.path.to_string());
            let file = match outcome {
                Outcome::Kept(file) => Some(file),
                _ => None,
            };
            let since = Instant::now();
            let sent =
                sink.send(FinishedFile { destination, path, bytes, file }, &self.shared.failed);
            self.times.waited_for_io += since.elapsed();
            if let Err(error) = sent {
                self.shared.lost.add(ticket.file, ticket.destination, &ticket.path);
                return self.shared.fail(error);
            }
        }
        self.shared.progress.files.fetch_add(1, Ordering::Release);
        self.shared.streams[ticket.file.stream].complete.fetch_add(1, Ordering::Release);
    }

    /// Records the failure and drops everything that is not in flight.
    fn fail(&mut self, ticket: &Ticket, OpError { step, errno }: OpError) {
        let path = self.shared.roots[ticket.destination].join(ticket.path.to_string());
        self.shared.lost.add(ticket.file, ticket.destination, &ticket.path);
        self.shared.fail(CreateError::File { step, path, errno });
        self.drop_queued();
    }

    /// Drops everything that is not in flight. Its files are lost, if there are any.
    fn drop_queued(&mut self) {
        let lost = &self.shared.lost;
        for (Ticket { destination, file, path, .. }, _) in self.ready.drain(..) {
            lost.add(file, destination, &path);
        }
        for request in self.requests.drain(..) {
            lost.drop_request(request);
        }
        for (file, OpenFile { destination, path, .. }) in self.files.drain() {
            lost.add(file, destination, &path);
        }
    }

    /// Waits for completions, for requests if there is room for them, and for the end of a pause or
    /// of a wait for the rate limit.
    fn sleep(&mut self, done: &mut Vec<Completion>) -> Result<(), CreateError> {
        let room = self.engine.in_flight() < self.in_flight_max;
        if room && self.held.is_none() && !self.inbox_ended && self.requests.is_empty() {
            // Announce the sleep, then check the inbox once more: either this thread sees the
            // sender's batch, or the sender sees that this thread sleeps and wakes it.
            self.sleeping.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            self.receive();
            if self.inbox_ended || !self.requests.is_empty() {
                self.sleeping.store(false, Ordering::SeqCst);
                return Ok(());
            }
        }
        let idle = self.engine.in_flight() == 0;
        let limit = match self.held {
            Some(Held::Back(time)) => Some(time.min(HELD_BACK_REPORT)),
            Some(Held::Paused) | None => None,
        };
        let since = Instant::now();
        self.engine.wait_at_most(limit, done)?;
        self.sleeping.store(false, Ordering::SeqCst);
        self.measure(!room && self.held.is_none(), done);
        let (waited, times) = (since.elapsed(), &mut self.times);
        match self.held {
            Some(Held::Back(_)) => {
                times.held_back += waited;
                let held_back = u64::try_from(times.held_back.as_millis()).unwrap_or(u64::MAX);
                self.shared.progress.held_back_ms.fetch_max(held_back, Ordering::Relaxed);
            }
            Some(Held::Paused) => times.paused += waited,
            None if idle => times.waited_for_input += waited,
            None => times.waited_for_io += waited,
        }
        Ok(())
    }

    /// Measures the device during a time in which the engine was full, and follows the limit.
    fn measure(&mut self, full: bool, done: &[Completion]) {
        let now = self.engine.now();
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.returned_at, now));
        if !full {
            return;
        }
        let ticket =
            |done: &Completion| self.tickets.get(usize::try_from(done.token).ok()?)?.as_ref();
        let bytes = done.iter().filter_map(ticket).map(|ticket| ticket.about.bytes_on_disk());
        if self.limiter.was_full(elapsed, done.len(), bytes.sum()) {
            tracing::trace!(workers = self.limiter.limit(), "tries another number of workers");
            self.follow_limit();
        }
    }
}
