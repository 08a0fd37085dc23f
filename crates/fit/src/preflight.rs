//! The check before anything is written: does the archive fit?
//!
//! A [`survey`](unsnap_decode::survey()) of the archive says how much it holds, exactly or by an
//! estimate; the file systems say how much is free. A run that cannot fit is refused at once, and not
//! after an hour of writing. Figures that are exact refuse only what could not have fitted: the file
//! system's own overhead is not counted. Estimates get a margin, and doubtful cases only a warning.
//!
//! | archive | what is exact |
//! |---|---|
//! | small, or with an index | everything: every entry is seen |
//! | large, with a seek table | the length of the tar stream |
//! | large, all frames declare their sizes | the same, once all headers have been walked |
//! | any other | nothing: samples |
//!
//! Samples come first. The walk over all headers, which reads a block for every 40 KB of the archive,
//! is only made where the samples leave a doubt, or where the operator asks for it. Only tar headers
//! say how long each file is, so the space that a large archive's files take is always estimated from
//! the length of the stream.
//!
//! A seek table is checked against everything else that is known of the archive. One that lies costs
//! a wrong estimate and nothing else: decoding does not use it. On file systems that compress, more
//! may fit than they say: [`PreflightMode::Off`] is for them, and for estimates that are wrong.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use unsnap_decode::{Basis, Untold};
use unsnap_pass::{Handles, Options, millis};

use crate::{
    FileSystem, FileSystemReport, FitError, Free, PreflightReport, Resource, Shortage, Watch,
    needed::{Needed, Verdict},
    survey::{HeaderWalk, Source, Surveyed, Surveyor},
    watch::Watched,
};

/// How the check for free space is made. An archive that does not fit is refused before anything is
/// written, and the run stops before a disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreflightMode {
    /// No check: the run goes on until a disk is full.
    Off,
    /// By an estimate from samples. Where that leaves a doubt, by the headers of all frames that
    /// declare their sizes, if they can be walked in this time; `None` for two seconds and one more
    /// for each GB of the archive.
    Within(Option<Duration>),
    /// By the headers of all frames that declare their sizes, however long the walk takes.
    Exact,
}

impl Default for PreflightMode {
    fn default() -> Self {
        Self::Within(None)
    }
}

/// How long to wait for the space of files that were removed. XFS gives it back in the background
/// (Linux 5.14 and later), and `statfs` does not wait for that. A guess.
const GIVEN_BACK_AFTER: Duration = Duration::from_secs(30);
const GIVEN_BACK_POLL: Duration = Duration::from_millis(20);

/// Stands for the free space of a file system that does not say it.
const UNTOLD_BYTES: u64 = 1 << 56;

/// Why headers were not walked: nothing depended on it.
const AMPLE: &str = "samples suffice, there is ample room";

/// How there is room for an archive.
#[derive(Debug, Default)]
pub enum Room {
    /// Beside the existing files, or nobody knows.
    #[default]
    Beside,
    /// Only once the old files at the destinations are gone: until then, this is missing. The check
    /// is made again afterwards.
    WhenCleared(Box<Shortage>),
}

/// Files of an interrupted run that stay in a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The question whether archives fit into their destinations.
pub struct Question<'a> {
    /// The archives.
    pub archives: Vec<Source<'a>>,
    /// The file systems of the destinations; the output is the first destination.
    pub systems: &'a [FileSystem],
    /// Destinations among which storages are spread; 0 if they stay in the output.
    pub accounts: usize,
    /// Whether they are spread by free space, and not evenly.
    pub by_space: bool,
    /// Files that are there already, for each destination; empty if none are.
    pub kept: &'a [Kept],
    /// How the question is answered.
    pub mode: PreflightMode,
    /// How archives are read.
    pub options: &'a Options,
    /// To show progress and to stop.
    pub handles: &'a Handles,
}

/// The answer: what was found out before the run.
#[derive(Debug)]
pub struct Preflight {
    /// For the report.
    pub report: PreflightReport,
    needs: Option<Vec<(u64, Option<u64>)>>,
}

