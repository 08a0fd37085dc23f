//! Preflight: the check for free space before anything is written.
//!
//! A [`survey`](unsnap_decode::survey()) yields the size of the archive's content, exactly or as an
//! estimate. The file systems report their free space. An archive that cannot fit is refused at
//! once, and not after an hour of writing. Exact figures refuse only archives that certainly do not
//! fit: the file system's own overhead is not counted. Estimates get a margin, and doubtful cases
//! only a warning.
//!
//! | archive | exact figures |
//! |---|---|
//! | small, or with an index | all of them: every entry is seen |
//! | large, with a seek table | length of the tar stream |
//! | large, all frames declare their sizes | the same, once all headers have been walked |
//! | other | none: samples |
//!
//! Samples come first. The walk over all headers reads a block for every 40 KB of the archive. It
//! is made only where samples leave a doubt, or where the operator asks for it. If the archive fits
//! by the samples and their margin, it can be made beside the run ([`BesideWalk`]): until it refuses
//! the archive, the watch keeps the disk from filling up. Only tar headers
//! contain the sizes of files, so the space for a large archive's files is always estimated from
//! the length of the stream.
//!
//! A seek table is checked against all other facts about the archive. A wrong table only leads to a
//! wrong estimate, since decoding does not use it. File systems that compress may hold more than
//! their free space; [`PreflightMode::Off`] is for them, and for wrong estimates.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use unsnap_decode::{Basis, Reads, Untold};
use unsnap_pass::{Handles, Options, millis};

use crate::{
    BesideWalk, FileSystem, FileSystemReport, FitError, Free, PreflightReport, Resource, Shortage,
    Watch,
    beside::Doubt,
    needed::{Kept, Needed, Verdict},
    survey::{GoOn, HeaderWalk, Source, SurveyResult, Surveyed, Surveyor},
    watch::Watched,
};

/// Extent of the check for free space. With any check, an archive that does not fit is refused
/// before anything is written, and the run stops before a disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreflightMode {
    /// No check: the run continues until a disk is full. What is to stay free for other processes
    /// stays free all the same.
    Off,
    /// Estimates from samples. Where these leave a doubt, walks the headers of all frames, if they
    /// declare their sizes, for at most this time; `None` for two seconds plus one second per GB of
    /// the archive.
    Within(Option<Duration>),
    /// Walks the headers of all frames that declare their sizes, however long that takes.
    Exact,
}

impl Default for PreflightMode {
    fn default() -> Self {
        Self::Within(None)
    }
}

/// Longest wait for the space of removed files. XFS frees it in the background (Linux 5.14 and
/// later), and `statfs` does not wait for that. A guess.
const FREED_WITHIN: Duration = Duration::from_secs(30);

/// Interval between checks of the free space meanwhile. A guess.
const FREED_POLL: Duration = Duration::from_millis(20);

/// Substitute for the free space in bytes of a file system that does not report it: more than any
/// archive needs, and far from an overflow of sums.
const UNKNOWN_BYTES: u64 = 1 << 56;

/// Reason for samples where nothing depended on an exact size.
const AMPLE: &str = "samples suffice, there is ample room";

/// Result of the check for free space.
#[derive(Debug, Default)]
pub enum Room {
    /// The archive fits beside the existing files, as far as that is known.
    #[default]
    Beside,
    /// The archive fits only once the old files at the destinations are gone; until then, there is
    /// this shortage. The check is repeated afterwards.
    WhenCleared(Box<Shortage>),
}

/// The question whether archives fit into their destinations.
pub struct Question<'a> {
    /// Archives that are unpacked together: a full one, then its incremental one.
    pub archives: Vec<Source<'a>>,
    /// File systems of the destinations; the output is the first destination.
    pub systems: &'a [FileSystem],
    /// Number of destinations that share the storages; 0 if they stay in the output.
    pub accounts: usize,
    /// Whether storages are spread by free space, and not evenly.
    pub by_space: bool,
    /// Files that exist already in each destination; empty if there are none.
    pub kept: &'a [Kept],
    /// Extent of the check.
    pub mode: PreflightMode,
    /// Options for reading archives.
    pub options: &'a Options,
    /// Progress and cancellation.
    pub handles: &'a Handles,
    /// Whether headers may be walked while the run is under way, if the archives fit by samples. A
    /// run that keeps or removes files before it is refused must not do so.
    pub may_walk_beside: bool,
}

