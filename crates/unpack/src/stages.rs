//! The stages of the pipeline, made from the configuration.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use crossbeam::channel::Sender;
use unsnap_create::{Assembler, CreateError, CreatorPool, Destination, PoolConfig};
use unsnap_decode::{DecodeSummary, Decoded, FrameStarts, Position};
use unsnap_layout::{AnyLayout, ArchiveName, Layout, SnapshotLayout};
use unsnap_ring::{EngineKind, probe_uring};
use unsnap_source::{
    DigestKind, Digesting, Hasher, Pausing, SequentialFileReader, Source, StreamReader,
};

use crate::{
    Archive, Config, Error, IoEngine, LayoutKind, Progress,
    account::Created,
    checkpoints::{CHECKPOINT_BYTES, Checkpoints, Origin, ReadMark},
    journal::Checkpoint,
    opening::{Target, digest_kind},
    places::AccountsSpread,
    resources::{Input, Memory, StreamMemory},
    shadow::{Linker, Unlinked},
    times::Times,
    walks::Walks,
    writeback::{Due, Writeback},
};

/// The engine for reading and creating; and in words what was wanted instead, if that was refused.
pub(crate) fn choose_engine(wanted: &IoEngine) -> Result<(EngineKind, Option<String>), Error> {
    Ok(match (wanted, probe_uring()) {
        (IoEngine::Threads, _) => (EngineKind::Threads, None),
        (IoEngine::Faulty(plan), _) => (EngineKind::Faulty(plan.clone()), None),
        (IoEngine::Auto | IoEngine::Uring, Ok(())) => (EngineKind::Uring, None),
        (IoEngine::Uring, Err(refused)) => return Err(refused.into()),
        (IoEngine::Auto, Err(refused)) => {
            (EngineKind::Threads, Some(format!("plain threads: {refused}")))
        }
    })
}

/// Files that go through the page cache are created by plain threads, unless an engine was asked
/// for: every step of theirs blocks, so a ring only hands each of them to a kernel thread, which
/// took 1.1 to 1.2 times as long (BENCHMARKS.md, 200,000 files of 8 KiB).
fn engine_for_cached(wanted: &IoEngine) -> EngineKind {
    match wanted {
        IoEngine::Auto | IoEngine::Threads => EngineKind::Threads,
        IoEngine::Uring => EngineKind::Uring,
        IoEngine::Faulty(plan) => EngineKind::Faulty(plan.clone()),
    }
}

/// What the stages of a run are made with.
pub(crate) struct Stages<'a> {
    config: &'a Config,
    memory: &'a Memory,
    engine: &'a EngineKind,
    progress: &'a Progress,
    /// Noted of the archive as it passes by, for checkpoints.
    frame_starts: Arc<FrameStarts>,
    read: ReadMark,
}

impl<'a> Stages<'a> {
    pub fn new(
        config: &'a Config,
        memory: &'a Memory,
        engine: &'a EngineKind,
        progress: &'a Progress,
    ) -> Self {
        let (frame_starts, read) = (Arc::default(), ReadMark::default());
        Self { config, memory, engine, progress, frame_starts, read }
    }

    /// The same, with every start of a frame noted.
    pub fn noting(mut self, frame_starts: Arc<FrameStarts>) -> Self {
        self.frame_starts = frame_starts;
        self
    }

