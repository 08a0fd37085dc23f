//! The pipeline, from archive to published files, in the order of the data's flow.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_commit::{Manifest, Staging, Target, Writeback};
use unsnap_create::FileSink;
use unsnap_failure::{Failure, Family};
use unsnap_fit::{Announced, FileSystem, Kept, PausedWatch, Preflight, Question, Room, Watch};
use unsnap_pass::{
    CancelToken, DecodeJob, Decoding, Handles, Input, Memory, Opened, Pace, PassError, Phase,
    Progress, ReadMark, Tap, Unfinished, choose_engine,
};
use unsnap_source::DigestKind;
use unsnap_state::StorageFile;

use crate::{
    Destination, Options, Report, UnpackError,
    creating::{Creation, write_back},
    grace::{GRACE, Grace},
    last_checkpoint,
    process::ProcessStatus,
    report_builder::ReportBuilder,
    resume::Beginning,
    second_look::SecondLook,
    storages::AccountsVerification,
    tees::{CompleteTees, RunningTees, Tees, remote_id},
    times::Times,
    walks::Walks,
};

/// Unpacks without publishing: see [`stage_all`]. If something could not be created, the error names
/// the resource that is short.
pub(crate) fn stage(
    options: &Options,
    handles: &Handles,
    confined: impl FnOnce() -> io::Result<()>,
    fits: impl FnOnce(Room) -> Result<(), UnpackError>,
    tap: Option<&mut dyn Tap>,
) -> Result<Staged, UnpackError> {
    stage_all(options, handles, confined, fits, tap).map_err(with_resource)
}

/// Names the resource that is short. The answer is right only until staged files are removed.
fn with_resource(error: UnpackError) -> UnpackError {
    match error {
        UnpackError::Commit(error) => error.with_resource().into(),
        error => error,
    }
}

