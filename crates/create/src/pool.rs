//! The pool of creators: one for each destination device.

use std::{
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
use unsnap_ring::{EngineConfig, EngineKind, Waker, queue_depth};

use crate::{
    CreateError, Destination,
    creator::{Command, Creator, Request},
};

/// Commands that travel together. Batches keep hand-offs few when files are small.
const BATCH_COMMANDS: usize = 64;

/// Batches that may wait for a creator. The segments bound the bytes; this bounds the number.
const BATCHES_MAX: usize = 64;

/// Descriptors left to everything that is not a creator: standard streams, the archive, rings,
/// directories, whatever the embedding program has open.
const RESERVED_DESCRIPTORS: u64 = 64;

/// Threads that may block in the kernel for one creator: worker threads or io-wq workers.
/// Measured by the prototype (WRITE-PATH): no clear effect above 2 on large files, and more only
/// contend for the directory's lock on small ones.
const WORKERS: usize = 4;

/// What a pool is made from.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The engine of every creator.
    pub engine: EngineKind,
    /// Memory to register with the rings.
    pub register: Option<ArenaRanges>,
    /// Operations in flight for one device; `None` asks the device.
    pub depth: Option<usize>,
    /// Threads that may block in the kernel for one device; `None` for the default.
    pub workers: Option<usize>,
}

/// How far the creators are; shared, to be read at any time.
#[derive(Debug, Default)]
pub struct CreateProgress {
    /// Files that are complete.
    pub files: AtomicU64,
    /// Bytes written, padding not counted.
    pub bytes: AtomicU64,
}

/// Where a creator's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreatorTimes {
    /// From its start to its end.
    pub total: Duration,
    /// Nothing in flight and nothing to do: waiting for payloads.
    pub idle: Duration,
    /// Whether its engine had the buffers registered.
    pub registered_buffers: bool,
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

/// The creators of all destinations.
///
/// Dropping the pool gives up: what is in flight is awaited, what is queued is dropped.
pub struct CreatorPool {
    members: Vec<Member>,
    /// Destination index → member index.
    route: Vec<usize>,
    shared: Arc<Shared>,
    waited: Duration,
}

struct Member {
    inbox: Option<Sender<Vec<Request>>>,
    batch: Vec<Request>,
    waker: Waker,
    sleeping: Arc<AtomicBool>,
    thread: Option<JoinHandle<CreatorTimes>>,
}

impl CreatorPool {
    /// Starts one creator for each device among the destinations.
    pub fn start(
        destinations: &[Destination],
        config: &PoolConfig,
        progress: Arc<CreateProgress>,
    ) -> Result<Self, CreateError> {
        let mut devices: Vec<u64> = destinations.iter().map(Destination::device).collect();
        devices.sort_unstable();
        devices.dedup();
        let roots: Arc<[PathBuf]> =
            destinations.iter().map(|place| place.path().to_owned()).collect();
        let shared = Arc::new(Shared { progress, ..Shared::default() });
        let open_files_max = (open_files_max() / devices.len().max(1)).max(2);
        let mut pool =
            Self { members: Vec::new(), route: Vec::new(), shared, waited: Duration::ZERO };
        let mut attach = None;
        for &device in &devices {
            let depth = config.depth.unwrap_or_else(|| queue_depth(device));
            // An operation in flight may hold a descriptor open, and so may a file of many writes.
            let capacity = depth.clamp(1, open_files_max / 2);
            let engine = EngineConfig {
                kind: config.engine.clone(),
                capacity,
                workers: config.workers.unwrap_or(WORKERS),
                register: config.register.clone(),
                attach,
            };
            let engine = engine.open()?;
            attach = attach.or(engine.ring_fd());
            let waker = engine.waker();
            let sleeping = Arc::new(AtomicBool::new(false));
            let (inbox, commands) = bounded(BATCHES_MAX);
            let creator = Creator::new(
                engine,
                commands,
                Arc::clone(&sleeping),
                Arc::clone(&pool.shared),
                Arc::clone(&roots),
                open_files_max.saturating_sub(capacity).max(1),
            );
            let thread = thread::Builder::new()
                .name(format!("unsnap-create-{}", pool.members.len()))
                .spawn(move || creator.run())
                .map_err(|error| CreateError::Stopped { reason: error.to_string() })?;
            let (batch, thread) = (Vec::with_capacity(BATCH_COMMANDS), Some(thread));
            pool.members.push(Member { inbox: Some(inbox), batch, waker, sleeping, thread });
        }
        pool.route = destinations
            .iter()
            .map(|place| devices.binary_search(&place.device()).unwrap_or(0))
            .collect();
        Ok(pool)
    }

    /// Queues a command. Blocks while the creator has more than enough to do.
    pub(crate) fn send(&mut self, destination: usize, command: Command) -> Result<(), CreateError> {
        let member = &mut self.members[self.route[destination]];
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

    /// Time that whoever feeds the creators has waited for them to take more.
    pub fn waited(&self) -> Duration {
        self.waited
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

fn died() -> CreateError {
    CreateError::Stopped { reason: "its thread ended unexpectedly".to_owned() }
}

/// Files that may be open at once, by RLIMIT_NOFILE.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(1 << 20).saturating_sub(RESERVED_DESCRIPTORS);
    usize::try_from(limit).unwrap_or(usize::MAX).clamp(2, 1 << 16)
}