    /// The same with other memory, for another pass over the archives.
    pub fn with_memory<'b>(&self, memory: &'b Memory) -> Stages<'b>
    where
        'a: 'b,
    {
        Stages::new(self.config, memory, self.engine, self.progress)
    }

    /// Threads that decode the first archive.
    pub fn threads(&self) -> usize {
        self.memory.streams.first().map_or(1, |stream| stream.threads)
    }

    /// Starts reading and decoding. `begin`: where in the first archive.
    pub fn decode(&self, inputs: Vec<Input>, begin: Position) -> Result<Vec<Decoded>, Error> {
        let begins = std::iter::once(begin).chain(std::iter::repeat(Position::default()));
        let inputs = inputs.into_iter().zip(begins).enumerate();
        inputs.map(|(index, (input, begin))| self.decode_one(index, input, begin)).collect()
    }

    /// `index`: which of the archives.
    fn decode_one(&self, index: usize, input: Input, begin: Position) -> Result<Decoded, Error> {
        let (archive, memory) = (self.config.archives()[index], &self.memory.streams[index]);
        let hasher = self.hasher(&input, begin)?;
        let source = self.source(archive, memory, input, begin)?;
        let mut source = self.paused_by_pace(source, memory);
        let total = source.len().unwrap_or(0);
        self.progress.shared.bytes_total.fetch_add(total, Ordering::Relaxed);
        // Checkpoints are taken of one archive only.
        let noted = if index == 0 { Some((&self.frame_starts, &self.read)) } else { None };
        let (frame_starts, read) =
            noted.map(|(starts, read)| (Arc::clone(starts), read.clone())).unwrap_or_default();
        if let Some(hasher) = hasher {
            let mark = move |bytes, digest| read.set(bytes, digest);
            source = Box::new(Digesting::new(source, hasher, mark));
        }
        unsnap_decode::start(unsnap_decode::Job {
            source,
            segments: memory.segments.clone(),
            plan: memory.plan.clone(),
            limits: self.config.limits.decode.clone(),
            threads: memory.threads,
            progress: Arc::clone(&self.progress.shared.bytes_read[index]),
            begin,
            frame_starts,
        })
        .map_err(|error| Error::from_decode(&archive.display_name(), error))
    }

    /// What digests the archive from `begin` on, or all of it where a digest is expected.
    fn hasher(&self, input: &Input, begin: Position) -> Result<Option<Hasher>, Error> {
        let Some(mut hasher) = digest_kind(self.config).map(DigestKind::hasher) else {
            return Ok(None);
        };
        match input {
            Input::File { file, .. } if self.config.expect_digest.is_some() => {
                let read = file.digest_range(&mut hasher, 0, begin.compressed_offset);
                read.map_err(Error::Source)?;
            }
            _ => {}
        }
        Ok(Some(hasher))
    }

    fn source(
        &self,
        archive: &Archive,
        memory: &StreamMemory,
        input: Input,
        begin: Position,
    ) -> Result<Box<dyn Source>, Error> {
        let pool = memory.read.clone();
        let tuning = &self.config.tuning;
        let (file, _) = match input {
            Input::Stream { file, head } => {
                let name = archive.display_name();
                return Ok(Box::new(StreamReader::new(file, name.as_str(), pool).with_head(head)));
            }
            Input::File { file, head } => (file, head),
        };
        let mut reader = SequentialFileReader::builder(pool)
            .engine(self.engine.clone())
            .priority(self.config.io_priority)
            .start(begin.compressed_offset);
        if let Some(ranges) = self.memory.to_register() {
            reader = reader.register(ranges);
        }
        if let Some(chunk_bytes) = tuning.decode.chunk_bytes {
            reader = reader.chunk_bytes(chunk_bytes);
        }
        if let Some(depth) = tuning.depth {
            reader = reader.depth(depth);
        }
        Ok(Box::new(reader.build(file).map_err(Error::Source)?))
    }

    /// Has a source stand still while the run is paused.
    fn paused_by_pace(&self, source: Box<dyn Source>, memory: &StreamMemory) -> Box<dyn Source> {
        match &self.config.pace {
            Some(pace) => Box::new(Pausing::new(source, pace.clone(), memory.read.clone())),
            None => source,
        }
    }

    /// Starts the creators. Each archive gets an assembler of its own.
    pub fn create(&self, target: &mut Target) -> Result<Creation, Error> {
        let (tuning, created) = (&self.config.tuning, &self.progress.shared.created);
        let (linker, sink) = target.linker(self.config)?.unzip();
        let destinations = std::mem::take(&mut target.destinations);
        let pool = PoolConfig {
            engine: self.engine.clone(),
            cached_engine: engine_for_cached(&self.config.io_engine),
            register: self.memory.to_register(),
            depth: tuning.depth,
            workers: tuning.workers,
            sink: sink.or_else(|| self.config.files.clone()),
            pace: self.config.pace.clone().unwrap_or_default(),
            priority: self.config.io_priority,
        };
        let creators = CreatorPool::start(&destinations, &pool, Arc::clone(created))?;
        let assembler =
            |destinations| Assembler::new(destinations, &creators, tuning.direct_bytes_min);
        let others = self.memory.streams[1..].iter().map(|_| {
            let again = destinations.iter().map(Destination::again);
            again.collect()
        });
        let others: Vec<Vec<Destination>> = others.collect();
        let assemblers = std::iter::once(destinations).chain(others).map(assembler).collect();
        let spread = self.config.state.as_ref().map(|_| target.spread(self.config)).transpose()?;
        Ok(Creation { creators, assemblers, spread: spread.map(Arc::new), linker })
    }

    /// Starts early write-back, and recording how far the walks are.
    pub fn write_back(&self, target: &mut Target, walks: &mut Walks<'_>) -> Writeback {
        let (journal, origin) = walks.take_journal();
        let created = Arc::clone(&self.progress.shared.created);
        let targets = std::mem::take(&mut target.sync);
        let calls = target.calls.clone();
        let due = Due::new(self.config.tuning.writeback_bytes, self.config.pace.clone());
        let started = Writeback::start(calls, targets, created, due, journal);
        let recording = origin.zip(started.outbox());
        walks.checkpoints = recording.map(|(origin, outbox)| self.checkpoints(origin, outbox));
        started
    }

    /// What gathers checkpoints, to be sent to `outbox`.
    fn checkpoints(&self, origin: Origin, outbox: Sender<Checkpoint>) -> Checkpoints {
        let every = self.config.checkpoint_bytes.unwrap_or(CHECKPOINT_BYTES);
        let starts = Arc::clone(&self.frame_starts);
        Checkpoints::new(every, origin, starts, self.read.clone(), outbox)
    }
}

