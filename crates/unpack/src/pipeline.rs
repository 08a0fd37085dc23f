//! The pipeline, from archive to published files, in the order of the data's flow.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use unsnap_create::{Assembler, CreateError, CreatorPool, Destination, PoolConfig};
use unsnap_decode::Decoded;
use unsnap_layout::{AnyLayout, ArchiveName, Layout, SnapshotLayout};
use unsnap_ring::{DirectMode, EngineKind, probe_uring};
use unsnap_source::{SequentialFileReader, Source, StreamReader};
use unsnap_tarstream::Walker;

use crate::{
    Archive, CancelToken, Config, Error, IoEngine, LayoutKind, Phase, Progress, Report,
    account::{Account, Created},
    opening::{Opened, Target},
    resources::{Input, Memory},
    times::Times,
    walk::{Files, Walk, bad_tar},
    writeback::Writeback,
};

/// Unpacks one archive. Read top to bottom, this is the whole of unsnap.
///
/// Confines the calling thread on the way, for good; `confined` is called when that is done.
pub(crate) fn run(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    confined: impl FnOnce() -> io::Result<()>,
) -> Result<Report, Error> {
    let started = Instant::now();
    progress.enter(Phase::Preparing);
    let name = config.archive.display_name();

    // Open: the archive, and where its files will go.
    let opened = Opened::open(config, !config.dry_run)?;

    // Confine: from here on this thread, and all that it starts, reach what is open and can build
    // in the staging directories. Not a byte of the archive has been looked at.
    let sandbox = opened.confine(config.sandbox);
    confined().map_err(|error| no_thread(&error))?;
    // Dropped on any error, `target` takes everything back.
    let Opened { mut target, archive, threads, status } = opened;
    let (engine, fallback) = choose_engine(&config.io_engine)?;
    let mut fallbacks: Vec<String> = fallback.into_iter().collect();

    // Memory, all of it, divided by what the archive begins with.
    let since = Instant::now();
    let input = Input::begin(archive, &config.archive, cancel)?;
    let opened_in = since.elapsed();
    if config.direct_io == DirectMode::On && matches!(input, Input::Stream { .. }) {
        fallbacks.push("buffered reads: a stream cannot be read by direct I/O".to_owned());
    }
    let memory = Memory::reserve(config, &input, threads)?;
    let _rouse = cancel.rouse_by(memory.closer());

    // Source and decode: compressed spans become segments, on threads of their own.
    let mut decoded = start_decoding(config, input, &memory, &engine, threads, progress)?;

    // Create: the creators of each device, the assembler that feeds them, and early write-back.
    let (files, writeback) = match &mut target {
        Some(target) => {
            let files = start_creating(config, target, &memory, &engine, progress).map(Some);
            (files, Some(start_writeback(config, target, progress)))
        }
        None => (Ok(None), None),
    };

    // Walk: on this thread, members and payloads go from segments to creators.
    progress.enter(Phase::Unpacking);
    let mut times = Times { opened_in, prepared_at: started.elapsed(), ..Times::default() };
    let walked = files.and_then(|mut files| {
        let walk = Walk {
            archive: &name,
            decoded: &mut decoded,
            walker: Walker::new(config.limits.tar),
            layout: layout(config),
            progress,
            cancel,
            compromised: config.tuning.compromised.clone(),
        };
        let (summary, met) = walk.run(files.as_mut())?;
        let created = files.map(|files| finish_creating(files, &mut times)).transpose()?;
        let files_created = progress.snapshot().files;
        if created.is_some() && files_created != met.files {
            // Cannot happen; but a success must speak for every file.
            let reason = format!("{files_created} of {} files were created (a bug)", met.files);
            return Err(CreateError::Stopped { reason }.into());
        }
        Ok((summary, met, created))
    });

    // Whatever happened: nobody waits for memory any more, and the decoding threads end.
    memory.close();
    let decode_summary = decoded.summary().cloned().unwrap_or_default();
    times.walk_waited_for_input = decoded.waited();
    times.decode = decoded.join();
    times.source.clone_from(&decode_summary.source.workers);
    if walked.is_err() || cancel.is_cancelled() {
        progress.enter(Phase::CleaningUp);
    }
    if cancel.is_cancelled() {
        // Even if something failed: a Ctrl-C also ends who feeds our standard input, and that
        // looks like a cut archive.
        return Err(Error::Cancelled);
    }
    let (summary, met, created) = walked?;
    times.created_at = started.elapsed();

    // Commit: everything durable, then the final names, then those durable.
    if let Some(Target { staging, .. }) = &mut target {
        progress.enter(Phase::Syncing);
        if let Some(writeback) = writeback {
            times.writeback = writeback.finish()?;
        }
        staging.sync()?;
        if cancel.is_cancelled() {
            progress.enter(Phase::CleaningUp);
            return Err(Error::Cancelled);
        }
        progress.enter(Phase::Publishing);
        staging.publish()?;
        times.published_at = started.elapsed();
    }
    progress.enter(Phase::Done);

    let created = created.unwrap_or_default();
    fallbacks.extend(decode_summary.source.fallbacks.iter().cloned());
    fallbacks.extend(created.fallbacks.iter().cloned());
    if decode_summary.copied_frames > 0 {
        let frames = decode_summary.copied_frames;
        fallbacks.push(format!(
            "copying decoder: the window of {frames} frame(s) is larger than a segment"
        ));
    }
    times.total = started.elapsed();
    let account = Account {
        config,
        memory: &memory,
        name: archive_name(&config.archive),
        io_engine: engine.name(),
        threads,
        summary,
        met,
        decoded: decode_summary,
        created,
        times,
        fallbacks,
        sandbox,
        peak_rss_bytes: status.peak_rss_bytes(),
    };
    Ok(account.report())
}

