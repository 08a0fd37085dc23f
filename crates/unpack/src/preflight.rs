//! Whether it fits, before anything is written.
//!
//! What is needed comes from a [`survey`](unsnap_decode::survey()) of the archive, exact or estimated; what is there, from
//! the file systems. A run that cannot fit is refused at once, and not after an hour of writing.
//! What is refused on exact figures could not have fitted: what a file system needs for itself is
//! not counted. Estimates are given a margin, and what is doubtful is only warned of.
//!
//! Exact is what of a small archive is needed, every entry of which is seen, and of one that has an index.
//! Of a large one whose frames declare their sizes the length of the tar stream is exact, to the byte:
//! by its seek table, or by a walk over all headers; what its files take of that is estimated, since only
//! tar headers say how long each of them is. The walk is brief where an estimate is enough to decide, and longer
//! where it is not, unless [`PreflightMode`] says otherwise. A seek table is held to what else is known of
//! the archive, and one that lies costs a wrong estimate and nothing else: decoding does not look at it.
//!
//! File systems that compress may hold more than they say. That, and an estimate that is wrong, is
//! what `Config::preflight` (`--no-preflight`) is for.

mod needed;
mod surveyed;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use unsnap_decode::{Basis, Untold};
use unsnap_index::Index;

use needed::{Needed, Verdict};
use surveyed::{Patience, Source, Surveyed, survey_archives};

use crate::{
    CancelToken, Config, Error, LayoutKind, PreflightMode, Progress, Resource, Shortage,
    opening::Target,
    report::{FileSystemReport, PreflightReport, millis},
    resources::Input,
    resume::Kept,
    space::{FileSystem, Free},
    watch::{Watch, Watched},
};

/// How long to wait for the space of files that were removed. XFS gives it back in the background
/// (Linux 5.14 and later), and `statfs` does not wait for that. A guess.
const GIVEN_BACK_AFTER: Duration = Duration::from_secs(30);
const GIVEN_BACK_POLL: Duration = Duration::from_millis(20);

/// What counts for the free space of a file system that does not tell it.
const UNTOLD_BYTES: u64 = 1 << 56;

/// How there is room for what is to be written.
#[derive(Debug, Default)]
pub enum Room {
    /// Beside what is there, or nobody knows.
    #[default]
    Beside,
    /// None, as long as what is to be cleared away from the destinations takes space: this is what
    /// is missing, everywhere. It is looked again when that is gone.
    WhenCleared(Box<Shortage>),
}

/// What has been found out before the run.
#[derive(Debug, Default)]
pub(crate) struct Preflight {
    /// `None` in a dry run.
    pub report: Option<PreflightReport>,
    /// Looks after the space that was found.
    watch: Option<Watch>,
}

impl Preflight {
    /// Finds room, or refuses the run. `fits`: told how there is room, before anything is written; may
    /// clear something away for it.
    pub fn make_room(
        inputs: &[Input],
        indexes: &[Option<Index>],
        target: Option<&Target>,
        kept: &[Kept],
        config: &Config,
        (progress, cancel): (&Progress, &CancelToken),
        fits: impl FnOnce(Room) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let check = || {
            let indexes = indexes.iter().map(Option::as_ref);
            let files = inputs.iter().map(Input::file).zip(indexes);
            Self::check(files, target, kept, config, (progress, cancel))
        };
        match check() {
            Err(Error::NoSpace(shortage)) if config.state.is_some() => {
                fits(Room::WhenCleared(shortage))?;
                let since = Instant::now();
                loop {
                    match check() {
                        Err(Error::NoSpace(_))
                            if since.elapsed() < GIVEN_BACK_AFTER && !cancel.is_cancelled() =>
                        {
                            thread::sleep(GIVEN_BACK_POLL);
                        }
                        result => return result,
                    }
                }
            }
            Ok(checked) => fits(Room::Beside).map(|()| checked),
            Err(error) => Err(error),
        }
    }