/// The archive must be the one that was expected.
pub(crate) fn check_digest(config: &Config, decoded: &[DecodeSummary]) -> Result<(), Error> {
    match (config.expect_digest, decoded.first().and_then(|decoded| decoded.source.digest)) {
        (Some(expected), Some(found)) if found != expected => {
            let (found, expected) = (Box::new(found), Box::new(expected));
            Err(Error::Digest { archive: config.archive.display_name(), found, expected })
        }
        (Some(expected), None) => Err(Error::Request {
            reason: format!("the archive was not digested, {expected} was expected (a bug)"),
            hint: None,
        }),
        _ => Ok(()),
    }
}

/// The creators, and what feeds them.
pub(crate) struct Creation {
    pub creators: CreatorPool,
    /// For each archive.
    pub assemblers: Vec<Assembler>,
    /// How storages are spread, if they go to where a validator looks for them.
    pub spread: Option<Arc<AccountsSpread>>,
    /// What gives them second names.
    pub linker: Option<Linker>,
}

impl Creation {
    /// Has everybody stop who hands files on.
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
}

/// Waits for the creators, and checks that they have made as many files as there must be.
pub(crate) fn finish_creating(
    creation: Creation,
    expected: u64,
    progress: &Progress,
    times: &mut Times,
) -> Result<Created, Error> {
    // Not taken apart: if this fails, the creators end before what they tell.
    let mut creation = creation;
    let mut destinations = Vec::new();
    let mut waited = Duration::ZERO;
    let assemblers = std::mem::take(&mut creation.assemblers);
    for (index, assembler) in assemblers.into_iter().enumerate() {
        let (places, waiting) = assembler.finish()?;
        destinations.extend(places);
        if index == 0 {
            waited = waiting;
        }
    }
    let since = Instant::now();
    times.create = creation.creators.finish()?;
    let had_linker = creation.linker.is_some();
    let unlinked = creation.linker.map_or(Ok(None), Linker::finish)?;
    times.walk_waited_for_output = waited + since.elapsed();
    let found = progress.snapshot().files;
    if found != expected {
        // Cannot happen; but a success must speak for every file.
        let reason = format!("{found} of {expected} files were created (a bug)");
        return Err(CreateError::Stopped { reason }.into());
    }
    let mut fallbacks: Vec<String> =
        destinations.iter().filter_map(|place| place.fallback().map(str::to_owned)).collect();
    fallbacks.extend(unlinked.as_ref().map(|Unlinked { path, errno }| {
        format!("no shadow, so a damaged state cannot be repaired: cannot link {path}: {errno}")
    }));
    Ok(Created {
        linked: had_linker && unlinked.is_none(),
        spread: creation.spread.map(|spread| spread.report()).unwrap_or_default(),
        directories: destinations.iter().map(Destination::directories_made).sum(),
        direct: destinations.iter().all(|place| place.direct().is_some()),
        fallbacks,
    })
}

/// The rules for one of the archives.
pub(crate) fn layout(config: &Config, archive: &Archive) -> Layout {
    let limits = config.limits.layout;
    match config.layout {
        LayoutKind::Snapshot => {
            Layout::Snapshot(SnapshotLayout::new(limits, archive_name(archive)))
        }
        LayoutKind::Any => Layout::Any(AnyLayout::new(limits)),
    }
}

/// What the archive's file name says, if it is a snapshot's.
pub(crate) fn archive_name(archive: &Archive) -> Option<ArchiveName> {
    let Archive::File(path) = archive else { return None };
    match ArchiveName::parse(path.file_name()?.to_str()?) {
        Ok(name) => Some(name),
        Err(error) => {
            tracing::debug!(%error, "the archive has no snapshot's name");
            None
        }
    }
}
