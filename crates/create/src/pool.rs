//! The pool of creators: for each destination device one for files that are written directly and one
//! for files that go through the page cache.

use std::{
    os::fd::RawFd,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering, fence},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crossbeam::channel::{Sender, bounded};
use unsnap_arena::ArenaRanges;
use unsnap_ring::{EngineConfig, EngineKind, Waker, WorkerTimes};

use crate::{
    CreateError, Destination, FILE_BLOCK_BYTES,
    creator::{Command, Creator, Request},
};

/// Commands that travel together. Batches keep hand-offs few when files are small.
const BATCH_COMMANDS: usize = 64;

/// Batches that may wait for a creator. The segments bound the bytes; this bounds the number.
const BATCHES_MAX: usize = 64;

/// Descriptors left to everything that is not a creator: standard streams, the archive, rings,
/// directories, whatever the embedding program has open.
const RESERVED_DESCRIPTORS: u64 = 64;

/// How often to look whether everything is complete, which is asked every few seconds. A guess.
const SETTLE_POLL: Duration = Duration::from_micros(200);

/// What a creator asks of its engine.
#[derive(Clone, Copy)]
struct Concurrency {
    /// Threads that may block in the kernel: worker threads or io-wq workers.
    workers: usize,
    /// Operations in flight at most.
    depth: usize,
}

/// Files that are written directly. An extending direct write keeps its worker until the device is
/// done: 8 workers took 0.9 of the time of 4, and 16 no less. More than two operations for each of
/// them only make kernel workers fight for the directory: 16 in flight took 0.87 of the time of 128
/// and half of the CPU (6 GB in 8,278 files, ext4 on 2 cores, BENCHMARKS.md).
const DIRECT: Concurrency = Concurrency { workers: 8, depth: 16 };

/// Files that go through the page cache. Creating them is work for the processor under the
/// directory's lock: 2, 3 and 4 workers are equally fast (200,000 files of 8 KiB), and more of them
/// burn processor time by spinning where large files are created beside them.
const CACHED: Concurrency = Concurrency { workers: 2, depth: 32 };

/// What a pool is made from.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The engine of the creators of files that are written directly.
    pub engine: EngineKind,
    /// The engine of the creators of files that go through the page cache.
    pub cached_engine: EngineKind,
    /// Memory to register with the rings.
    pub register: Option<ArenaRanges>,
    /// Operations in flight for one creator; `None` for the default.
    pub depth: Option<usize>,
    /// Threads that may block in the kernel for one creator; `None` for the default.
    pub workers: Option<usize>,
}

/// How far the creators are; shared, to be read at any time.
#[derive(Debug, Default)]
pub struct CreateProgress {
    /// Files that are complete.
    pub files: AtomicU64,
    /// Bytes written, padding not counted.
    pub bytes: AtomicU64,
    /// Of which through the page cache.
    pub cached_bytes: AtomicU64,
}

impl CreateProgress {
    pub(crate) fn wrote(&self, bytes: u64, cached: bool) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if cached {
            self.cached_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// What has been handed over to be written below one destination. What of it is still in flight may
/// have taken its space already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Bytes that files take in blocks of 4096, of parts of files too.
    pub bytes: u64,
    /// Files, but for the one that is being handed over.
    pub files: u64,
}

/// Where a creator's time went.
#[derive(Clone, Debug, Default)]
pub struct CreatorTimes {
    /// From its start to its end.
    pub total: Duration,
    /// Nothing in flight and nothing to do: waiting for payloads.
    pub waited_for_input: Duration,
    /// Waiting for the kernel to carry out what is in flight.
    pub waited_for_io: Duration,
    /// Name of its engine.
    pub engine: &'static str,
    /// Whether its engine had the buffers registered.
    pub registered_buffers: bool,
    /// Whether its engine's ring takes only the operations of engines; `None` if it has no ring.
    pub ring_restricted: Option<bool>,
    /// Where the time of the engine's own threads has gone.
    pub workers: Vec<WorkerTimes>,
}

/// What the walk thread and the creators share.
#[derive(Default)]
pub(crate) struct Shared {
    pub failed: AtomicBool,
    pub error: Mutex<Option<CreateError>>,
    pub progress: Arc<CreateProgress>,
}

impl Shared {
    /// Keeps the first error; the others follow from it.
    pub fn fail(&self, error: CreateError) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            tracing::debug!(%error, "creating files failed");
            *first = Some(error);
        }
        drop(first);
        self.failed.store(true, Ordering::Release);
    }

    fn take_error(&self) -> Option<CreateError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The creators of all destinations: for each device one for files that are written directly, and