/// Unpacks without publishing. Read from top to bottom, this is the whole of unsnap.
///
/// Confines the calling thread permanently, then calls `confined`. Calls `fits` before the first
/// byte is written, when it is known that there is room. Shows the decoded stream to `tap`.
#[allow(clippy::too_many_lines, reason = "the whole pipeline, in one place")]
fn stage_all(
    options: &Options,
    handles: &Handles,
    confined: impl FnOnce() -> io::Result<()>,
    fits: impl FnOnce(Room) -> Result<(), UnpackError>,
    tap: Option<&mut dyn Tap>,
) -> Result<Staged, UnpackError> {
    let started = Instant::now();
    let Handles { progress, cancel } = handles;
    progress.reset(options.pass.neighbour.pace.as_ref());

    // Limits: all threads that this one starts inherit its niceness, processors and I/O priority.
    let (limits, refused) = options.pass.neighbour.settle()?;

    // Open: the destinations and the archives.
    let mut target = open_target(options, cancel.unfinished())?;
    // Before this thread is confined: the storages are outside of the staging directories.
    let reused = link_base(options, target.as_ref(), cancel)?;
    let tees = Tees::open(options, handles)?;
    let mut opened = Opened::open(options.archives(), &options.pass)?;
    log_opened(options);
    let mut manifest = open_manifest(options, &opened)?;
    let spill =
        options.source().verifies_accounts().then(|| Target::temporary_file(target.as_ref()));
    let status = ProcessStatus::open();

    // Confine: from here on, this thread and all threads that it starts can use only what is open,
    // and can create files only in the staging directories. Not a byte of an archive has been read.
    let mut needs = Target::needs(target.as_ref(), reads_created_files(options));
    needs.extend(tees.needs());
    let sandbox = opened.confine(&options.pass, &needs);
    drop(needs);
    confined().map_err(PassError::thread)?;
    // On any error, dropping `target` removes all staged files.
    let (engine, fallback) = choose_engine(&options.pass.io.engine)?;
    let (name, direct, decode_threads) = (engine.name(), options.pass.io.direct, opened.threads);
    tracing::info!(engine = name, direct_io = ?direct, decode_threads, "chose the I/O engine");
    let mut fallbacks: Vec<String> = refused.into_iter().chain(fallback).collect();

    // Begin: a resumed run begins at the last checkpoint of the interrupted one.
    let mut beginning =
        Beginning::find(options, target.as_mut(), &opened.archives, manifest.as_mut())?;
    fallbacks.extend(beginning.fallback.take());
    let resumed = beginning.resumed;
    progress.begin(beginning.met.created, resumed.map_or(0, |resumed| resumed.bytes));

    // Second look: accounts that occur twice are read again, from their files or from the archives.
    let mut second_look = SecondLook::prepare(options, &opened)?;
    let verification = AccountsVerification::start(options.source().verify(), spill.flatten())?;

    // Fit: archives that do not fit are refused before the first byte is written. An index gives
    // the exact sizes.
    let indexes = opened.load_indexes(&options.pass, handles)?;
    let since = Instant::now();
    let threads = opened.threads;
    let inputs = Input::begin_all(opened.archives, options.archives(), cancel)?;
    let opened_in = since.elapsed();
    let remotes: Vec<_> = inputs.iter().map(|input| input.remote().map(remote_id)).collect();
    let systems = target.as_ref().map(|target| file_systems(target, options)).transpose()?;
    let announced = tees.announced(options, &remotes);
    tees.refuse_without_room(options, systems.as_deref().unwrap_or_default(), &announced)?;
    let mut preflight = match &systems {
        None => fits(Room::Beside).map(|()| None)?,
        Some(systems) => {
            let files = inputs.iter().map(Input::file).zip(indexes.iter().map(Option::as_ref));
            let archives = (files.collect(), announced);
            let question = question(options, handles, archives, systems, &beginning.kept);
            Some(Preflight::make_room(&question, options.state().is_some(), fits)?)
        }
    };

    // Memory: all of it is reserved and divided here, by the archives' first headers.
    let memory = Memory::reserve(&options.pass, &inputs, threads, options.writes())?;
    let _rouse = cancel.rouse_by(memory.closer());

    // Tee: an archive from the network is kept as a file as well.
    let of_files = systems.as_deref().unwrap_or_default();
    let (tees, keepers) = tees.start(options, of_files, remotes, progress, &memory)?;
    let mut tees = Some(tees);

    // Source and decode: compressed bytes become segments, on threads of their own.
    let (frame_starts, read) = (Arc::default(), ReadMark::default());
    let job = DecodeJob {
        named: options.archives(),
        options: &options.pass,
        handles,
        engine: &engine,
        begin: beginning.decode,
        frame_starts: Arc::clone(&frame_starts),
        read: read.clone(),
        digest: options.digest().kind(),
        digest_all: options.digest().expected().is_some(),
        held: std::mem::take(&mut beginning.held),
        keepers: keepers.into(),
    };
    let mut decoding = Decoding::start(inputs, memory, &job)?;

    // Create: the creators of each device, the assemblers that feed them, and early write-back with
    // its checkpoints.
    let (mut creation, mut writeback, mut checkpoints) = (Ok(None), None, None);
    // A shorter borrow of the same value.
    let tap = tap.map(|tap| tap as &mut dyn Tap);
    let mut walks = Walks::new(options, handles, threads, beginning, tap);
    if let Some(target) = &mut target {
        let started = Creation::start(target, options, &decoding.memory, &engine, progress);
        if let Some(spread) = started.as_ref().ok().and_then(|creation| creation.spread.as_ref()) {
            spread.count(&reused);
        }
        creation = started.map(Some);
        let (journal, origin) = walks.take_journal();
        let (started, taken) =
            write_back(target, journal, origin, options, progress, frame_starts, read);
        (writeback, checkpoints) = (Some(started), taken);
        walks.checkpoints = checkpoints.as_mut();
    }
    // Creators may be paused, or wait for a consumer of files or for the rate limit. That must not
    // delay the end of a cancelled run.
    let creators = creation.as_ref().ok().and_then(Option::as_ref);
    let stop = stopper(&decoding.memory, creators);
    let lost = creators.map(|creation| creation.creators.lost());
    let grace = start_grace(options, &stop);
    // Where samples left a doubt about the space, all headers are walked meanwhile.
    let stop_for_space = Arc::clone(&stop);
    let headers = preflight.as_mut().and_then(|fit| fit.walk_beside(move || stop_for_space()));
    let _rouse = cancel.rouse_by(on_cancel(options, &decoding.memory, &stop, grace.as_ref()));

    // Walk: on this thread, entries and payloads go from segments to creators. A second archive is
    // walked at the same time by another thread.
    progress.enter(Phase::Unpacking);
    let mut times = Times { opened_in, prepared_at: started.elapsed(), ..Times::default() };
    let in_flight = decoding.memory.decoded_bytes_max();
    let watch = preflight.as_ref().zip(systems);
    let watch = watch.and_then(|(fit, systems)| fit.watch(systems, in_flight, &options.pass));
    // While the run is paused, the walk stops, and another thread watches the free space.
    let paused_watch = watch_paused(options, watch.as_ref(), creators, &stop);
    let walked = creation.and_then(|mut creation| {
        let (check, manifest) = (verification.as_ref(), manifest.as_mut());
        let streams = &mut decoding.streams;
        let walked =
            walks.run(streams, &mut creation, manifest, watch.as_deref(), &*stop, check)?;
        let created = walked.iter().map(|walked| walked.met.created).sum();
        let finish = |creation: Creation| creation.finish(created, progress, &mut times);
        let created = creation.map(finish).transpose()?;
        Ok((walked, created))
    });
    let paused = paused_watch.and_then(PausedWatch::finish);
    let walked = paused.map_or(walked, |error| Err(error.into()));
    let walked = match &mut preflight {
        Some(preflight) => preflight.settle(headers, walked),
        None => walked,
    };
    let walked = walked.map_err(with_resource);

    // In any case, no thread waits for memory any more, and the decoding threads end.
    let (ended, memory) = decoding.finish();
    let decoded = times.end_decoding(ended);
    // A cancellation has precedence over errors: Ctrl-C also ends the sender of our standard input,
    // which looks like a truncated archive.
    let walked = if cancel.is_cancelled() { Err(UnpackError::CANCELLED) } else { walked };
    // An archive that must be kept and cannot be has ended the run.
    let not_kept = |error| tees.as_mut().and_then(RunningTees::why_stopped).unwrap_or(error);
    let walked = walked.map_err(not_kept);
    if walked.is_err() {
        progress.enter(Phase::CleaningUp);
    }

    // Sync: a state's lists are added, and everything is made durable.
    let synced = walked.and_then(|(walked, created)| {
        times.created_at = started.elapsed();
        times.paused = progress.paused();
        check_digest(options, &decoded)?;
        wait_while_paused(options, cancel)?;
        if verification.is_some() {
            progress.begin_files(Phase::Verifying);
        }
        let accounts = second_look.verify(verification, &walked, target.as_ref(), handles)?;
        manifest.as_mut().map_or(Ok(()), Manifest::write_down)?;
        let tees = tees.take().map(RunningTees::finish).transpose()?.unwrap_or_default();
        if let Some(target) = &mut target {
            write_lists(options, target, &reused, &walked, created.as_ref())?;
            wait_while_paused(options, cancel)?;
            progress.enter(Phase::Syncing);
            if let Err(error) = target.staging.sync() {
                // It is unknown what is durable, so there is no last checkpoint.
                checkpoints = None;
                return Err(error.into());
            }
            if cancel.is_cancelled() {
                progress.enter(Phase::CleaningUp);
                return Err(UnpackError::CANCELLED);
            }
        }
        Ok((walked, created, accounts, tees))
    });
    // Keep: of a resumable run that failed or was interrupted, the files that are complete stay.
    if let (Err(error), Some(target), Some(checkpoints)) = (&synced, &target, &mut checkpoints)
        && can_be_resumed(options, error)
    {
        last_checkpoint::take(target, checkpoints, lost.and_then(|lost| lost()));
    }
    if let (Err(error), Some(tees)) = (&synced, tees.take())
        && can_be_resumed(options, error)
    {
        tees.keep();
    }
    drop(checkpoints);
    let written_back = writeback.and_then(Writeback::finish);
    let recorded = resumed.is_some() || written_back.as_ref().is_some_and(|back| back.recorded);
    times.writeback = written_back.as_ref().map(|written| written.times);
    // A failed early sync is final, since the kernel may report an error only once.
    let synced = synced.and_then(|done| {
        written_back.map_or(Ok(()), |written| written.result)?;
        Ok(done)
    });
    if let (Err(error), Some(target), true) = (&synced, &mut target, options.resumes()) {
        keep(&mut target.staging, recorded && can_be_resumed(options, error));
    }
    let (walked, created, accounts, tees) = synced?;
    let report = ReportBuilder {
        options: options.clone(),
        huge_pages: memory.arena.page_kind().name(),
        memory_bytes: memory.arena.bytes() as u64,
        io_engine: engine.name(),
        threads,
        walked,
        decoded,
        created: created.unwrap_or_default(),
        resumed,
        times,
        fallbacks,
        sandbox,
        status,
        preflight: preflight.map(|preflight| preflight.report),
        accounts,
        limits,
        paused: Duration::ZERO,
        tees: Vec::new(),
    };
    Ok(Staged { target, manifest, tees, report, started })
}

