//! The pipeline, from archive to published files, in the order of the data's flow.

use std::{
    io,
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use unsnap_decode::{DecodeSummary, Decoded, FrameStarts, Position};
use unsnap_layout::{BankFacts, LayoutError, Placement};
use unsnap_tarstream::{Event, Member, Walker};

use crate::{
    CancelToken, Config, Error, Family, Phase, Progress, Report,
    account::Account,
    again::Again,
    bank::BankCheck,
    content::AccountsVerification,
    manifest::Manifest,
    opening::{OpenArchive, Opened, Target},
    parts,
    paused::PausedWatch,
    preflight::{Preflight, Room},
    resources::{Input, Memory},
    resume::Beginning,
    stages::{
        Creation, Stages, archive_name, check_digest, choose_engine, finish_creating, layout,
    },
    staging::Staging,
    tap::Tap,
    times::Times,
    walk::{bad_layout, bad_tar},
    walks::Walks,
    watch::Watch,
    writeback::{Writeback, WritebackTimes, WrittenBack},
};

/// Unpacks. Confines the calling thread on the way, for good; `confined` is called when that is done.
pub(crate) fn run(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    confined: impl FnOnce() -> io::Result<()>,
) -> Result<Report, Error> {
    stage(config, progress, cancel, confined, |_| Ok(()), None)?.publish(progress)
}

/// Walks an archive as in a dry run, with all its checks, while `tap` listens.
pub(crate) fn tap(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    tap: &mut dyn Tap,
) -> Result<Report, Error> {
    if !config.dry_run || config.incremental.is_some() {
        let reason = "only a dry run over a single archive can be listened to".to_owned();
        return Err(Error::Request { reason, hint: None });
    }
    stage(config, progress, cancel, || Ok(()), |_| Ok(()), Some(tap))?.publish(progress)
}

/// Unpacks, but for giving the result its names. Read top to bottom, this is the whole of unsnap.
///
/// Confines the calling thread on the way, for good; `confined` is called when that is done. `fits` is
/// called before the first byte is written, when it is known that there is room. `tap` listens to the
/// decoded stream.
pub(crate) fn stage(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    confined: impl FnOnce() -> io::Result<()>,
    fits: impl FnOnce(Room) -> Result<(), Error>,
    tap: Option<&mut dyn Tap>,
) -> Result<Staged, Error> {
    let started = Instant::now();
    progress.reset(config.pace.as_ref());
    config.check()?;

    // A good neighbour: what this thread is given, all that it starts inherit.
    let (limits, refused) = config.settle()?;

    // Open: the archives, and where their files will go.
    let opened = Opened::open(config, !config.dry_run)?;

    // Confine: from here on this thread, and all that it starts, reach what is open and can build
    // in the staging directories. Not a byte of an archive has been looked at.
    let sandbox = opened.confine(config);
    confined().map_err(|error| no_thread(&error))?;
    // Dropped on any error, `target` takes everything back.
    let Opened { mut target, archives, side_cars, mut manifest, threads, status, spill } = opened;
    let (engine, fallback) = choose_engine(&config.io_engine)?;
    let mut fallbacks: Vec<String> = refused.into_iter().chain(fallback).collect();

    // Where to begin: with --resume, behind what an interrupted run has made durable.
    let beginning = Beginning::find(config, &mut target, &archives, manifest.as_mut())?;
    fallbacks.extend(beginning.fallback.clone());
    let resumed = beginning.resumed;
    progress.begin(beginning.met.files, resumed.map_or(0, |resumed| resumed.bytes));

    // Accounts that occur twice are read again: from their files, or from the archives.
    let mut again = Again::of(config, &archives)?;
    let verification = AccountsVerification::start(config, spill)?;

    // What the archives hold is known exactly if there are indexes.
    let indexes = parts::load(side_cars, &archives, config, progress, cancel)?;
    // Memory, all of it, divided by what the archives begin with.
    let since = Instant::now();
    let inputs = Input::begin_all(archives, config, cancel)?;
    let opened_in = since.elapsed();
    // Does it fit? Refused before the first byte is written.
    let (kept, place, handle) = (&beginning.kept, target.as_ref(), (progress, cancel));
    let mut preflight = Preflight::make_room(&inputs, &indexes, place, kept, config, handle, fits)?;
    let memory = Memory::reserve(config, &inputs, threads)?;
    let _rouse = cancel.rouse_by(memory.closer());

    // Source and decode: compressed spans become segments, on threads of their own.
    let stages = Stages::new(config, &memory, &engine, progress);
    let mut decoded = stages.decode(inputs, beginning.decode)?;

    // Create: the creators of each device, the assemblers that feed them, and early write-back with
    // its checkpoints.
    let (mut creation, mut writeback) = (Ok(None), None);
    // A shorter borrow of the same.
    let tap = tap.map(|tap| tap as &mut dyn Tap);
    let mut walks = Walks::new(config, progress, cancel, beginning, tap);
    if let Some(target) = &mut target {
        creation = stages.create(target).map(Some);
        writeback = Some(stages.write_back(target, &mut walks));
    }
    // Creators may stand still, since they are paused, or wait long for who takes files as they
    // become complete, or for a limit. That must not hold up an end.
    let creators = creation.as_ref().ok().and_then(Option::as_ref);
    let stop = stopper(&memory, creators);
    let stop_all = Arc::clone(&stop);
    let _rouse = cancel.rouse_by(move || stop_all());

    // Walk: on this thread, members and payloads go from segments to creators. A second archive is
    // walked beside the first, by a thread of its own.
    progress.enter(Phase::Unpacking);
    let mut times = Times { opened_in, prepared_at: started.elapsed(), ..Times::default() };
    let watch = preflight.watch(memory.segments_bytes());
    // While the run is paused, somebody else looks after the space.
    let paused_watch = watch_paused(config, watch.as_ref(), creators, &stop);
    let walked = creation.and_then(|mut creation| {
        let (check, manifest) = (verification.as_ref(), manifest.as_mut());
        let walked =
            walks.run(&mut decoded, &mut creation, manifest, watch.as_deref(), &*stop, check)?;
        let created = walked.iter().map(|walked| walked.met.created).sum();
        let finish = |creation| finish_creating(creation, created, progress, &mut times);
        let created = creation.map(finish).transpose()?;
        Ok((walked, created))
    });
    let walked = paused_watch.and_then(PausedWatch::finish).map_or(walked, Err);

    // Whatever happened: nobody waits for memory any more, and the decoding threads end.
    memory.close();
    let decode_summaries = times.end_decoding(decoded);
    let written_back = writeback.and_then(Writeback::finish);
    let recorded = resumed.is_some() || written_back.as_ref().is_some_and(|back| back.recorded);
    // Even if something failed: a Ctrl-C also ends who feeds our standard input, and that looks like
    // a cut archive.
    let walked = if cancel.is_cancelled() { Err(Error::Cancelled) } else { walked };
    if walked.is_err() {
        progress.enter(Phase::CleaningUp);
    }

    // Sync: what the archives do not hold is added, and everything is made durable.
    let synced = walked.and_then(|(walked, created)| {
        times.created_at = started.elapsed();
        times.paused = progress.paused();
        check_digest(config, &decode_summaries)?;
        stand_still(config, cancel)?;
        if verification.is_some() {
            progress.enter(Phase::Verifying);
        }
        let accounts = again.verify(verification, &walked, target.as_ref(), &stages, cancel)?;
        manifest.as_mut().map_or(Ok(()), Manifest::write_down)?;
        if let Some(target) = &mut target {
            target.complete(config, &walked, created.as_ref())?;
            stand_still(config, cancel)?;
            times.writeback = sync(&target.staging, written_back, progress, cancel)?;
        }
        Ok((walked, created, accounts))
    });
    if let (Err(error), Some(target), true) = (&synced, &mut target, config.resume) {
        keep(&mut target.staging, recorded, error);
    }
    let (walked, created, accounts) = synced?;
    let account = Account {
        config: config.clone(),
        huge_pages: memory.arena.page_kind().name(),
        memory_bytes: memory.arena.bytes() as u64,
        io_engine: engine.name(),
        threads,
        walked,
        decoded: decode_summaries,
        created: created.unwrap_or_default(),
        resumed,
        times,
        fallbacks,
        sandbox,
        status,
        preflight: preflight.report,
        accounts,
        limits,
        paused: Duration::ZERO,
    };
    Ok(Staged { target, manifest, account, started })
}

/// Ends everybody's waiting: for memory, and in creators.
fn stopper(memory: &Memory, creators: Option<&Creation>) -> Arc<dyn Fn() + Send + Sync> {
    let (close, stop_creating) = (memory.closer(), creators.map(Creation::stopper));
    Arc::new(move || {
        close();
        if let Some(stop_creating) = &stop_creating {
            stop_creating();
        }
    })
}

/// What looks after the space while the run is paused, if it can be, and there is space to look after.
fn watch_paused(
    config: &Config,
    watch: Option<&Arc<Watch>>,
    creators: Option<&Creation>,
    stop: &Arc<dyn Fn() + Send + Sync>,
) -> Option<PausedWatch> {
    let (pace, watch, creation) = (config.pace.as_ref()?, watch?, creators?);
    let (written, stop) = (creation.creators.written(), Arc::clone(stop));
    Some(PausedWatch::start(pace, Arc::clone(watch), written, move || stop()))
}

/// What is complete and durable, but has no names yet. Dropped, it takes everything back.
pub(crate) struct Staged {
    /// `None` in a dry run.
    target: Option<Target>,
    manifest: Option<Manifest>,
    pub account: Account,
    started: Instant,
}

impl Staged {
    /// Gives everything its final names, durably.
    pub fn publish(mut self, progress: &Progress) -> Result<Report, Error> {
        progress.enter(Phase::Publishing);
        let times = &mut self.account.times;
        if let Some(target) = &mut self.target {
            target.staging.publish()?;
            times.published_at = self.started.elapsed();
        }
        if let Some(manifest) = self.manifest {
            manifest.keep();
        }
        progress.enter(Phase::Done);
        times.total = self.started.elapsed();
        self.account.paused = progress.paused();
        Ok(self.account.report())
    }
}

/// Leaves what is complete where it is, for a run that resumes, if any of it has been recorded. Of a
/// bad archive there is nothing to resume.
fn keep(staging: &mut Staging, recorded: bool, error: &Error) {
    if staging.keep(recorded && error.family() != Family::BadArchive) {
        tracing::warn!("what is complete stays where it is: go on with --resume");
    }
}

/// Waits for the end of a pause.
fn stand_still(config: &Config, cancel: &CancelToken) -> Result<(), Error> {
    let Some(pace) = &config.pace else { return Ok(()) };
    pace.wait_while_paused(|| cancel.is_cancelled());
    if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}

/// Makes everything durable. `written_back`: what was synced early.
fn sync(
    staging: &Staging,
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
    Ok(times)
}

/// Walks an archive without a layout and without creating anything; `visit` sees every member, out of
/// the archive's index if it has one. Confines the calling thread like [`run`].
pub(crate) fn list(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
    confined: impl FnOnce() -> io::Result<()>,
    mut visit: impl FnMut(&Member<'_>) -> ControlFlow<()>,
) -> Result<(), Error> {
    let opened = open_to_read(config, progress, confined)?;
    let Opened { archives, side_cars, threads, .. } = opened;
    let indexes = parts::load(side_cars, &archives, config, progress, cancel)?;
    if let Some(index) = indexes.into_iter().flatten().next() {
        let mut entries = index.entries.entries().iter();
        let _ = entries.try_for_each(|entry| visit(&entry.member(&entry.path())));
        return Ok(());
    }
    let pass = Pass { config, progress, cancel, threads, frame_starts: Arc::default() };
    let passed = pass.over(archives, |event, _, _| match event {
        Event::Member(member) => Ok(visit(&member)),
        _ => Ok(ControlFlow::Continue(())),
    });
    passed.map(drop)
}

/// Opens archives that are only read, and confines the calling thread.
pub(crate) fn open_to_read(
    config: &Config,
    progress: &Progress,
    confined: impl FnOnce() -> io::Result<()>,
) -> Result<Opened, Error> {
    progress.reset(config.pace.as_ref());
    config.check_nice()?;
    config.settle_this_thread()?;
    let opened = Opened::open(config, false)?;
    opened.confine(config);
    confined().map_err(|error| no_thread(&error))?;
    Ok(opened)
}

/// Walks an archive until its bank file has passed by, and holds that to the archive's name. It
/// costs the first megabytes of a real archive; nothing is created. Confines the calling thread.
pub(crate) fn prove(
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<BankFacts, Error> {
    let archive = config.archive.display_name();
    let mut layout = layout(config, &config.archive);
    let mut bank = BankCheck::new(archive.clone(), archive_name(&config.archive));
    let Opened { archives, threads, .. } = open_to_read(config, progress, || Ok(()))?;
    let pass = Pass { config, progress, cancel, threads, frame_starts: Arc::default() };
    pass.over(archives, |event, bytes, at| {
        match event {
            Event::Member(member) => {
                let placement = layout.admit(&member);
                let placement =
                    placement.map_err(|source| bad_layout(&archive, source, Some(at)))?;
                if let Placement::File { role, .. } = placement {
                    bank.begin(role, member.size);
                }
            }
            Event::Payload { last } => bank.take(bytes, last, at)?,
            Event::Skipped | Event::End => {}
        }
        Ok(if bank.is_proven() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let missing = || {
        layout
            .finish()
            .err()
            .map_or(LayoutError::MissingEntry { entry: "a bank file" }, |error| error)
    };
    let proven = bank.proven().ok_or_else(|| bad_layout(&archive, missing(), None))?;
    Ok(proven.facts)
}

/// A pass over an archive, which writes nothing.
pub(crate) struct Pass<'a> {
    pub config: &'a Config,
    pub progress: &'a Progress,
    pub cancel: &'a CancelToken,
    /// Threads that decode.
    pub threads: usize,
    /// Where to note starts of frames.
    pub frame_starts: Arc<FrameStarts>,
}

impl Pass<'_> {
    /// Decodes the first archive and shows `see` every event of its walk, with the bytes it is about
    /// and what they were decoded from, until that breaks. To the end, if it does not: then the end is
    /// proven, and what was decoded is told.
    pub fn over(
        self,
        mut archives: Vec<OpenArchive>,
        mut see: impl FnMut(Event<'_>, &[u8], Position) -> Result<ControlFlow<()>, Error>,
    ) -> Result<Option<DecodeSummary>, Error> {
        let Self { config, progress, cancel, threads, frame_starts } = self;
        let name = config.archive.display_name();
        archives.truncate(1);
        let (engine, _) = choose_engine(&config.io_engine)?;
        let inputs = Input::begin_all(archives, config, cancel)?;
        let memory = Memory::reserve(config, &inputs, threads)?;
        let _rouse = cancel.rouse_by(memory.closer());
        let stages = Stages::new(config, &memory, &engine, progress).noting(frame_starts);
        let mut decoded = stages.decode(inputs, Position::default())?;
        progress.enter(Phase::Unpacking);
        let shared = &progress.shared;
        let counted = |event: Event<'_>, bytes: &[u8], at| {
            shared.bytes_decoded.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            see(event, bytes, at)
        };
        let first = decoded.first_mut();
        let result =
            first.map_or(Ok(()), |decoded| see_all(&name, config, decoded, cancel, counted));
        memory.close();
        let mut summary = None;
        for decoded in decoded {
            summary = decoded.summary().cloned();
            decoded.join();
        }
        result.map(|()| summary)
    }
}

/// Shows `see` every event of the walk over a decoded archive, until that breaks, or to its proven end.
pub(crate) fn see_all(
    archive: &str,
    config: &Config,
    decoded: &mut Decoded,
    cancel: &CancelToken,
    mut see: impl FnMut(Event<'_>, &[u8], Position) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let mut walker = Walker::new(config.limits.tar);
    let mut at = Position::default();
    while let Some(piece) = decoded.next().map_err(|error| Error::from_decode(archive, error))? {
        at = piece.at;
        let bytes = piece.segment.bytes();
        let mut position = 0;
        while position < bytes.len() {
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            let step = walker.step(&bytes[position..]);
            let step = step.map_err(|source| bad_tar(archive, source, at))?;
            let end = position + step.consumed;
            if see(step.event, &bytes[position..end], at)?.is_break() {
                return Ok(());
            }
            position = end;
        }
    }
    walker.finish().map_err(|source| bad_tar(archive, source, at))
}

pub(crate) fn no_thread(error: &io::Error) -> Error {
    Error::Memory { reason: format!("cannot start a thread: {error}") }
}