/// Answer to a [`Question`].
#[derive(Debug)]
pub struct Preflight {
    /// Part of the run's report.
    pub report: PreflightReport,
    /// Least bytes and inodes needed on each file system; empty if unknown. `None` without a check.
    needs: Option<Vec<(u64, Option<u64>)>>,
    /// Whether each file system has room for the figures and their margins of error.
    has_margin: bool,
    /// What the walk over all headers has to decide, if it is made beside the run.
    pub(crate) doubt: Option<Box<Doubt>>,
}

impl Preflight {
    /// Checks that the archives fit. Then calls `fits`, before anything is written. `clears` tells
    /// whether `fits` can remove old files. In that case it is also called on a shortage, and the
    /// check is repeated until the space of the removed files is free, for up to 30 seconds.
    ///
    /// # Errors
    ///
    /// [`FitError::NoSpace`] if the archives do not fit, [`FitError::FileSystem`] if a file system
    /// does not report its free space, and the error of `fits`.
    pub fn make_room<E: From<FitError>>(
        question: &Question<'_>,
        clears: bool,
        fits: impl FnOnce(Room) -> Result<(), E>,
    ) -> Result<Self, E> {
        let free = || question.systems.iter().map(FileSystem::free).collect();
        Self::make_room_in(question, clears, fits, free)
    }

    /// Compares the needs of the archives with the free space, and refuses nothing. Returns the
    /// figures, and the shortage for which a run would be refused unless it can clear old files.
    ///
    /// # Errors
    ///
    /// [`FitError::FileSystem`] if a file system does not report its free space.
    pub fn figures(
        question: &Question<'_>,
    ) -> Result<(PreflightReport, Option<Shortage>), FitError> {
        let free = question.systems.iter().map(FileSystem::free).collect::<Result<Vec<_>, _>>()?;
        let (answer, shortage) = question.compare(&free);
        Ok((answer.report, shortage))
    }