/// A result that is complete and durable, but not published. Dropping it removes all staged files.
pub(crate) struct Staged {
    /// `None` if nothing is written.
    target: Option<Target>,
    manifest: Option<Manifest>,
    tees: CompleteTees,
    report: ReportBuilder,
    started: Instant,
}

impl Staged {
    /// Publishes everything under its final names, durably.
    pub fn publish(mut self, progress: &Progress) -> Result<Report, UnpackError> {
        progress.enter(Phase::Publishing);
        let times = &mut self.report.times;
        let mut tees = Some(self.tees);
        if let Some(required) = tees.take_if(|tees| tees.are_required()) {
            self.report.tees = required.publish()?;
        }
        if let Some(target) = &mut self.target {
            target.staging.publish()?;
            times.published_at = self.started.elapsed();
        }
        if let Some(manifest) = self.manifest {
            manifest.keep();
        }
        if let Some(tees) = tees {
            self.report.tees = tees.publish()?;
        }
        progress.enter(Phase::Done);
        times.total = self.started.elapsed();
        self.report.paused = progress.paused();
        let report = self.report.build();
        let Report { files, bytes_written, direct_read, direct_write, elapsed_ms, .. } = &report;
        let done = if report.dry_run { "read the whole archive" } else { "published" };
        tracing::info!(files, bytes_written, direct_read, direct_write, elapsed_ms, "{done}");
        Ok(report)
    }
}

