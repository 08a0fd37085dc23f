//! The pool of creators: for each destination device one for large files and one for small files.

use std::{
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crossbeam::channel::bounded;
use unsnap_arena::ArenaRanges;
use unsnap_ring::{Bucket, EngineConfig, EngineKind, IoPriority, Pace, Subscription};

use crate::{
    CreateError, CreateProgress, Destination, FileSink, LostFile, Written,
    creator::{Creator, Parts},
    feeder::{Feeder, Inbox, Route},
    limiter::Bounds,
    shared::{Shared, Traffic, died},
    times::{CreatorTimes, FileKind},
};

/// Most batches that may wait for a creator. The segments bound their bytes; this bounds their
/// number, so that 65,536 files of at least 1 KiB can wait for one device while another works: a
/// full queue stops the walk, and with it all creators.
const BATCHES_MAX: usize = 1024;

/// Descriptors reserved for everything except created files: standard streams, the archive, rings,
/// directories, and files of the embedding program.
const RESERVED_DESCRIPTORS: u64 = 64;

/// Most operations in flight for a creator. With one entry more for wake-ups, a ring has 64 entries,
/// which is what is probed before the run.
const IN_FLIGHT_MAX: usize = 63;

/// Concurrency of a creator's engine.
#[derive(Clone, Copy)]
struct Concurrency {
    /// Number of threads that may block in the kernel, worker threads or io-wq workers. The creator
    /// starts with `start` and adapts it to the device.
    workers: Bounds,
    /// Maximum number of operations in flight for each.
    in_flight_per_worker: usize,
}

impl Concurrency {
    /// Returns a concurrency that does not adapt, if anything of it is given.
    fn fixed(self, workers: Option<usize>, in_flight: Option<usize>) -> Self {
        if workers.is_none() && in_flight.is_none() {
            return self;
        }
        let workers = workers.unwrap_or(self.workers.start).max(1);
        let in_flight = in_flight.unwrap_or(self.in_flight_per_worker * self.workers.start);
        Self {
            workers: Bounds { min: workers, start: workers, max: workers },
            in_flight_per_worker: in_flight.div_ceil(workers).max(1),
        }
    }
}

/// Concurrency for large files. A direct write that extends its file occupies a worker until the
/// device has finished: 8 workers took 0.9 of the time of 4, and 16 no less. With more than two
/// operations per worker, kernel workers only contend for the directory: 16 operations in flight
/// took 0.87 of the time of 128 and half of the CPU time (6 GB in 8,278 files, ext4 on 2 cores,
/// BENCHMARKS.md). A device of 14 GB/s needs 12 to 24 workers, a stripe or a cloud disk more.
const LARGE: Concurrency =
    Concurrency { workers: Bounds { min: 4, start: 8, max: 31 }, in_flight_per_worker: 2 };

/// Concurrency for small files. Creating them is CPU work under the directory's lock:
/// 2, 3 and 4 workers are equally fast (200,000 files of 8 KiB), and more workers waste CPU time by
/// spinning while large files are created at the same time.
const SMALL: Concurrency =
    Concurrency { workers: Bounds { min: 2, start: 2, max: 8 }, in_flight_per_worker: 16 };

/// Configuration of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Engine for large files. If the mode of each file must be set, plain threads take the place of
    /// io_uring, which has no such operation: the only submitter of the device would have to wait.
    pub engine: EngineKind,
    /// Engine for small files.
    pub cached_engine: EngineKind,
    /// Number of streams, each with an assembler of its own.
    pub streams: usize,
    /// Memory to register with the rings.
    pub register: Option<ArenaRanges>,
    /// Maximum number of operations in flight per creator; `None` to adapt it to the device.
    pub depth: Option<usize>,
    /// Number of threads that may block in the kernel per creator; `None` to adapt it to the device.
    pub workers: Option<usize>,
    /// Receiver of complete files.
    pub sink: Option<FileSink>,
    /// Rate limit per device, and pause.
    pub pace: Pace,
    /// I/O priority of writes.
    pub priority: Option<IoPriority>,
}

/// The creators of all destinations: for each device one for large files and one for small files.
///
/// Dropping the pool aborts the run: it waits for operations in flight and drops queued ones.
pub struct CreatorPool {
    members: Vec<Member>,
    /// Destination index → its creators.
    routes: Arc<[Route]>,
    shared: Arc<Shared>,
    /// Ring that later rings are attached to.
    attach: Option<RawFd>,
    keeps_files_open: bool,
    pace: Pace,
}

