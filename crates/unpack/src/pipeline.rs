//! The pipeline, from archive to published files, in the order of the data's flow.

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
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
    resources::{Input, Memory},
    staging::Staging,
    times::Times,
    walk::{Files, Walk, bad_tar},
    writeback::Writeback,
};

/// Threads beyond which decoding has never been seen to gain, for a default. A guess.
const DECODE_THREADS_MAX: usize = 16;

/// Unpacks one archive. Read top to bottom, this is the whole of unsnap.
pub(crate) fn run(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Report, Error> {
    let started = Instant::now();
    progress.enter(Phase::Preparing);
    let name = config.archive.display_name();
    let (engine, fallback) = choose_engine(&config.io_engine)?;
    let mut fallbacks: Vec<String> = fallback.into_iter().collect();

    // Where the files will go. Dropped on any error, it takes everything back.
    let prepare = || Staging::prepare(&engine.syscalls(), &destination_paths(config));
    let mut staging = (!config.dry_run).then(prepare).transpose()?;
    let sync_targets = staging.as_ref().map(Staging::file_systems).transpose()?;

    // Memory, all of it, divided by what the archive begins with.
    let since = Instant::now();
    let input = Input::open(&engine.syscalls(), &config.archive, cancel)?;
    let opened_in = since.elapsed();
    if config.direct_io == DirectMode::On && matches!(input, Input::Stream { .. }) {
        fallbacks.push("buffered reads: a stream cannot be read by direct I/O".to_owned());
    }
    let threads = decode_threads(config);
    let memory = Memory::reserve(config, &input, threads)?;
    let _rouse = cancel.rouse_by(memory.closer());

    // Source and decode: compressed spans become segments, on threads of their own.
    let mut decoded = start_decoding(config, input, &memory, &engine, threads, progress)?;

    // Create: the creators of each device, the assembler that feeds them, and early write-back.
    let files = match &staging {
        Some(staging) => start_creating(config, staging, &memory, &engine, progress),
        None => Ok(None),
    };

    let writeback = sync_targets.map(|targets| {
        let created = Arc::clone(&progress.shared.created);
        Writeback::start(engine.syscalls(), targets, created, config.tuning.writeback_bytes)
    });

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
    if let Some(staging) = &mut staging {
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
    };
    Ok(account.report())
}

/// Walks an archive without a layout and without creating anything; `visit` sees every member.
pub(crate) fn list(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    mut visit: impl FnMut(&unsnap_tarstream::Member<'_>) -> std::ops::ControlFlow<()>,
) -> Result<(), Error> {
    let name = config.archive.display_name();
    let (engine, _) = choose_engine(&config.io_engine)?;
    let input = Input::open(&engine.syscalls(), &config.archive, cancel)?;
    let threads = decode_threads(config);
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
fn engine_for_cached(wanted: &IoEngine) -> EngineKind {
    match wanted {
        IoEngine::Auto | IoEngine::Threads => EngineKind::Threads,
        IoEngine::Uring => EngineKind::Uring,
        IoEngine::Faulty(plan) => EngineKind::Faulty(plan.clone()),
    }
}

fn destination_paths(config: &Config) -> Vec<std::path::PathBuf> {
    std::iter::once(&config.output).chain(&config.accounts).cloned().collect()
}

fn decode_threads(config: &Config) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    config.decode_threads.unwrap_or(cores.min(DECODE_THREADS_MAX)).clamp(1, 256)
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
    let source: Box<dyn Source> = match (input, &config.archive) {
        (Input::Stream { file, head }, _) => {
            Box::new(StreamReader::new(file, name.as_str(), memory.read.clone()).with_head(head))
        }
        (Input::Seekable { .. }, Archive::File(path)) => {
            let mut reader = SequentialFileReader::builder(memory.read.clone())
                .engine(engine.clone())
                .direct(config.direct_io);
            if let Some(ranges) = memory.to_register() {
                reader = reader.register(ranges);
            }
            if let Some(chunk_bytes) = config.tuning.decode.chunk_bytes {
                reader = reader.chunk_bytes(chunk_bytes);
            }
            if let Some(depth) = config.tuning.depth {
                reader = reader.depth(depth);
            }
            Box::new(reader.open(path).map_err(Error::Source)?)
        }
        (Input::Seekable { .. }, Archive::Stdin) => unreachable!("standard input is a stream"),
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
    staging: &Staging,
    memory: &Memory,
    engine: &EngineKind,
    progress: &Progress,
) -> Result<Option<Files>, Error> {
    let destinations = staging
        .directories()?
        .into_iter()
        .map(|(directory, path)| {
            Destination::open(engine.syscalls(), directory, path, config.direct_io)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let pool = PoolConfig {
        engine: engine.clone(),
        cached_engine: engine_for_cached(&config.io_engine),
        register: memory.to_register(),
        depth: config.tuning.depth,
        workers: config.tuning.workers,
    };
    let creators = CreatorPool::start(&destinations, &pool, Arc::clone(&progress.shared.created))?;
    let assembler = Assembler::new(destinations, creators, config.tuning.direct_bytes_min);
    Ok(Some(Files { assembler, accounts_bytes: vec![0; config.accounts.len()] }))
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