/// Logs archives and destinations.
fn log_opened(options: &Options) {
    for archive in options.archives() {
        tracing::info!(path = %archive.display_name(), "opened an archive");
    }
    for path in options.destination().paths() {
        tracing::info!(path = %path.display(), "opened a destination");
    }
}

fn open_target(options: &Options, unfinished: &Unfinished) -> Result<Option<Target>, UnpackError> {
    let destination = options.destination();
    if let Destination::Nowhere { .. } = destination {
        return Ok(None);
    }
    let calls = options.pass.io.engine.syscalls();
    let (spots, destinations) = (destination.spots(), destination.paths().len());
    let direct = options.pass.io.direct;
    let resume = options.resumes();
    Ok(Some(Target::open(&calls, unfinished, &spots, destinations, direct, resume)?))
}

/// Links the storages that an earlier state has already.
fn link_base(
    options: &Options,
    target: Option<&Target>,
    cancel: &CancelToken,
) -> Result<Vec<StorageFile>, UnpackError> {
    let (Some(state), Some(base), Some(target)) = (options.state(), options.base(), target) else {
        return Ok(Vec::new());
    };
    let linked = base.link(state, target, || cancel.is_cancelled())?;
    let full = &base.origin().full;
    tracing::info!(storages = linked.len(), %full, "linked the storages of an earlier state");
    Ok(linked)
}

fn open_manifest(options: &Options, opened: &Opened) -> Result<Option<Manifest>, UnpackError> {
    let Some(path) = options.manifest() else { return Ok(None) };
    let kind = options.digest().kind().unwrap_or(DigestKind::Xxh3);
    let identity = match opened.archives.first().and_then(unsnap_pass::OpenArchive::file) {
        Some(file) => {
            let stat = file.stat().map_err(PassError::source)?;
            Some((stat.st_dev, stat.st_ino))
        }
        None => None,
    };
    let destinations = options.destination().paths();
    Ok(Some(Manifest::create(path, kind, identity, &destinations)?))
}

/// Returns whether created files are opened for reading too: to pass them on open, or to read
/// accounts that occur twice again.
fn reads_created_files(options: &Options) -> bool {
    options.files.as_ref().is_some_and(FileSink::wants_open_files)
        || options.source().verifies_accounts()
}

fn file_systems(target: &Target, options: &Options) -> Result<Vec<FileSystem>, UnpackError> {
    let mut directories = target.staging.directories()?;
    directories.truncate(options.destination().paths().len());
    let systems = FileSystem::of(&target.calls, directories)?;
    Ok(systems.into_iter().map(|system| system.keeping(options.min_free)).collect())
}

/// Returns the question whether the archives fit into their destinations.
fn question<'a>(
    options: &'a Options,
    handles: &'a Handles,
    (archives, announced): (Vec<unsnap_fit::Source<'a>>, Vec<Option<Announced>>),
    systems: &'a [FileSystem],
    kept: &'a [Kept],
) -> Question<'a> {
    let accounts = options.destination().accounts().len();
    Question {
        archives,
        announced,
        systems,
        accounts,
        // A state's storages are spread by free space.
        by_space: options.state().is_some() && accounts > 1,
        kept,
        mode: options.preflight,
        options: &options.pass,
        handles,
        // A state's older files are removed before it is unpacked, and those of a run that can be
        // resumed are kept after it has failed.
        may_walk_beside: options.state().is_none() && !options.resumes(),
    }
}