/// one for files that go through the page cache.
///
/// Dropping the pool gives up: what is in flight is awaited, what is queued is dropped.
pub struct CreatorPool {
    members: Vec<Member>,
    /// Destination index → its creators.
    routes: Vec<Route>,
    shared: Arc<Shared>,
    /// What messages call the destinations.
    roots: Arc<[PathBuf]>,
    /// A ring that later ones are attached to.
    attach: Option<RawFd>,
    /// What [`CreateProgress::files`] will say when everything queued so far is complete.
    files_queued: u64,
    /// For each destination.
    written: Vec<Written>,
    waited: Duration,
}

/// Indices of the creators of a destination.
#[derive(Clone, Copy)]
struct Route {
    direct: usize,
    cached: usize,
}

struct Member {
    inbox: Option<Sender<Vec<Request>>>,
    batch: Vec<Request>,
    waker: Waker,
    sleeping: Arc<AtomicBool>,
    thread: Option<JoinHandle<CreatorTimes>>,
}

impl CreatorPool {
    /// Starts the creators of each device among the destinations.
    pub fn start(
        destinations: &[Destination],
        config: &PoolConfig,
        progress: Arc<CreateProgress>,
    ) -> Result<Self, CreateError> {
        let mut devices: Vec<u64> = destinations.iter().map(Destination::device).collect();
        devices.sort_unstable();
        devices.dedup();
        let creators = 2 * devices.len();
        let open_files_max = (open_files_max() / creators.max(1)).max(2);
        let files_queued = progress.files.load(Ordering::Relaxed);
        let shared = Arc::new(Shared { progress, ..Shared::default() });
        let mut pool = Self {
            members: Vec::new(),
            routes: Vec::new(),
            shared,
            roots: destinations.iter().map(|place| place.path().to_owned()).collect(),
            attach: None,
            files_queued,
            written: vec![Written::default(); destinations.len()],
            waited: Duration::ZERO,
        };
        let mut routes = Vec::new();
        for _ in &devices {
            let direct = pool.start_creator(config, &config.engine, DIRECT, open_files_max)?;
            let cached =
                pool.start_creator(config, &config.cached_engine, CACHED, open_files_max)?;
            routes.push(Route { direct, cached });
        }
        pool.routes = destinations
            .iter()
            .map(|place| routes[devices.binary_search(&place.device()).unwrap_or(0)])
            .collect();
        Ok(pool)
    }

    /// Starts one creator and gives its index.
    fn start_creator(
        &mut self,
        config: &PoolConfig,
        engine: &EngineKind,
        Concurrency { workers, depth }: Concurrency,
        open_files_max: usize,
    ) -> Result<usize, CreateError> {
        let depth = config.depth.unwrap_or(depth);
        // An operation in flight may hold a descriptor open, and so may a file of many writes.
        let capacity = depth.clamp(1, open_files_max / 2);
        let engine = EngineConfig {
            kind: engine.clone(),
            capacity,
            workers: config.workers.unwrap_or(workers),
            register: config.register.clone(),
            attach: self.attach,
        };
        let engine = engine.open()?;
        self.attach = self.attach.or(engine.ring_fd());
        let waker = engine.waker();
        let sleeping = Arc::new(AtomicBool::new(false));
        let (inbox, commands) = bounded(BATCHES_MAX);
        let creator = Creator::new(
            engine,
            commands,
            Arc::clone(&sleeping),
            Arc::clone(&self.shared),
            Arc::clone(&self.roots),
            open_files_max.saturating_sub(capacity).max(1),
        );
        let index = self.members.len();
        let thread = thread::Builder::new()
            .name(format!("unsnap-create-{index}"))
            .spawn(move || creator.run())
            .map_err(|error| CreateError::Stopped { reason: error.to_string() })?;
        let (batch, thread) = (Vec::with_capacity(BATCH_COMMANDS), Some(thread));
        self.members.push(Member { inbox: Some(inbox), batch, waker, sleeping, thread });
        Ok(index)
    }

