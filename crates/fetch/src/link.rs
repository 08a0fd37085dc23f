//! A link: a thread with one connection, which receives parts of the archive.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use unsnap_arena::{Block, Pool};
use unsnap_source::{DigestKind, Hasher, Span};

use crate::{
    FetchError,
    connection::Connection,
    head,
    identity::{Body, Identity},
    patience::Attempts,
    site::Site,
    window::{Run, Window},
};

/// Interval at which a link that waits checks for cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Bytes that are received at once of what has been received before. A guess.
const SKIP_BYTES: usize = 256 << 10;

/// What all links and the reader share.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    received: AtomicU64,
    waited_us: AtomicU64,
}

/// State of the transfer.
#[derive(Default)]
pub struct State {
    /// Memory and order, once a reader has been made.
    pub transfer: Option<Transfer>,
    /// Why the transfer has failed.
    pub failed: Option<FetchError>,
    /// Somebody reads, or has read.
    pub has_reader: bool,
    /// Nobody reads any more.
    pub is_over: bool,
    /// Number of connections that broke, or could not be made.
    pub breaks: u64,
    /// Bytes that were received before already.
    pub bytes_twice: u64,
}

/// A transfer under way.
pub struct Transfer {
    /// What is to be received.
    pub window: Window<Arrived>,
    /// Memory for chunks.
    pub pool: Pool,
    /// Size of a chunk in bytes.
    pub chunk_bytes: usize,
    /// Size of the memory in front of each chunk.
    pub headroom_bytes: usize,
}

/// A chunk that has arrived.
pub struct Arrived {
    /// Its bytes.
    pub span: Span,
    /// The memory in front of them.
    pub headroom: Option<Block>,
}

impl Shared {
    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something may have changed.
    pub fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, CANCEL_CHECK);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes all who wait.
    pub fn tell(&self) {
        self.changed.notify_all();
    }

    /// Returns the number of bytes that all links have received, and the time that they waited for
    /// them. Time in which nobody asked for bytes does not count.
    pub fn received(&self) -> (u64, Duration) {
        let waited = Duration::from_micros(self.waited_us.load(Ordering::Relaxed));
        (self.received.load(Ordering::Relaxed), waited)
    }

    fn count(&self, bytes: usize, waited: Duration) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waited_us.fetch_add(waited, Ordering::Relaxed);
    }

    /// Ends the transfer. The first reason counts.
    pub fn fail(&self, error: FetchError) {
        self.lock().failed.get_or_insert(error);
        self.tell();
    }
}

/// A link.
pub struct Link {
    /// The server, and what is asked of it.
    pub site: Arc<Site>,
    /// The archive.
    pub identity: Identity,
    /// What the links share.
    pub shared: Arc<Shared>,
    /// A connection: for runs after a body, otherwise within the body of the archive.
    pub connection: Option<Connection>,
}

/// Memory of a link.
struct Memory {
    pool: Pool,
    chunk_bytes: usize,
    headroom_bytes: usize,
}

/// Bytes of the archive that are being received, chunk by chunk.
struct Receiving {
    /// Offset of the next byte.
    at: u64,
    /// Offset behind the last byte.
    end: u64,
    /// The chunk that is being filled.
    chunk: Option<Chunk>,
}

/// A chunk that is being filled.
struct Chunk {
    /// The memory in front of the block.
    headroom: Option<Block>,
    block: Block,
    first: u64,
    bytes: usize,
}

impl Link {
    /// Receives runs, each by a request of its own, until nothing is left.
    pub fn receive_runs(self) {
        self.work(Self::receive_range);
    }

    /// Receives the archive from front to back. `passed` is the digest of what has come already.
    pub fn receive_all(self, mut passed: Hasher) {
        self.work(|link, rest, memory| link.receive_on(rest, &mut passed, memory));
    }

