//! Creation of files: the creators of each device, the assemblers that feed them, and early
//! write-back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_commit::{
    ArchiveId, CHECKPOINT_BYTES, Checkpoints, Due, Journal, Origin, REMOTE_CHECKPOINT_BYTES,
    Target, Writeback,
};
use unsnap_create::{
    Assembler, CreateError, CreatorPool, Destination as CreatorDestination, PoolConfig,
};
use unsnap_decode::FrameStarts;
use unsnap_pass::{IoEngine, Memory, Progress, ReadMark};
use unsnap_ring::EngineKind;
use unsnap_state::{AccountsPathReport, AccountsSpread, Linker, Unlinked};

use crate::{Options, UnpackError, times::Times};

/// The creators and their assemblers.
pub(crate) struct Creation {
    pub creators: CreatorPool,
    /// One assembler per archive.
    pub assemblers: Vec<Assembler>,
    /// Distribution of a state's storages.
    pub spread: Option<Arc<AccountsSpread>>,
    /// Links a state's storages into the shadow.
    pub linker: Option<Linker>,
}

/// Results of the creators.
#[derive(Default)]
pub(crate) struct Created {
    pub directories: u64,
    pub direct: bool,
    /// Whether every storage of a state has a second name.
    pub linked: bool,
    /// The share of each accounts path of a state.
    pub spread: Vec<AccountsPathReport>,
    pub fallbacks: Vec<String>,
}

/// Returns the engine for files that go through the page cache: plain threads, unless the operator
/// chose. Every step of such a file blocks, so a ring only hands it to a kernel thread, which took
/// 1.1 to 1.2 times as long (BENCHMARKS.md, 200,000 files of 8 KiB).
fn engine_for_cached(wanted: &IoEngine) -> EngineKind {
    match wanted {
        IoEngine::Auto | IoEngine::Threads => EngineKind::Threads,
        IoEngine::Uring => EngineKind::Uring,
        IoEngine::Faulty(plan) => EngineKind::Faulty(plan.clone()),
    }
}

impl Creation {
    /// Starts the creators, with an assembler for each archive.
    pub fn start(
        target: &mut Target,
        options: &Options,
        memory: &Memory,
        engine: &EngineKind,
        progress: &Progress,
    ) -> Result<Self, UnpackError> {
        let (pass, state) = (&options.pass, options.state());
        let linked = state.map(|state| state.linker(target, options.files.clone())).transpose()?;
        let (linker, sink) = linked.flatten().unzip();
        let destinations = std::mem::take(&mut target.destinations);
        let pool = PoolConfig {
            engine: engine.clone(),
            cached_engine: engine_for_cached(&pass.io.engine),
            streams: memory.streams.len(),
            register: memory.to_register(),
            depth: pass.tuning.depth,
            workers: pass.tuning.workers,
            sink: sink.or_else(|| options.files.clone()),
            pace: pass.neighbour.pace.clone().unwrap_or_default(),
            priority: pass.neighbour.io_priority,
        };
        let creators = CreatorPool::start(&destinations, &pool, progress.created())?;
        let assembler =
            |destinations| Assembler::new(destinations, &creators, pass.tuning.direct_bytes_min);
        let others = memory.streams[1..].iter().map(|_| {
            let again = destinations.iter().map(CreatorDestination::again);
            again.collect()
        });
        let others: Vec<Vec<CreatorDestination>> = others.collect();
        let assemblers = std::iter::once(destinations).chain(others).map(assembler).collect();
        let spread =
            state.map(|state| state.spread(target, options.min_free)).transpose()?.map(Arc::new);
        Ok(Self { creators, assemblers, spread, linker })
    }

    /// Returns a function that stops the creators and the linker.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        let creators = self.creators.stopper();
        let linker = self.linker.as_ref().map(Linker::stopper);
        move || {
            creators();
            if let Some(stop) = &linker {
                stop();
            }
        }
    }

    /// Waits for the creators and checks that they have created the expected number of files.
    pub fn finish(
        mut self,
        expected: u64,
        progress: &Progress,
        times: &mut Times,
    ) -> Result<Created, UnpackError> {
        // `self` is not destructured: if this fails, the creators must end before the linker, to
        // which they report.
        let mut destinations = Vec::new();
        let mut waited = Duration::ZERO;
        let assemblers = std::mem::take(&mut self.assemblers);
        for (index, assembler) in assemblers.into_iter().enumerate() {
            let (places, waiting) = assembler.finish()?;
            destinations.extend(places);
            if index == 0 {
                waited = waiting;
            }
        }
        let since = Instant::now();
        times.create = self.creators.finish()?;
        let had_linker = self.linker.is_some();
        let unlinked = self.linker.map_or(Ok(None), Linker::finish)?;
        times.walk_waited_for_output = waited + since.elapsed();
        let found = progress.snapshot().files;
        if found != expected {
            // Cannot happen, but success must cover every file.
            let reason = format!("{found} of {expected} files were created (a bug)");
            return Err(CreateError::Stopped { reason }.into());
        }
        let fallbacks = destinations.iter().filter_map(|place| place.fallback().map(str::to_owned));
        let mut fallbacks: Vec<String> = fallbacks.collect();
        fallbacks.extend(unlinked.as_ref().map(|Unlinked { path, errno }| {
            format!("no shadow, so a damaged state cannot be repaired: cannot link {path}: {errno}")
        }));
        Ok(Created {
            linked: had_linker && unlinked.is_none(),
            spread: self.spread.map(|spread| spread.report()).unwrap_or_default(),
            directories: destinations.iter().map(CreatorDestination::directories_made).sum(),
            direct: destinations.iter().all(|place| place.direct().is_some()),
            fallbacks,
        })
    }
}

/// Starts early write-back. Also returns the checkpoints that the walk takes, if there is a
/// `journal` that records its progress.
pub(crate) fn write_back(
    target: &mut Target,
    journal: Option<Journal>,
    origin: Option<Origin>,
    options: &Options,
    progress: &Progress,
    frame_starts: Arc<FrameStarts>,
    read: ReadMark,
) -> (Writeback, Option<Checkpoints>) {
    let targets = std::mem::take(&mut target.sync);
    let pass = &options.pass;
    let due = Due::new(pass.tuning.writeback_bytes, pass.neighbour.pace.clone());
    let started = Writeback::start(target.calls.clone(), targets, progress.created(), due, journal);
    let checkpoints = origin.zip(started.outbox()).map(|(origin, outbox)| {
        let default = match origin.archive {
            ArchiveId::File(_) => CHECKPOINT_BYTES,
            ArchiveId::Remote(_) => REMOTE_CHECKPOINT_BYTES,
        };
        let every = pass.tuning.checkpoint_bytes.unwrap_or(default);
        let checkpoints = Checkpoints::new(every, origin, frame_starts, read, outbox);
        if options.resumes() { checkpoints.by_time(Instant::now()) } else { checkpoints }
    });
    (started, checkpoints)
}