/// Returns a function that ends all waiting, for memory and in creators.
fn stopper(memory: &Memory, creators: Option<&Creation>) -> Arc<dyn Fn() + Send + Sync> {
    let (close, stop_creating) = (memory.closer(), creators.map(Creation::stopper));
    Arc::new(move || {
        close();
        if let Some(stop_creating) = &stop_creating {
            stop_creating();
        }
    })
}

/// Starts the thread that gives a cancelled, resumable run time to complete files. Without the
/// thread, the run is stopped at once.
fn start_grace(options: &Options, stop: &Arc<dyn Fn() + Send + Sync>) -> Option<Grace> {
    let stop = Arc::clone(stop);
    options.resumes().then(|| Grace::start(GRACE, move || stop()).ok()).flatten()
}

/// Returns the function that is called at a cancellation. It stops everything, at once or after a
/// grace period in which files are completed. A paused run cannot complete files.
fn on_cancel(
    options: &Options,
    memory: &Memory,
    stop: &Arc<dyn Fn() + Send + Sync>,
    grace: Option<&Grace>,
) -> impl Fn() + Send + use<> {
    let stop = Arc::clone(stop);
    let close: Box<dyn Fn() + Send> = Box::new(memory.closer());
    let (grace, pace) = (grace.map(Grace::trigger), options.pass.neighbour.pace.clone());
    move || match &grace {
        Some(grace) if !pace.as_ref().is_some_and(Pace::is_paused) => {
            // The decoders and the walk end; the creators continue.
            close();
            grace();
        }
        _ => stop(),
    }
}

/// Starts the thread that watches the free space while the run is paused, if it can be paused.
fn watch_paused(
    options: &Options,
    watch: Option<&Arc<Watch>>,
    creators: Option<&Creation>,
    stop: &Arc<dyn Fn() + Send + Sync>,
) -> Option<PausedWatch> {
    let (pace, watch, creation) = (options.pass.neighbour.pace.as_ref()?, watch?, creators?);
    let (written, stop) = (creation.creators.written(), Arc::clone(stop));
    Some(PausedWatch::start(pace, Arc::clone(watch), written, move || stop()))
}

/// Compares the archive's digest with the expected one.
fn check_digest(
    options: &Options,
    decoded: &[unsnap_decode::DecodeSummary],
) -> Result<(), UnpackError> {
    let found = decoded.first().and_then(|decoded| decoded.source.digest);
    match (options.digest().expected(), found) {
        (Some(expected), Some(found)) if found != expected => {
            let (found, expected) = (Box::new(found), Box::new(expected));
            Err(UnpackError::Digest { archive: options.archive_name(), found, expected })
        }
        (Some(expected), None) => {
            let reason = format!("the archive was not digested, {expected} expected (a bug)");
            Err(PassError::request(reason).into())
        }
        _ => Ok(()),
    }
}

/// Writes the files that a state has in addition to those of the archives.
fn write_lists(
    options: &Options,
    target: &Target,
    reused: &[StorageFile],
    walked: &[crate::walk::Walked],
    created: Option<&crate::creating::Created>,
) -> Result<(), UnpackError> {
    let Some(state) = options.state() else { return Ok(()) };
    let files = walked.iter().flat_map(|walked| walked.places.storages());
    let files: Vec<_> = reused.iter().chain(files).copied().collect();
    let slot = walked.last().and_then(|walked| walked.summary.slot()).unwrap_or(0);
    let linked = created.is_some_and(|created| created.linked);
    Ok(state.write_lists(target, slot, &files, options.origin().as_ref(), linked)?)
}

/// Returns whether a later run may continue this one after the error. Files of a bad archive are
/// never kept.
fn can_be_resumed(options: &Options, error: &UnpackError) -> bool {
    options.resumes() && error.family() != Family::BadArchive
}

/// Decides whether complete files stay for a later run that resumes.
fn keep(staging: &mut Staging, keep: bool) {
    if staging.keep(keep) {
        tracing::warn!(
            "complete files stay in the staging directory, for the next run that resumes"
        );
    }
}

/// Waits for the end of a pause.
fn wait_while_paused(options: &Options, cancel: &CancelToken) -> Result<(), UnpackError> {
    let Some(pace) = &options.pass.neighbour.pace else { return Ok(()) };
    pace.wait_while_paused(|| cancel.is_cancelled());
    if cancel.is_cancelled() { Err(UnpackError::CANCELLED) } else { Ok(()) }
}