struct Member {
    inbox: Option<Inbox>,
    /// Wakes the creator when the pace changes.
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
        let shared = Arc::new(Shared::new(roots, config.streams, progress));
        let mut pool = Self {
            members: Vec::new(),
            routes: Arc::new([]),
            shared,
            attach: None,
            keeps_files_open: config.sink.as_ref().is_some_and(FileSink::wants_open_files),
            pace: config.pace.clone(),
        };
        let mut routes = Vec::new();
        for device in &devices {
            let mut on_it = destinations.iter().filter(|place| place.device() == *device);
            let large = match config.engine {
                EngineKind::Uring if on_it.any(|place| place.file_mode().1) => &EngineKind::Threads,
                _ => &config.engine,
            };
            let bucket = Arc::new(Bucket::new(config.pace.clone()));
            let mut start = |engine, files| {
                pool.start_creator(config, *device, engine, files, open_files_max, &bucket)
            };
            let large = start(large, FileKind::Large)?;
            let small = start(&config.cached_engine, FileKind::Small)?;
            routes.push(Route { large, small });
        }
        pool.routes = destinations
            .iter()
            .map(|place| routes[devices.binary_search(&place.device()).unwrap_or(0)])
            .collect();
        Ok(pool)
    }

    /// Starts one creator and returns its index.
    fn start_creator(
        &mut self,
        config: &PoolConfig,
        device: u64,
        engine: &EngineKind,
        files: FileKind,
        open_files_max: usize,
        bucket: &Arc<Bucket>,
    ) -> Result<usize, CreateError> {
        let concurrency = match files {
            FileKind::Large => LARGE,
            FileKind::Small => SMALL,
        };
        let concurrency = concurrency.fixed(config.workers, config.depth);
        let Concurrency { workers, in_flight_per_worker } = concurrency;
        let depth = config.depth.unwrap_or(IN_FLIGHT_MAX.min(workers.max * in_flight_per_worker));
        // An operation in flight may hold an open descriptor, and so may a file of several writes.
        let capacity = depth.clamp(1, open_files_max / 2);
        let engine = EngineConfig {
            kind: engine.clone(),
            capacity,
            workers: workers.start,
            register: config.register.clone(),
            attach: self.attach,
            priority: config.priority,
            device,
        };
        let engine = engine.open()?;
        self.attach = self.attach.or(engine.ring_fd());
        let waker = engine.waker();
        let sleeping = Arc::new(AtomicBool::new(false));
        let (requests, commands) = bounded(BATCHES_MAX);
        let creator = Creator::new(Parts {
            engine,
            inbox: commands,
            sleeping: Arc::clone(&sleeping),
            shared: Arc::clone(&self.shared),
            sink: config.sink.clone(),
            bucket: Arc::clone(bucket),
            // Each stream may have one unfinished file, and needs one more to continue.
            open_files_max: open_files_max.saturating_sub(capacity).max(2),
            workers,
            in_flight_per_worker,
            device,
            files,
        });
        self.shared.will_wake(waker.clone());
        let subscription = config.pace.wake_on_change(waker.clone());
        let index = self.members.len();
        let thread = thread::Builder::new()
            .name(format!("unsnap-create-{index}"))
            .spawn(move || creator.run())
            .map_err(|error| CreateError::Stopped {
                reason: format!("cannot start a thread: {error}"),
            })?;
        let inbox = Some(Inbox { requests, waker, sleeping });
        self.members.push(Member { inbox, _subscription: subscription, thread: Some(thread) });
        Ok(index)
    }

    /// Returns whether the sink receives open files.
    pub(crate) fn keeps_files_open(&self) -> bool {
        self.keeps_files_open
    }

    /// Returns the pace of the creators.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Returns a function that reports the amount of data sent so far for each destination.
    pub fn written(&self) -> impl Fn() -> Vec<Written> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.traffic.iter().map(Traffic::written).collect()
    }

    /// Returns a feeder for a new stream. Must be called before the creators are stopped, since
    /// routes are indices into their inboxes.
    pub(crate) fn feeder(&self) -> Feeder {
        let inboxes = self.members.iter().filter_map(|member| member.inbox.clone());
        Feeder::new(inboxes, Arc::clone(&self.routes), Arc::clone(&self.shared))
    }

    /// Returns a function that makes the creators fail, whatever they are waiting for. Feeders then
    /// return an error.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.fail(CreateError::Stopped { reason: "the run was cancelled".to_owned() })
    }

    /// Returns a function that returns the files that are lost after a failure, or `None` if they
    /// are unknown. Call it once the pool and its assemblers have been finished or dropped: then all
    /// other files are complete.
    pub fn lost(&self) -> impl FnOnce() -> Option<Vec<LostFile>> + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.lost.take()
    }

    /// Waits until every file is complete. All feeders must have finished.
    pub fn finish(mut self) -> Result<Vec<CreatorTimes>, CreateError> {
        let times = self.stop();
        match self.shared.take_error() {
            Some(error) => Err(error),
            None => times.ok_or_else(died),
        }
    }

    /// Stops the creators and returns their times; `None` if one of them panicked.
    fn stop(&mut self) -> Option<Vec<CreatorTimes>> {
        for member in &mut self.members {
            if let Some(inbox) = member.inbox.take() {
                let Inbox { requests, waker, .. } = inbox;
                drop(requests);
                // Whatever the creator waits for, it must notice that its sender is gone.
                waker.wake();
            }
        }
        let threads: Vec<_> =
            self.members.iter_mut().filter_map(|member| member.thread.take()).collect();
        // All end before anything is made of their results.
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().ok()).collect();
        if ended.iter().any(Option::is_none) {
            self.shared.lost.creator_died();
        }
        ended.into_iter().collect()
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

/// Returns the number of files that may be open at once, according to RLIMIT_NOFILE.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(1 << 20).saturating_sub(RESERVED_DESCRIPTORS);
    usize::try_from(limit).unwrap_or(usize::MAX).clamp(2, 1 << 16)
}