    /// Receives run after run by `receive`, again after each break.
    fn work(
        mut self,
        mut receive: impl FnMut(&mut Self, &mut Receiving, &Memory) -> Result<(), FetchError>,
    ) {
        let _guard = EndGuard(Arc::clone(&self.shared));
        while let Some((run, memory)) = self.next_run() {
            let mut receiving = Receiving { at: run.first, end: run.end, chunk: None };
            let mut attempts = Attempts::default();
            let received = loop {
                let (started, before) = (Instant::now(), receiving.at);
                let Err(error) = receive(&mut self, &mut receiving, &memory) else { break Ok(()) };
                self.connection = None;
                // A drip of bytes is no success.
                if receiving.at > before && !matches!(error, FetchError::Slow { .. }) {
                    attempts.succeeded();
                }
                if let Err(error) = self.wait_after(error, &mut attempts, started, &memory) {
                    break Err(error);
                }
            };
            if let Err(error) = received {
                return self.shared.fail(error);
            }
        }
    }

    fn next_run(&self) -> Option<(Run, Memory)> {
        let mut state = self.shared.lock();
        loop {
            if state.is_over || state.failed.is_some() {
                return None;
            }
            if let Some(transfer) = &mut state.transfer {
                if let Some(run) = transfer.window.give() {
                    let Transfer { pool, chunk_bytes, headroom_bytes, .. } = transfer;
                    let (chunk_bytes, headroom_bytes) = (*chunk_bytes, *headroom_bytes);
                    let memory = Memory { pool: pool.clone(), chunk_bytes, headroom_bytes };
                    return Some((run, memory));
                }
                if transfer.window.is_given() {
                    return None;
                }
            }
            state = self.shared.wait(state);
        }
    }

    fn is_cancelled(&self, memory: &Memory) -> bool {
        memory.pool.is_closed() || self.shared.lock().is_over
    }

