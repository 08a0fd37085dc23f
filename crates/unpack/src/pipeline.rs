//! The pipeline, from archive to published files, in the order of the data's flow.

use std::{io, time::Instant};

use unsnap_decode::Position;
use unsnap_tarstream::Walker;

use crate::{
    CancelToken, Config, Error, Family, Phase, Progress, Report,
    account::Account,
    manifest::Manifest,
    opening::{Opened, Target},
    preflight::Preflight,
    resources::{Input, Memory},
    resume::Beginning,
    stages::{Stages, archive_name, check_digest, choose_engine, finish_creating},
    staging::Staging,
    times::Times,
    walk::{Walk, bad_tar},
    writeback::{Writeback, WritebackTimes, WrittenBack},
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
    let Opened { mut target, archive, mut manifest, threads, status } = opened;
    let (engine, fallback) = choose_engine(&config.io_engine)?;
    let mut fallbacks: Vec<String> = fallback.into_iter().collect();

    // Where to begin: with --resume, behind what an interrupted run has made durable.
    let beginning = Beginning::find(config, &mut target, &archive, manifest.as_mut())?;
    fallbacks.extend(beginning.fallback.clone());
    let resumed = beginning.resumed;
    progress.begin(beginning.met.files, resumed.map_or(0, |resumed| resumed.bytes));

    // Memory, all of it, divided by what the archive begins with.
    let since = Instant::now();
    let input = Input::begin(archive, &config.archive, cancel)?;
    let opened_in = since.elapsed();
    // Does it fit? Refused before the first byte is written.
    let mut preflight =
        Preflight::check(input.file(), target.as_ref(), &beginning.kept, config, cancel)?;
    let memory = Memory::reserve(config, &input, threads)?;
    let _rouse = cancel.rouse_by(memory.closer());

    // Source and decode: compressed spans become segments, on threads of their own.
    let stages = Stages::new(config, &memory, &engine, progress);
    let mut decoded = stages.decode(input, threads, beginning.decode)?;

    // Create: the creators of each device, the assembler that feeds them, and early write-back with
    // its checkpoints.
    let Beginning { decode, header_offset, layout, spread, met, origin, journal, .. } = beginning;
    let (mut files, mut writeback, mut checkpoints) = (Ok(None), None, None);
    if let Some(target) = &mut target {
        files = stages.create(target).map(Some);
        let started = stages.write_back(target, journal);
        let recording = origin.zip(started.outbox());
        checkpoints = recording.map(|(origin, outbox)| stages.checkpoints(origin, outbox));
        writeback = Some(started);
    }

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
            compromised: config.tuning.compromised.clone(),
            watch: preflight.watch(memory.plan.segments_bytes),
        };
        let (summary, met) = walk.run(files.as_mut())?;
        let finish = |files| finish_creating(files, met.files, progress, &mut times);
        let created = files.map(finish).transpose()?;
        Ok((summary, met, created))
    });

    // Whatever happened: nobody waits for memory any more, and the decoding threads end.
    memory.close();
    let decode_summary = times.end_decoding(decoded);
    let written_back = writeback.and_then(Writeback::finish);
    let interrupted = cancel.is_cancelled();
    if walked.is_err() || interrupted {
        progress.enter(Phase::CleaningUp);
    }
    let recorded = resumed.is_some() || written_back.as_ref().is_some_and(|back| back.recorded);
    // Even if something failed: a Ctrl-C also ends who feeds our standard input, and that looks like
    // a cut archive.
    let walked = if interrupted { Err(Error::Cancelled) } else { walked };

    // Commit: everything durable, then the final names, then those durable.
    let committed = walked.and_then(|walked| {
        times.created_at = started.elapsed();
        check_digest(config, &decode_summary)?;
        manifest.as_mut().map_or(Ok(()), Manifest::write_down)?;
        if let Some(Target { staging, .. }) = &mut target {
            times.writeback = commit(staging, written_back, progress, cancel)?;
            times.published_at = started.elapsed();
        }
        Ok(walked)
    });
    if let (Err(error), Some(target), true) = (&committed, &mut target, config.resume) {
        keep(&mut target.staging, recorded, error);
    }
    let (summary, met, created) = committed?;
    if let Some(manifest) = manifest {
        manifest.keep();
    }
    progress.enter(Phase::Done);

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
        created: created.unwrap_or_default(),
        resumed,
        times,
        fallbacks,
        sandbox,
        peak_rss_bytes: status.peak_rss_bytes(),
        preflight: preflight.report,
    };
    Ok(account.report())
}

/// Leaves what is complete where it is, for a run that resumes, if any of it has been recorded. Of a
/// bad archive there is nothing to resume.
fn keep(staging: &mut Staging, recorded: bool, error: &Error) {
    if staging.keep(recorded && error.family() != Family::BadArchive) {
        tracing::warn!("what is complete stays where it is: go on with --resume");
    }
}

/// Makes everything durable and gives it its final names. `written_back`: what was synced early.
fn commit(
    staging: &mut Staging,
    written_back: Option<WrittenBack>,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Option<WritebackTimes>, Error> {
    progress.enter(Phase::Syncing);
    let times = written_back.as_ref().map(|written| written.times);
    written_back.map_or(Ok(()), |written| written.result)?;
    staging.sync()?;
    if cancel.is_cancelled() {
        progress.enter(Phase::CleaningUp);
        return Err(Error::Cancelled);
    }
    progress.enter(Phase::Publishing);
    staging.publish()?;
    Ok(times)
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
    let stages = Stages::new(config, &memory, &engine, progress);
    let mut decoded = stages.decode(input, threads, Position::default())?;
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

pub(crate) fn no_thread(error: &io::Error) -> Error {
    Error::Memory { reason: format!("cannot start a thread: {error}") }
}
