//! The pipeline, from archive to published files, in the order of the data's flow.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use unsnap_create::{Assembler, CreateError, CreatorPool, Destination, PoolConfig};
use unsnap_decode::{DecodeSummary, Decoded, FrameStarts, Position};
use unsnap_layout::{AnyLayout, ArchiveName, Layout, SnapshotLayout};
use unsnap_ring::{DirectMode, EngineKind, probe_uring};
use unsnap_source::{DigestKind, Digesting, SequentialFileReader, Source, StreamReader};
use unsnap_tarstream::Walker;

use crate::{
    Archive, CancelToken, Config, Error, Family, IoEngine, LayoutKind, Phase, Progress, Report,
    account::{Account, Created},
    checkpoints::{CHECKPOINT_BYTES, Checkpoints, ReadMark},
    journal::Journal,
    opening::{Opened, Target, digest_kind},
    resources::{Input, Memory},
    resume::Beginning,
    times::Times,
    walk::{Walk, bad_tar},
    writeback::Writeback,
};

/// Unpacks one archive. Read top to bottom, this is the whole of unsnap.
pub(crate) fn run(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Report, Error> {
    let started = Instant::now();
    progress.enter(Phase::Preparing);
    let name = config.archive.display_name();

    // Open: the archive, and where its files will go. Dropped on any error, `target` takes
    // everything back. After this nothing outside of what is being built is opened any more.
    let Opened { mut target, archive, mut manifest, threads, status } =
        Opened::open(config, !config.dry_run)?;

    let (engine, fallback) = choose_engine(&config.io_engine)?;
    let mut fallbacks: Vec<String> = fallback.into_iter().collect();

    // Where to begin: with --resume, behind what an interrupted run has made durable.
    let beginning = Beginning::find(config, target.as_mut(), &archive, manifest.as_mut())?;
    fallbacks.extend(beginning.fallback.clone());
    let resumed = beginning.resumed;
    progress.begin(beginning.met.files, resumed.map_or(0, |resumed| resumed.bytes));

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
    let passed = Passed::default();
    let mut decoded = start_decoding(
        config,
        input,
        &memory,
        &engine,
        threads,
        beginning.decode,
        &passed,
        progress,
    )?;

    // Create: the creators of each device, the assembler that feeds them, and early write-back with
    // its checkpoints.
    let Beginning { decode, header_offset, layout, spread, met, journal, .. } = beginning;
    let (files, writeback) = match &mut target {
        Some(target) => {
            let files = start_creating(config, target, &memory, &engine, progress).map(Some);
            (files, Some(start_writeback(config, target, journal, progress)))
        }
        None => (Ok(None), None),
    };
    let checkpoints = writeback.as_ref().and_then(Writeback::outbox).map(|outbox| {
        let every = config.checkpoint_bytes.unwrap_or(CHECKPOINT_BYTES);
        Checkpoints::new(every, Arc::clone(&passed.frame_starts), passed.read.clone(), outbox)
    });

    // Walk: on this thread, members and payloads go from segments to creators.
    progress.enter(Phase::Unpacking);
    let mut times = Times { opened_in, prepared_at: started.elapsed(), ..Times::default() };
    let walked = files.and_then(|mut files| {
        let walk = Walk {
            archive: &name,
            decoded: &mut decoded,
            walker: Walker::resume(config.limits.tar, header_offset, met.entries),
            layout,
            spread,
            met,
            skip: header_offset - decode.raw_offset,
            checkpoints,
            manifest: manifest.as_mut(),
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
    let written_back = writeback.and_then(Writeback::finish);
    let interrupted = cancel.is_cancelled();
    if walked.is_err() || interrupted {
        progress.enter(Phase::CleaningUp);
    }
    if let (Some(Target { staging, .. }), true) = (&mut target, config.resume) {
        // Of a bad archive there is nothing to resume.
        let bad = walked.as_ref().is_err_and(|error| error.family() == Family::BadArchive);
        let recorded = written_back.as_ref().is_some_and(|written| written.recorded);
        staging.keep((resumed.is_some() || recorded) && (interrupted || !bad));
    }
    if interrupted {
        // Even if something failed: a Ctrl-C also ends who feeds our standard input, and that
        // looks like a cut archive.
        return Err(Error::Cancelled);
    }
    let (summary, met, created) = walked?;
    times.created_at = started.elapsed();
    check_digest(config, &decode_summary)?;
    if let Some(manifest) = manifest {
        manifest.finish()?;
    }

    // Commit: everything durable, then the final names, then those durable.
    if let Some(Target { staging, .. }) = &mut target {
        progress.enter(Phase::Syncing);
        if let Some(written) = written_back {
            times.writeback = Some(written.times);
            written.result?;
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
        resumed,
        times,
        fallbacks,
        peak_rss_bytes: status.peak_rss_bytes(),
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
    let Opened { archive, threads, .. } = Opened::open(config, false)?;
    let (engine, _) = choose_engine(&config.io_engine)?;
    let input = Input::begin(archive, &config.archive, cancel)?;
    let memory = Memory::reserve(config, &input, threads)?;
    let _rouse = cancel.rouse_by(memory.closer());
    let (begin, passed) = (Position::default(), Passed::default());
    let mut decoded =
        start_decoding(config, input, &memory, &engine, threads, begin, &passed, progress)?;
    let mut walker = Walker::new(config.limits.tar);
    let mut walk = || -> Result<(), Error> {
        let mut at = Position::default();
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
fn engine_for_cached(wanted: &IoEngine) -> Option<EngineKind> {
    match wanted {
        IoEngine::Auto | IoEngine::Threads => Some(EngineKind::Threads),
        IoEngine::Uring => Some(EngineKind::Uring),
        // One creator, so that faults are counted over all operations.
        IoEngine::Faulty(_) => None,
    }
}

/// What is noted of the archive as it passes by, for checkpoints.
#[derive(Default)]
struct Passed {
    frame_starts: Arc<FrameStarts>,
    read: ReadMark,
}

#[allow(clippy::too_many_arguments)] // the pipeline's pieces, each used once
fn start_decoding(
    config: &Config,
    input: Input,
    memory: &Memory,
    engine: &EngineKind,
    threads: usize,
    begin: Position,
    passed: &Passed,
    progress: &Progress,
) -> Result<Decoded, Error> {
    let name = config.archive.display_name();
    let mut hasher = digest_kind(config).map(DigestKind::hasher);
    if let (Input::File { file, .. }, Some(known)) = (&input, &mut hasher)
        && begin.compressed_offset > 0
    {
        if config.expect_digest.is_some() {
            // What is not decoded again must still be digested.
            file.digest_prefix(known, begin.compressed_offset).map_err(Error::Source)?;
        } else {
            hasher = None;
        }
    }
    let source: Box<dyn Source> = match input {
        Input::Stream { file, head } => {
            Box::new(StreamReader::new(file, name.as_str(), memory.read.clone()).with_head(head))
        }
        Input::File { file, .. } => {
            let mut reader =
                SequentialFileReader::builder(memory.read.clone()).engine(engine.clone());
            reader = reader.start(begin.compressed_offset);
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
    let source: Box<dyn Source> = match hasher {
        Some(hasher) => {
            let read = passed.read.clone();
            Box::new(Digesting::new(source, hasher, move |bytes, digest| read.set(bytes, digest)))
        }
        None => source,
    };
    unsnap_decode::start(unsnap_decode::Job {
        source,
        segments: memory.segments.clone(),
        plan: memory.plan.clone(),
        limits: config.limits.decode.clone(),
        threads,
        progress: Arc::clone(&progress.shared.bytes_read),
        begin,
        frame_starts: Arc::clone(&passed.frame_starts),
    })
    .map_err(|error| Error::from_decode(&name, error))
}

fn start_creating(
    config: &Config,
    target: &mut Target,
    memory: &Memory,
    engine: &EngineKind,
    progress: &Progress,
) -> Result<Assembler, Error> {
    let destinations = std::mem::take(&mut target.destinations);
    let pool = PoolConfig {
        engine: engine.clone(),
        cached_engine: engine_for_cached(&config.io_engine),
        register: memory.to_register(),
        depth: config.tuning.depth,
        workers: config.tuning.workers,
    };
    let creators = CreatorPool::start(&destinations, &pool, Arc::clone(&progress.shared.created))?;
    Ok(Assembler::new(destinations, creators, config.tuning.direct_bytes_min))
}

fn start_writeback(
    config: &Config,
    target: &mut Target,
    journal: Option<Journal>,
    progress: &Progress,
) -> Writeback {
    let created = Arc::clone(&progress.shared.created);
    let targets = std::mem::take(&mut target.sync);
    Writeback::start(targets, created, config.tuning.writeback_bytes, journal)
}

/// The archive must be the one that was expected.
fn check_digest(config: &Config, decoded: &DecodeSummary) -> Result<(), Error> {
    match (config.expect_digest, decoded.source.digest) {
        (Some(expected), Some(found)) if found != expected => {
            Err(Error::Digest { archive: config.archive.display_name(), found, expected })
        }
        (Some(expected), None) => Err(Error::Request {
            reason: format!("the archive was not digested, {expected} was expected (a bug)"),
            hint: None,
        }),
        _ => Ok(()),
    }
}

fn finish_creating(files: Assembler, times: &mut Times) -> Result<Created, Error> {
    let (destinations, creators) = files.finish();
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