    /// Compares what an archive needs with what its destinations have.
    ///
    /// `archives`: `None` for a stream, of which nothing is known; with their index, if there is one.
    /// `target`: `None` in a dry run. `kept`: what is there already in each destination. Opens nothing.
    fn check<'a>(
        archives: impl Iterator<Item = Source<'a>>,
        target: Option<&Target>,
        kept: &[Kept],
        config: &Config,
        handles: (&Progress, &CancelToken),
    ) -> Result<Self, Error> {
        let Some(Target { calls, staging, .. }) = target else { return Ok(Self::default()) };
        if config.preflight == PreflightMode::Off {
            let report = Some(PreflightReport::skipped("it was not wanted"));
            return Ok(Self { report, watch: None });
        }
        let since = Instant::now();
        let mut directories = staging.directories()?;
        directories.truncate(config.destinations());
        let systems = FileSystem::of(calls, directories)?;
        let free: Vec<Free> = systems.iter().map(FileSystem::free).collect::<Result<_, _>>()?;
        // A state's storages go to where there is space (`AccountsSpread`).
        let room = |free: &Free| free.bytes.unwrap_or(UNTOLD_BYTES).min(UNTOLD_BYTES);
        let by_space = config.state.is_some() && config.accounts.len() > 1;
        let rooms = systems.iter().zip(&free).filter(|(system, _)| system.holds_accounts());
        let whole = rooms.map(|(_, free)| room(free)).sum::<u64>();
        let needed = |surveyed: &Surveyed, system: &FileSystem, free: &Free| {
            let part = by_space.then_some((room(free), whole));
            let accounts = accounts_directories(config);
            let Surveyed { need, basis, .. } = surveyed;
            let needed = Needed::on(system, free, need, *basis, accounts, part);
            needed.without(system, kept, free.unit_bytes)
        };
        let archives: Vec<Source<'a>> = archives.collect();
        let survey = |patience| survey_archives(&archives, config, patience, handles);
        let surveyed = match survey(Patience::Brief) {
            Ok(brief)
                if brief.untold == Some(Untold::NoTime)
                    && config.preflight == PreflightMode::Within(None) =>
            {
                let ample = |(system, free)| needed(&brief, system, free).is_ample(free);
                let ample = systems.iter().zip(&free).all(ample);
                if ample { Ok(brief) } else { survey(Patience::Long) }
            }
            surveyed => surveyed,
        };
        let mut report = match &surveyed {
            Ok(surveyed) => PreflightReport::on(surveyed),
            Err(reason) => PreflightReport::skipped(reason),
        };
        let (mut watched, mut shortages) = (Vec::new(), Vec::new());
        for (system, free) in systems.into_iter().zip(free) {
            let needed = surveyed.as_ref().ok().map(|surveyed| needed(surveyed, &system, &free));
            shortages.extend(report.add(&system, &free, needed.as_ref()));
            watched.push(Watched::new(system, needed.map(|needed| needed.least())));
        }
        if let Some(shortage) = Shortage::of_all(shortages) {
            return Err(Error::NoSpace(Box::new(shortage)));
        }
        report.elapsed_ms = millis(since.elapsed());
        tracing::debug!(?report, "preflight");
        let watch = Some(Watch::new(watched, config.tuning.hidden_bytes));
        Ok(Self { report: Some(report), watch })
    }

    /// What ends the run before a disk is full. `in_flight_bytes`: what segments may hold.
    pub fn watch(&mut self, in_flight_bytes: usize) -> Option<Arc<Watch>> {
        let mut watch = self.watch.take()?;
        watch.in_flight_bytes = in_flight_bytes as u64;
        Some(Arc::new(watch))
    }
}

/// Directories that storages are spread over.
fn accounts_directories(config: &Config) -> usize {
    if config.layout == LayoutKind::Snapshot { config.accounts.len() } else { 0 }
}

fn basis_name(basis: Basis) -> &'static str {
    match basis {
        Basis::Decoded => "walked",
        Basis::Declared => "declared",
        Basis::Sampled => "sampled",
    }
}

fn untold_reason(untold: Untold) -> &'static str {
    match untold {
        Untold::Undeclared => "not every frame declares its size",
        Untold::NoTime => "walking all headers would take too long",
    }
}

impl PreflightReport {
    fn on(surveyed: &Surveyed) -> Self {
        let exact = surveyed.basis == Basis::Decoded;
        Self {
            basis: basis_name(surveyed.basis),
            sampled_since: surveyed.untold.map(untold_reason),
            tar_bytes: Some(surveyed.raw_bytes),
            tar_bytes_exact: surveyed.basis != Basis::Sampled,
            bytes_needed: Some(0),
            bytes_exact: exact,
            inodes_needed: Some(0),
            inodes_exact: exact,
            reads: surveyed.reads.count,
            read_bytes: surveyed.reads.bytes,
            warnings: surveyed.warnings.clone(),
            ..Self::default()
        }
    }

    fn skipped(reason: &str) -> Self {
        Self { basis: "unknown", skipped: Some(reason.to_owned()), ..Self::default() }
    }

    /// Compares what a file system has with what is needed there. Gives what it is short of.
    fn add(&mut self, system: &FileSystem, free: &Free, needed: Option<&Needed>) -> Vec<Shortage> {
        let inodes = needed.and_then(|needed| needed.inodes);
        self.file_systems.push(FileSystemReport {
            destinations: system.paths.iter().map(|path| path.display().to_string()).collect(),
            bytes_needed: needed.map(|needed| needed.bytes),
            bytes_available: free.bytes,
            inodes_needed: inodes,
            inodes_available: free.inodes,
        });
        let mut shortages = Vec::new();
        let Some(needed) = needed else { return shortages };
        self.bytes_needed = self.bytes_needed.map(|sum| sum.saturating_add(needed.bytes));
        self.inodes_needed = self.inodes_needed.zip(inodes).map(|(sum, more)| sum + more);
        let exact = needed.exact;
        let compared = [
            (Resource::Bytes, Some(needed.bytes), needed.bytes_margin, free.bytes),
            (Resource::Inodes, inodes, needed.inodes_margin, free.inodes),
        ];
        for (resource, needed, margin, available) in compared {
            let (Some(needed), Some(available)) = (needed, available) else { continue };
            let shortage = Shortage {
                resource,
                file_system: system.name(),
                needed: Some(needed),
                exact,
                tar_bytes: self.tar_bytes.filter(|_| self.tar_bytes_exact),
                available,
                unpacking: false,
                device: system.device,
                others: Vec::new(),
            };
            match margin.judge(needed, Some(available)) {
                Verdict::Fits => {}
                Verdict::Doubtful => {
                    let warning = format!("it may not fit: {}", shortage.figures());
                    tracing::warn!("{warning}");
                    self.warnings.push(warning);
                }
                Verdict::Short => shortages.push(shortage),
            }
        }
        shortages
    }
}