    /// Does what [`make_room`](Self::make_room) does, with the free space of each file system that
    /// `free` measures.
    fn make_room_in<E: From<FitError>>(
        question: &Question<'_>,
        clears: bool,
        fits: impl FnOnce(Room) -> Result<(), E>,
        mut free: impl FnMut() -> Result<Vec<Free>, FitError>,
    ) -> Result<Self, E> {
        match question.answer(&free()?) {
            Err(FitError::NoSpace(shortage)) if clears => {
                fits(Room::WhenCleared(shortage))?;
                let since = Instant::now();
                loop {
                    match question.answer(&free()?) {
                        Err(FitError::NoSpace(_))
                            if since.elapsed() < FREED_WITHIN
                                && !question.handles.cancel.is_cancelled() =>
                        {
                            thread::sleep(FREED_POLL);
                        }
                        result => return Ok(result?),
                    }
                }
            }
            Ok(answer) => fits(Room::Beside).map(|()| answer),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts the walk over all headers beside the run, if it was left for that. `stop` ends the run.
    pub fn walk_beside(&mut self, stop: impl Fn() + Send + 'static) -> Option<BesideWalk> {
        self.doubt.take().map(|doubt| BesideWalk::start(*doubt, stop))
    }

    /// Returns the watch that ends the run before a disk is full, or before less is free than is to
    /// be left to other processes. Without a check, only the latter is watched; `None` if there is
    /// nothing to watch. `in_flight_bytes` is the most that segments can hold.
    pub fn watch(
        &self,
        systems: Vec<FileSystem>,
        in_flight_bytes: usize,
        options: &Options,
    ) -> Option<Arc<Watch>> {
        let watched: Vec<_> = match &self.needs {
            Some(needs) => {
                let mut needs = needs.iter().copied();
                systems.into_iter().map(|system| Watched::new(system, needs.next())).collect()
            }
            None => {
                systems.into_iter().filter(FileSystem::keeps_some).map(Watched::unchecked).collect()
            }
        };
        if self.needs.is_none() && watched.is_empty() {
            return None;
        }
        let (in_flight, hidden) = (in_flight_bytes as u64, options.tuning.hidden_bytes);
        Some(Arc::new(Watch::new(watched, in_flight, hidden.unwrap_or(0))))
    }
}

impl Question<'_> {
    /// Refuses archives that do not fit.
    fn answer(&self, free: &[Free]) -> Result<Preflight, FitError> {
        match self.compare_beside(free, self.may_walk_beside) {
            (_, Some(shortage)) => Err(FitError::NoSpace(Box::new(shortage))),
            (answer, None) => Ok(answer),
        }
    }

    /// Compares the needs of the archives with the free space of each file system. Also returns all
    /// shortages.
    fn compare(&self, free: &[Free]) -> (Preflight, Option<Shortage>) {
        self.compare_beside(free, false)
    }

    /// Does the same. With `beside`, the walk over all headers is left for later if samples show
    /// that the archives fit.
    fn compare_beside(&self, free: &[Free], beside: bool) -> (Preflight, Option<Shortage>) {
        let since = Instant::now();
        let survey = match self.mode {
            PreflightMode::Off => {
                let report = PreflightReport::skipped("the check is switched off");
                return (Preflight { report, needs: None, has_margin: false, doubt: None }, None);
            }
            PreflightMode::Exact => {
                let survey = |source| self.surveyor().archive(source, HeaderWalk::Whole);
                let each: Vec<_> = self.archives.iter().map(survey).collect();
                Survey { all: Surveyed::all(&each), is_ample: false }
            }
            PreflightMode::Within(time) => {
                let sample = |source| self.surveyor().archive(source, HeaderWalk::No);
                let each: Vec<_> = self.archives.iter().map(sample).collect();
                let all = Surveyed::all(&each);
                let is_ample = all.as_ref().is_ok_and(|sampled| self.is_ample(sampled, free));
                let sampled = Survey { all, is_ample };
                if is_ample {
                    sampled
                } else {
                    if beside && let Some(doubt) = Doubt::about(self, &each, time, free) {
                        let (mut fit, shortage) = self.judge(&sampled, free, since);
                        if shortage.is_none() && fit.has_margin {
                            fit.doubt = Some(Box::new(doubt));
                            return (fit, None);
                        }
                    }
                    self.walked(each, time, &self.surveyor())
                }
            }
        };
        self.judge(&survey, free, since)
    }

    /// Judges the needs that a survey has found.
    pub(crate) fn judge(
        &self,
        Survey { all, is_ample }: &Survey,
        free: &[Free],
        since: Instant,
    ) -> (Preflight, Option<Shortage>) {
        let mut report = match all {
            Ok(surveyed) => PreflightReport::on(surveyed, *is_ample),
            Err(reason) => PreflightReport::skipped(reason),
        };
        let (mut needs, mut shortages) = (Vec::new(), Vec::new());
        let mut has_margin = all.is_ok();
        for (system, on_it) in self.systems.iter().zip(free) {
            let surveyed = all.as_ref().ok();
            let needed = surveyed.map(|surveyed| self.needed(surveyed, system, on_it, free));
            let (short, doubtful) = report.add(system, on_it, needed.as_ref());
            has_margin &= short.is_empty() && !doubtful;
            shortages.extend(short);
            needs.extend(needed.map(|needed| needed.least()));
        }
        report.elapsed_ms = millis(since.elapsed());
        tracing::debug!(?report, "preflight");
        let fit = Preflight { report, needs: Some(needs), has_margin, doubt: None };
        (fit, Shortage::of_all(shortages))
    }

    /// Returns the surveyor of a run that waits for it.
    fn surveyor(&self) -> Surveyor<'_> {
        let Self { options, handles, .. } = self;
        Surveyor { options, go_on: GoOn::Shown(handles), split_accounts: self.accounts > 0 }
    }