    /// Queues a command. Blocks while the creator has more than enough to do.
    pub(crate) fn send(
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
        self.written[destination].bytes += bytes;
        self.written[destination].files += u64::from(file);
        self.files_queued += u64::from(file);
        let route = self.routes[destination];
        let member = &mut self.members[if direct { route.direct } else { route.cached }];
        member.batch.push(Request { destination, command });
        if member.batch.len() < BATCH_COMMANDS {
            return Ok(());
        }
        self.flush()
    }

    /// Sends off what is queued.
    pub(crate) fn flush(&mut self) -> Result<(), CreateError> {
        if self.shared.failed.load(Ordering::Acquire) {
            return Err(self.error());
        }
        for member in &mut self.members {
            if member.batch.is_empty() {
                continue;
            }
            let batch = std::mem::replace(&mut member.batch, Vec::with_capacity(BATCH_COMMANDS));
            let since = Instant::now();
            let sent = member.inbox.as_ref().is_some_and(|inbox| inbox.send(batch).is_ok());
            self.waited += since.elapsed();
            if !sent {
                return Err(self.error());
            }
            member.wake();
        }
        Ok(())
    }

    /// Waits until every file queued so far is complete. None may have been begun and not ended.
    pub(crate) fn settle(&mut self) -> Result<(), CreateError> {
        self.flush()?;
        let since = Instant::now();
        while self.shared.progress.files.load(Ordering::Acquire) < self.files_queued {
            if self.shared.failed.load(Ordering::Acquire)
                || self
                    .members
                    .iter()
                    .any(|member| member.thread.as_ref().is_none_or(JoinHandle::is_finished))
            {
                return Err(self.error());
            }
            thread::park_timeout(SETTLE_POLL);
        }
        self.waited += since.elapsed();
        Ok(())
    }

    /// Time that whoever feeds the creators has waited for them to take more.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// What has been handed over for each destination.
    pub(crate) fn written(&self) -> &[Written] {
        &self.written
    }

    /// Waits until every file is complete.
    pub fn finish(mut self) -> Result<Vec<CreatorTimes>, CreateError> {
        let flushed = self.flush();
        let times = self.stop();
        flushed?;
        match self.shared.take_error() {
            Some(error) => Err(error),
            None => times.ok_or_else(died),
        }
    }

    /// Ends the creators; `None` if one of them panicked.
    fn stop(&mut self) -> Option<Vec<CreatorTimes>> {
        for member in &mut self.members {
            member.inbox = None;
            member.wake();
        }
        let threads: Vec<_> =
            self.members.iter_mut().filter_map(|member| member.thread.take()).collect();
        threads.into_iter().map(|thread| thread.join().ok()).collect()
    }

    fn error(&self) -> CreateError {
        self.shared.take_error().unwrap_or_else(died)
    }
}

impl Drop for CreatorPool {
    fn drop(&mut self) {
        if self.members.iter().any(|member| member.thread.is_some()) {
            self.shared.failed.store(true, Ordering::Release);
            let _ = self.stop();
        }
    }
}

impl Member {
    /// Rouses the creator if it sleeps (or is about to: see the fence in `Creator::sleep`).
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

/// Bytes that so many take on a disk, at the most that is usual.
fn in_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(FILE_BLOCK_BYTES as u64)
}

fn died() -> CreateError {
    CreateError::Stopped { reason: "its thread ended unexpectedly".to_owned() }
}

/// Files that may be open at once, by RLIMIT_NOFILE.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(1 << 20).saturating_sub(RESERVED_DESCRIPTORS);
    usize::try_from(limit).unwrap_or(usize::MAX).clamp(2, 1 << 16)
}