/// Walks an archive without a layout and without creating anything; `visit` sees every member.
/// Confines the calling thread like [`run`].
pub(crate) fn list(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    confined: impl FnOnce() -> io::Result<()>,
    mut visit: impl FnMut(&unsnap_tarstream::Member<'_>) -> std::ops::ControlFlow<()>,
) -> Result<(), Error> {
    let name = config.archive.display_name();
    let opened = Opened::open(config, false)?;
    opened.confine(config.sandbox);
    confined().map_err(|error| no_thread(&error))?;
    let Opened { archive, threads, .. } = opened;
    let (engine, _) = choose_engine(&config.io_engine)?;
    let input = Input::begin(archive, &config.archive, cancel)?;
    let memory = Memory::reserve(config, &input, threads)?;
    let _rouse = cancel.rouse_by(memory.closer());
    let mut decoded = start_decoding(config, input, &memory, &engine, threads, progress)?;
    let mut walker = Walker::new(config.limits.tar);
    let mut walk = || -> Result<(), Error> {
        let mut at = unsnap_decode::Position::default();
        while let Some(piece) = decoded.next().map_err(|error| Error::from_decode(&name, error))? {
            at = piece.at;
            let bytes = piece.segment.bytes();
            let mut position = 0;
            while position < bytes.len() {
                if cancel.is_cancelled() {
                    return Err(Error::Cancelled);
                }
                let step =
                    walker.step(&bytes[position..]).map_err(|source| bad_tar(&name, source, at))?;
                position += step.consumed;
                if let unsnap_tarstream::Event::Member(member) = step.event
                    && visit(&member).is_break()
                {
                    return Ok(());
                }
            }
        }
        walker.finish().map_err(|source| bad_tar(&name, source, at))
    };
    let result = walk();
    memory.close();
    decoded.join();
    result
}

pub(crate) fn no_thread(error: &io::Error) -> Error {
    Error::Memory { reason: format!("cannot start a thread: {error}") }
}

/// The engine for reading and creating; and in words what was wanted instead, if that was refused.
fn choose_engine(wanted: &IoEngine) -> Result<(EngineKind, Option<String>), Error> {
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
fn engine_for_cached(wanted: &IoEngine) -> Option<EngineKind> {
    match wanted {
        IoEngine::Auto | IoEngine::Threads => Some(EngineKind::Threads),
        IoEngine::Uring => Some(EngineKind::Uring),
        // One creator, so that faults are counted over all operations.
        IoEngine::Faulty(_) => None,
    }
}

fn start_decoding(
    config: &Config,
    input: Input,
    memory: &Memory,
    engine: &EngineKind,
    threads: usize,
    progress: &Progress,
) -> Result<Decoded, Error> {
    let name = config.archive.display_name();
    let source: Box<dyn Source> = match input {
        Input::Stream { file, head } => {
            Box::new(StreamReader::new(file, name.as_str(), memory.read.clone()).with_head(head))
        }
        Input::File { file, .. } => {
            let mut reader =
                SequentialFileReader::builder(memory.read.clone()).engine(engine.clone());
            if let Some(ranges) = memory.to_register() {
                reader = reader.register(ranges);
            }
            if let Some(chunk_bytes) = config.tuning.decode.chunk_bytes {
                reader = reader.chunk_bytes(chunk_bytes);
            }
            if let Some(depth) = config.tuning.depth {
                reader = reader.depth(depth);
            }
            Box::new(reader.build(file).map_err(Error::Source)?)
        }
    };
    progress.shared.bytes_total.store(source.len().unwrap_or(0), Ordering::Relaxed);
    unsnap_decode::start(unsnap_decode::Job {
        source,
        segments: memory.segments.clone(),
        plan: memory.plan.clone(),
        limits: config.limits.decode.clone(),
        threads,
        progress: Arc::clone(&progress.shared.bytes_read),
    })
    .map_err(|error| Error::from_decode(&name, error))
}

fn start_creating(
    config: &Config,
    target: &mut Target,
    memory: &Memory,
    engine: &EngineKind,
    progress: &Progress,
) -> Result<Files, Error> {
    let destinations = std::mem::take(&mut target.destinations);
    let pool = PoolConfig {
        engine: engine.clone(),
        cached_engine: engine_for_cached(&config.io_engine),
        register: memory.to_register(),
        depth: config.tuning.depth,
        workers: config.tuning.workers,
    };
    let creators = CreatorPool::start(&destinations, &pool, Arc::clone(&progress.shared.created))?;
    let assembler = Assembler::new(destinations, creators, config.tuning.direct_bytes_min);
    Ok(Files { assembler, accounts_bytes: vec![0; config.accounts.len()] })
}

fn start_writeback(config: &Config, target: &mut Target, progress: &Progress) -> Writeback {
    let created = Arc::clone(&progress.shared.created);
    Writeback::start(std::mem::take(&mut target.sync), created, config.tuning.writeback_bytes)
}

fn finish_creating(files: Files, times: &mut Times) -> Result<Created, Error> {
    let (destinations, creators) = files.assembler.finish();
    let (waited, since) = (creators.waited(), Instant::now());
    times.create = creators.finish()?;
    times.walk_waited_for_output = waited + since.elapsed();
    Ok(Created {
        directories: destinations.iter().map(Destination::directories_made).sum(),
        direct: destinations.iter().all(|place| place.direct().is_some()),
        fallbacks: destinations
            .iter()
            .filter_map(|place| place.fallback().map(str::to_owned))
            .collect(),
    })
}

fn layout(config: &Config) -> Layout {
    let limits = config.limits.layout;
    match config.layout {
        LayoutKind::Snapshot => {
            Layout::Snapshot(SnapshotLayout::new(limits, archive_name(&config.archive)))
        }
        LayoutKind::Any => Layout::Any(AnyLayout::new(limits)),
    }
}

/// What the archive's file name says, if it is a snapshot's.
fn archive_name(archive: &Archive) -> Option<ArchiveName> {
    let Archive::File(path) = archive else { return None };
    match ArchiveName::parse(path.file_name()?.to_str()?) {
        Ok(name) => Some(name),
        Err(error) => {
            tracing::debug!(%error, "the archive has no snapshot's name");
            None
        }
    }
}