    /// Asks for what is missing of a run, and receives it.
    fn receive_range(&mut self, run: &mut Receiving, memory: &Memory) -> Result<(), FetchError> {
        let address = &self.site.address;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect(memory)?,
        };
        let body = self.ask(&mut connection, run.at, Some(run.end - 1), memory)?;
        if body.first != run.at {
            let reason = "the server does not answer ranges any more".to_owned();
            return Err(FetchError::Protocol { address: address.clone(), reason });
        }
        let body_end = body.first + body.bytes;
        while run.at < body_end.min(run.end) {
            self.receive(run, &mut connection, memory, |_| {})?;
        }
        if run.at < run.end {
            // This is allowed. The rest is asked for.
            let reason = "the server sent less than was requested".to_owned();
            return Err(FetchError::Broken { address: address.clone(), offset: run.at, reason });
        }
        self.connection = body.keeps.then_some(connection);
        Ok(())
    }

    /// Receives the rest of the archive. `passed` is the digest of all bytes before it.
    fn receive_on(
        &mut self,
        rest: &mut Receiving,
        passed: &mut Hasher,
        memory: &Memory,
    ) -> Result<(), FetchError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect_behind(rest.at, passed, memory)?,
        };
        while rest.at < rest.end {
            self.receive(rest, &mut connection, memory, |bytes| passed.update(bytes))?;
        }
        Ok(())
    }

    /// Connects anew, and skips the bytes before `at`. They must have the same digest as at first.
    fn connect_behind(
        &self,
        at: u64,
        passed: &Hasher,
        memory: &Memory,
    ) -> Result<Connection, FetchError> {
        let mut connection = self.connect(memory)?;
        // From its beginning: this server has no ranges, or it would not be asked for everything.
        self.ask(&mut connection, 0, None, memory)?;
        let mut scratch = vec![0; SKIP_BYTES];
        let mut again = DigestKind::Xxh3.hasher();
        let mut skipped = 0;
        while skipped < at {
            let left = usize::try_from(at - skipped).unwrap_or(usize::MAX);
            let into = &mut scratch[..left.min(SKIP_BYTES)];
            let cancelled = || self.is_cancelled(memory);
            let count = connection.receive(into, skipped, &self.site.patience, &cancelled)?;
            again.update(&into[..count]);
            skipped += count as u64;
            self.shared.lock().bytes_twice += count as u64;
        }
        let (expected, found) = (passed.digest(), again.digest());
        if expected == found {
            return Ok(connection);
        }
        Err(FetchError::Changed {
            address: self.site.address.clone(),
            what: "the digest of the bytes received so far",
            expected: expected.to_string(),
            found: found.to_string(),
        })
    }

    fn connect(&self, memory: &Memory) -> Result<Connection, FetchError> {
        let Site { address, route, tls, patience, .. } = &*self.site;
        Connection::open(address, route, tls, patience, &|| self.is_cancelled(memory))
    }

    fn ask(
        &self,
        connection: &mut Connection,
        first: u64,
        last: Option<u64>,
        memory: &Memory,
    ) -> Result<Body, FetchError> {
        let Site { address, patience, headers, route, .. } = &*self.site;
        let (etag, proxy) = (self.identity.etag.as_deref(), route.proxy.as_ref());
        let request = head::request(address, (first, last), etag, headers, proxy);
        let head = connection.ask(&request, patience, &|| self.is_cancelled(memory))?;
        let body = Body::of(head, address, first, last)?;
        self.identity.hold(&body.identity, address)?;
        Ok(body)
    }

    /// Receives bytes into a chunk, looks at them, and passes the chunk on when it is full.
    fn receive(
        &self,
        receiving: &mut Receiving,
        connection: &mut Connection,
        memory: &Memory,
        mut look: impl FnMut(&[u8]),
    ) -> Result<(), FetchError> {
        let mut chunk = match receiving.chunk.take() {
            Some(chunk) => chunk,
            None => memory.chunk(receiving.at, receiving.end)?,
        };
        let filled = usize::try_from(receiving.at - chunk.first).unwrap_or(chunk.bytes);
        let cancelled = || self.is_cancelled(memory);
        let into = &mut chunk.block[filled..chunk.bytes];
        let started = Instant::now();
        let received = connection.receive(into, receiving.at, &self.site.patience, &cancelled);
        self.shared.count(*received.as_ref().unwrap_or(&0), started.elapsed());
        match received {
            Ok(count) => {
                look(&into[..count]);
                receiving.at += count as u64;
            }
            Err(error) => {
                receiving.chunk = Some(chunk);
                return Err(error);
            }
        }
        if receiving.at < chunk.first + chunk.bytes as u64 {
            receiving.chunk = Some(chunk);
            return Ok(());
        }
        let span = Span { offset: chunk.first, bytes: chunk.block.freeze().slice(..chunk.bytes) };
        if let Some(transfer) = &mut self.shared.lock().transfer {
            let arrived = Arrived { span, headroom: chunk.headroom };
            transfer.window.arrive(chunk.first, receiving.at, arrived);
        }
        self.shared.tell();
        Ok(())
    }

    /// Waits before another attempt, or returns the error if there is to be none.
    fn wait_after(
        &self,
        error: FetchError,
        attempts: &mut Attempts,
        started: Instant,
        memory: &Memory,
    ) -> Result<(), FetchError> {
        if !error.is_transient() {
            return Err(error);
        }
        let Some(wait) = attempts.failed(&self.site.patience, started.elapsed()) else {
            return Err(error);
        };
        self.shared.lock().breaks += 1;
        tracing::warn!(%error, wait_ms = wait.as_millis(), "trying again");
        let until = Instant::now() + wait;
        let mut state = self.shared.lock();
        while Instant::now() < until {
            if state.is_over || state.failed.is_some() || memory.pool.is_closed() {
                return Err(FetchError::Cancelled);
            }
            state = self.shared.wait(state);
        }
        Ok(())
    }
}

impl Memory {
    /// Lends memory for the chunk from `first` on, which ends before `end`.
    fn chunk(&self, first: u64, end: u64) -> Result<Chunk, FetchError> {
        let left = usize::try_from(end - first).unwrap_or(usize::MAX);
        // Blocks of one size only, so that the pool is never in pieces.
        let bytes = self.headroom_bytes + self.chunk_bytes;
        let (mut block, _) = self.pool.allocate(bytes).map_err(|_| FetchError::Cancelled)?;
        let headroom = (self.headroom_bytes > 0).then(|| block.split_to(self.headroom_bytes));
        Ok(Chunk { headroom, block, first, bytes: left.min(self.chunk_bytes) })
    }
}

/// Tells the reader that a link has ended, also by a panic, after which nothing more comes.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(FetchError::Thread { reason: "a link has panicked".to_owned() });
        }
        self.0.tell();
    }
}