impl Preflight {
    /// Finds room, or refuses the run. `clears`: whether `fits` may clear old files away, so that
    /// room may be found after it. `fits` is called before anything is written.
    pub fn make_room<E: From<FitError>>(
        question: &Question<'_>,
        clears: bool,
        fits: impl FnOnce(Room) -> Result<(), E>,
    ) -> Result<Self, E> {
        match question.answer() {
            Err(FitError::NoSpace(shortage)) if clears => {
                fits(Room::WhenCleared(shortage))?;
                let since = Instant::now();
                loop {
                    match question.answer() {
                        Err(FitError::NoSpace(_))
                            if since.elapsed() < GIVEN_BACK_AFTER
                                && !question.handles.cancel.is_cancelled() =>
                        {
                            thread::sleep(GIVEN_BACK_POLL);
                        }
                        result => return Ok(result?),
                    }
                }
            }
            Ok(answer) => fits(Room::Beside).map(|()| answer),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what ends the run before a disk is full; `None` if no check is wanted.
    /// `in_flight_bytes`: the most that segments hold.
    pub fn watch(
        &self,
        systems: Vec<FileSystem>,
        in_flight_bytes: usize,
        options: &Options,
    ) -> Option<Arc<Watch>> {
        let mut needs = self.needs.as_ref()?.iter().copied();
        let watched = systems.into_iter().map(|system| Watched::new(system, needs.next()));
        let (in_flight, hidden) = (in_flight_bytes as u64, options.tuning.hidden_bytes);
        Some(Arc::new(Watch::new(watched.collect(), in_flight, hidden.unwrap_or(0))))
    }
}

impl Question<'_> {
    /// Compares what the archives need with what the file systems have.
    fn answer(&self) -> Result<Preflight, FitError> {
        if self.mode == PreflightMode::Off {
            let report = PreflightReport::skipped("the check is switched off");
            return Ok(Preflight { report, needs: None });
        }
        let since = Instant::now();
        let free: Vec<Free> =
            self.systems.iter().map(FileSystem::free).collect::<Result<_, _>>()?;
        let (surveyed, walked) = self.survey(&free);
        let mut report = match &surveyed {
            Ok(surveyed) => PreflightReport::on(surveyed, walked),
            Err(reason) => PreflightReport::skipped(reason),
        };
        let (mut needs, mut shortages) = (Vec::new(), Vec::new());
        for (system, on_it) in self.systems.iter().zip(&free) {
            let surveyed = surveyed.as_ref().ok();
            let needed = surveyed.map(|surveyed| self.needed(surveyed, system, on_it, &free));
            shortages.extend(report.add(system, on_it, needed.as_ref()));
            needs.extend(needed.map(|needed| needed.least()));
        }
        if let Some(shortage) = Shortage::of_all(shortages) {
            return Err(FitError::NoSpace(Box::new(shortage)));
        }
        report.elapsed_ms = millis(since.elapsed());
        tracing::debug!(?report, "preflight");
        Ok(Preflight { report, needs: Some(needs) })
    }

    /// Surveys the archives, with a walk over all headers if samples leave a doubt. Also returns
    /// whether headers were walked.
    fn survey(&self, free: &[Free]) -> (Result<Surveyed, &'static str>, bool) {
        let Self { options, handles, .. } = *self;
        let surveyor = Surveyor { options, handles, split_accounts: self.accounts > 0 };
        let time = match self.mode {
            PreflightMode::Exact => return (surveyor.all(&self.archives, HeaderWalk::Whole), true),
            PreflightMode::Within(time) => time,
            PreflightMode::Off => None,
        };
        let sampled = surveyor.all(&self.archives, HeaderWalk::No);
        let in_doubt = sampled.as_ref().is_ok_and(|sampled| {
            let ample = |(system, on_it)| self.needed(sampled, system, on_it, free).is_ample(on_it);
            sampled.untold == Some(Untold::NoTime) && !self.systems.iter().zip(free).all(ample)
        });
        if in_doubt {
            return (surveyor.all(&self.archives, HeaderWalk::For(time)), true);
        }
        (sampled, false)
    }

    fn needed(
        &self,
        surveyed: &Surveyed,
        system: &FileSystem,
        on_it: &Free,
        free: &[Free],
    ) -> Needed {
        let room = |free: &Free| free.bytes.unwrap_or(UNTOLD_BYTES).min(UNTOLD_BYTES);
        let rooms = self.systems.iter().zip(free).filter(|(system, _)| system.holds_accounts());
        let whole = rooms.map(|(_, free)| room(free)).sum::<u64>();
        let part = self.by_space.then_some((room(on_it), whole));
        let Surveyed { need, basis, .. } = surveyed;
        let needed = Needed::on(system, on_it, need, *basis, self.accounts, part);
        needed.without(system, self.kept, on_it.unit_bytes)
    }
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
    fn on(surveyed: &Surveyed, walked: bool) -> Self {
        let exact = surveyed.basis == Basis::Decoded;
        Self {
            basis: basis_name(surveyed.basis),
            sampled_since: surveyed
                .untold
                .map(|untold| if walked { untold_reason(untold) } else { AMPLE }),
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