    /// Returns whether the space suffices beyond doubt, by samples.
    fn is_ample(&self, sampled: &Surveyed, free: &[Free]) -> bool {
        let ample = |(system, on_it)| self.needed(sampled, system, on_it, free).is_ample(on_it);
        self.systems.iter().zip(free).all(ample)
    }

    /// Walks all headers of the archives that have been sampled, where they may tell more.
    pub(crate) fn walked(
        &self,
        mut sampled: Vec<SurveyResult>,
        time: Option<Duration>,
        surveyor: &Surveyor<'_>,
    ) -> Survey {
        for (surveyed, source) in sampled.iter_mut().zip(&self.archives) {
            // Headers may tell the size even where samples do not.
            let reads = match surveyed {
                Ok(sampled) if sampled.untold == Some(Untold::NoTime) => sampled.reads,
                Ok(_) => continue,
                Err(_) => Reads::default(),
            };
            let walked = surveyor.archive(source, HeaderWalk::For(time));
            *surveyed = walked.map(|walked| walked.after(reads));
        }
        Survey { all: Surveyed::all(&sampled), is_ample: false }
    }

    /// Returns the needs on one file system.
    fn needed(
        &self,
        surveyed: &Surveyed,
        system: &FileSystem,
        on_it: &Free,
        free: &[Free],
    ) -> Needed {
        let room = |free: &Free| free.bytes.unwrap_or(UNKNOWN_BYTES).min(UNKNOWN_BYTES);
        let rooms = self.systems.iter().zip(free).filter(|(system, _)| system.holds_accounts());
        let whole = rooms.map(|(_, free)| room(free)).sum::<u64>();
        // Where none has room, nothing would be needed by this rule.
        let part = (self.by_space && whole > 0).then_some((room(on_it), whole));
        // The size of a single frame is no better than an estimate until a walk confirms it.
        let basis = if surveyed.is_confirmed() { surveyed.basis } else { Basis::Sampled };
        let needed = Needed::on(system, on_it, &surveyed.need, basis, self.accounts, part);
        needed.without(system, self.kept, on_it.unit_bytes)
    }
}

/// Result of surveying all archives.
pub(crate) struct Survey {
    pub all: SurveyResult,
    /// Whether samples left no doubt.
    pub is_ample: bool,
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
    /// Begins a report. `is_ample` tells whether samples left no doubt.
    fn on(surveyed: &Surveyed, is_ample: bool) -> Self {
        let exact = surveyed.basis == Basis::Decoded;
        let untold = surveyed.untold.filter(|_| surveyed.basis == Basis::Sampled);
        Self {
            basis: basis_name(surveyed.basis),
            sampled_since: untold.map(|untold| match untold {
                Untold::NoTime if is_ample => AMPLE,
                untold => untold_reason(untold),
            }),
            tar_bytes: Some(surveyed.raw_bytes),
            tar_bytes_exact: surveyed.is_confirmed(),
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

    /// Creates the report of a check that was not possible or not requested.
    fn skipped(reason: &str) -> Self {
        Self { basis: "unknown", skipped: Some(reason.to_owned()), ..Self::default() }
    }

    /// Adds a file system: its free space and the needs there. Returns its shortages, and whether
    /// it may have another.
    fn add(
        &mut self,
        system: &FileSystem,
        free: &Free,
        needed: Option<&Needed>,
    ) -> (Vec<Shortage>, bool) {
        let inodes = needed.and_then(|needed| needed.inodes);
        self.file_systems.push(FileSystemReport {
            destinations: system.paths.iter().map(|path| path.display().to_string()).collect(),
            bytes_needed: needed.map(|needed| needed.bytes),
            bytes_available: free.bytes,
            min_free_bytes: free.min_free.map_or(0, |kept| kept.bytes),
            inodes_needed: inodes,
            inodes_available: free.inodes,
        });
        let (mut shortages, mut doubtful) = (Vec::new(), false);
        let Some(needed) = needed else { return (shortages, doubtful) };
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
                min_free: free.min_free.filter(|_| resource == Resource::Bytes),
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
                    doubtful = true;
                }
                Verdict::Short => shortages.push(shortage),
            }
        }
        (shortages, doubtful)
    }
}

#[cfg(test)]
mod tests;
