//! The pool of creators: for each destination device one for files that are written directly and one
//! for files that go through the page cache.

use std::{
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crossbeam::channel::bounded;
use unsnap_arena::ArenaRanges;
use unsnap_ring::{Bucket, EngineConfig, EngineKind, IoPriority, Pace, Subscription, WorkerTimes};

use crate::{
    CreateError, CreateProgress, Destination, FileSink, Written,
    creator::Creator,
    feeder::{Feeder, Inbox, Route},
    shared::{Shared, Traffic, died},
};

/// Batches that may wait for a creator. The segments bound the bytes; this bounds the number.
const BATCHES_MAX: usize = 64;

/// Descriptors left to everything that is not a creator: standard streams, the archive, rings,
/// directories, whatever the embedding program has open.
const RESERVED_DESCRIPTORS: u64 = 64;

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
    /// Who is told of files that are complete.
    pub sink: Option<FileSink>,
    /// How fast each device is written to, and whether at all.
    pub pace: Pace,
    /// How urgent writes are.
    pub priority: Option<IoPriority>,
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
    /// Something to write, and more written than the limit allows.
    pub held_back: Duration,
    /// Something to do, and paused.
    pub paused: Duration,
    /// Name of its engine.
    pub engine: &'static str,
    /// Whether its engine had the buffers registered.
    pub registered_buffers: bool,
    /// Whether its engine's ring takes only the operations of engines; `None` if it has no ring.
    pub ring_restricted: Option<bool>,
    /// Where the time of the engine's own threads has gone.
    pub workers: Vec<WorkerTimes>,
}

/// The creators of all destinations: for each device one for files that are written directly, and
/// one for files that go through the page cache.
///
/// Dropping the pool gives up: what is in flight is awaited, what is queued is dropped.
pub struct CreatorPool {
    members: Vec<Member>,
    /// Destination index → its creators.
    routes: Arc<[Route]>,
    shared: Arc<Shared>,
    /// A ring that later ones are attached to.
    attach: Option<RawFd>,
    keeps_files_open: bool,
    pace: Pace,
}

struct Member {
    inbox: Option<Inbox>,
    /// Wakes it when its pace changes.
    _subscription: Subscription,
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
        let roots = destinations.iter().map(|place| place.path().to_owned()).collect();
        let shared = Arc::new(Shared::new(roots, progress));
        let mut pool = Self {
            members: Vec::new(),
            routes: Arc::new([]),
            shared,
            attach: None,
            keeps_files_open: config.sink.as_ref().is_some_and(FileSink::wants_open_files),
            pace: config.pace.clone(),
        };
        let mut routes = Vec::new();
        for _ in &devices {
            let bucket = Arc::new(Bucket::new(config.pace.clone()));
            let mut start = |engine, concurrency| {
                pool.start_creator(config, engine, concurrency, open_files_max, &bucket)
            };
            let direct = start(&config.engine, DIRECT)?;
            let cached = start(&config.cached_engine, CACHED)?;
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
        bucket: &Arc<Bucket>,
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
            priority: config.priority,
        };
        let engine = engine.open()?;
        self.attach = self.attach.or(engine.ring_fd());
        let waker = engine.waker();
        let sleeping = Arc::new(AtomicBool::new(false));
        let (requests, commands) = bounded(BATCHES_MAX);
        let creator = Creator::new(
            engine,
            commands,
            Arc::clone(&sleeping),
            Arc::clone(&self.shared),
            config.sink.clone(),
            Arc::clone(bucket),
            // For each stream one that is not complete, and one to go on with.
            open_files_max.saturating_sub(capacity).max(2),
        );
        self.shared.will_wake(waker.clone());
        let subscription = config.pace.wake_on_change(waker.clone());
        let index = self.members.len();
        let thread = thread::Builder::new()
            .name(format!("unsnap-create-{index}"))
            .spawn(move || creator.run())
            .map_err(|error| CreateError::Stopped { reason: error.to_string() })?;
        let inbox = Some(Inbox { requests, waker, sleeping });
        self.members.push(Member { inbox, _subscription: subscription, thread: Some(thread) });
        Ok(index)
    }

    /// Whether files are handed on open.
    pub(crate) fn keeps_files_open(&self) -> bool {
        self.keeps_files_open
    }

    /// How fast they may write.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// What looks how much has been handed over for each destination so far.
    pub fn written(&self) -> impl Fn() -> Vec<Written> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.traffic.iter().map(Traffic::written).collect()
    }

    /// What hands files over to them. To be made before any is dropped.
    pub(crate) fn feeder(&self) -> Feeder {
        let inboxes = self.members.iter().filter_map(|member| member.inbox.clone());
        Feeder::new(inboxes, Arc::clone(&self.routes), Arc::clone(&self.shared))
    }

    /// Has them fail, whatever they are waiting for. Whoever hands files over to them is told so.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.fail(CreateError::Stopped { reason: "it was told to".to_owned() })
    }

    /// Waits until every file is complete. All feeders must have finished.
    pub fn finish(mut self) -> Result<Vec<CreatorTimes>, CreateError> {
        let times = self.stop();
        match self.shared.take_error() {
            Some(error) => Err(error),
            None => times.ok_or_else(died),
        }
    }

    /// Ends the creators; `None` if one of them panicked.
    fn stop(&mut self) -> Option<Vec<CreatorTimes>> {
        for member in &mut self.members {
            if let Some(inbox) = member.inbox.take() {
                let Inbox { requests, waker, .. } = inbox;
                drop(requests);
                // Whatever it waits for: it shall see that there is no sender any more.
                waker.wake();
            }
        }
        let threads: Vec<_> =
            self.members.iter_mut().filter_map(|member| member.thread.take()).collect();
        threads.into_iter().map(|thread| thread.join().ok()).collect()
    }
}

impl Drop for CreatorPool {
    fn drop(&mut self) {
        if self.members.iter().any(|member| member.thread.is_some()) {
            self.shared.failed.store(true, Ordering::Release);
            self.shared.abandoned.store(true, Ordering::Release);
            let _ = self.stop();
        }
    }
}

/// Files that may be open at once, by RLIMIT_NOFILE.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(1 << 20).saturating_sub(RESERVED_DESCRIPTORS);
    usize::try_from(limit).unwrap_or(usize::MAX).clamp(2, 1 << 16)
}
