//! The stages of the pipeline, made from the configuration.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use crossbeam::channel::Sender;
use unsnap_create::{Assembler, CreateError, CreatorPool, Destination, PoolConfig};
use unsnap_decode::{DecodeSummary, Decoded, FrameStarts, Position};
use unsnap_layout::{AnyLayout, ArchiveName, Layout, SnapshotLayout};
use unsnap_ring::{EngineKind, probe_uring};
use unsnap_source::{DigestKind, Digesting, Hasher, SequentialFileReader, Source, StreamReader};

use crate::{
    Archive, Config, Error, IoEngine, LayoutKind, Progress,
    account::Created,
    checkpoints::{CHECKPOINT_BYTES, Checkpoints, ReadMark},
    journal::{Checkpoint, Journal},
    opening::{Target, digest_kind},
    resources::{Input, Memory},
    times::Times,
    writeback::Writeback,
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

    /// Starts reading and decoding. `begin`: where in the archive.
    pub fn decode(&self, input: Input, threads: usize, begin: Position) -> Result<Decoded, Error> {
        let hasher = self.hasher(&input, begin)?;
        let mut source = self.source(input, begin)?;
        let total = source.len().unwrap_or(0);
        self.progress.shared.bytes_total.store(total, Ordering::Relaxed);
        if let Some(hasher) = hasher {
            let read = self.read.clone();
            let mark = move |bytes, digest| read.set(bytes, digest);
            source = Box::new(Digesting::new(source, hasher, mark));
        }
        unsnap_decode::start(unsnap_decode::Job {
            source,
            segments: self.memory.segments.clone(),
            plan: self.memory.plan.clone(),
            limits: self.config.limits.decode.clone(),
            threads,
            progress: Arc::clone(&self.progress.shared.bytes_read),
            begin,
            frame_starts: Arc::clone(&self.frame_starts),
        })
        .map_err(|error| Error::from_decode(&self.config.archive.display_name(), error))
    }

    /// What digests the archive from `begin` on: nothing, if what is before that has not been
    /// digested and need not be.
    fn hasher(&self, input: &Input, begin: Position) -> Result<Option<Hasher>, Error> {
        let Some(mut hasher) = digest_kind(self.config).map(DigestKind::hasher) else {
            return Ok(None);
        };
        match input {
            Input::File { file, .. } if begin.compressed_offset > 0 => {
                if self.config.expect_digest.is_none() {
                    return Ok(None);
                }
                file.digest_prefix(&mut hasher, begin.compressed_offset).map_err(Error::Source)?;
            }
            _ => {}
        }
        Ok(Some(hasher))
    }

    fn source(&self, input: Input, begin: Position) -> Result<Box<dyn Source>, Error> {
        let pool = self.memory.read.clone();
        let tuning = &self.config.tuning;
        let (file, _) = match input {
            Input::Stream { file, head } => {
                let name = self.config.archive.display_name();
                return Ok(Box::new(StreamReader::new(file, name.as_str(), pool).with_head(head)));
            }
            Input::File { file, head } => (file, head),
        };
        let mut reader = SequentialFileReader::builder(pool)
            .engine(self.engine.clone())
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

    /// Starts the creators.
    pub fn create(&self, target: &mut Target) -> Result<Assembler, Error> {
        let (tuning, created) = (&self.config.tuning, &self.progress.shared.created);
        let destinations = std::mem::take(&mut target.destinations);
        let pool = PoolConfig {
            engine: self.engine.clone(),
            cached_engine: engine_for_cached(&self.config.io_engine),
            register: self.memory.to_register(),
            depth: tuning.depth,
            workers: tuning.workers,
        };
        let creators = CreatorPool::start(&destinations, &pool, Arc::clone(created))?;
        Ok(Assembler::new(destinations, creators, tuning.direct_bytes_min))
    }

    /// Starts early write-back.
    pub fn write_back(&self, target: &mut Target, journal: Option<Journal>) -> Writeback {
        let created = Arc::clone(&self.progress.shared.created);
        let targets = std::mem::take(&mut target.sync);
        let (calls, bytes_min) = (target.calls.clone(), self.config.tuning.writeback_bytes);
        Writeback::start(calls, targets, created, bytes_min, journal)
    }

    /// What gathers checkpoints, to be sent to `outbox`.
    pub fn checkpoints(&self, outbox: Sender<Checkpoint>) -> Checkpoints {
        let every = self.config.checkpoint_bytes.unwrap_or(CHECKPOINT_BYTES);
        Checkpoints::new(every, Arc::clone(&self.frame_starts), self.read.clone(), outbox)
    }
}

/// The archive must be the one that was expected.
pub(crate) fn check_digest(config: &Config, decoded: &DecodeSummary) -> Result<(), Error> {
    match (config.expect_digest, decoded.source.digest) {
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

/// Waits for the creators, and checks that they have made as many files as there must be.
pub(crate) fn finish_creating(
    files: Assembler,
    expected: u64,
    progress: &Progress,
    times: &mut Times,
) -> Result<Created, Error> {
    let (destinations, creators) = files.finish();
    let (waited, since) = (creators.waited(), Instant::now());
    times.create = creators.finish()?;
    times.walk_waited_for_output = waited + since.elapsed();
    let found = progress.snapshot().files;
    if found != expected {
        // Cannot happen; but a success must speak for every file.
        let reason = format!("{found} of {expected} files were created (a bug)");
        return Err(CreateError::Stopped { reason }.into());
    }
    Ok(Created {
        directories: destinations.iter().map(Destination::directories_made).sum(),
        direct: destinations.iter().all(|place| place.direct().is_some()),
        fallbacks: destinations
            .iter()
            .filter_map(|place| place.fallback().map(str::to_owned))
            .collect(),
    })
}

pub(crate) fn layout(config: &Config) -> Layout {
    let limits = config.limits.layout;
    match config.layout {
        LayoutKind::Snapshot => {
            Layout::Snapshot(SnapshotLayout::new(limits, archive_name(&config.archive)))
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
