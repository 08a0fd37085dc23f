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
//! | on a server | none: the length that the server announces, half of which its content takes at least |
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

use unsnap_pass::Options;

use crate::{
    BesideWalk, FileSystem, FitError, Free, PreflightMode, PreflightReport, Question, Shortage,
    Watch,
    beside::{Decided, Doubt},
    question::{Judged, Survey},
    survey::{HeaderWalk, Surveyed},
    watch::Watched,
};

/// Longest wait for the space of removed files. XFS frees it in the background (Linux 5.14 and
/// later), and `statfs` does not wait for that. A guess.
const FREED_WITHIN: Duration = Duration::from_secs(30);

/// Interval between checks of the free space meanwhile. A guess.
const FREED_POLL: Duration = Duration::from_millis(20);

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

/// Answer to a [`Question`].
#[derive(Debug)]
pub struct Preflight {
    /// Part of the run's report.
    pub report: PreflightReport,
    /// Least bytes and inodes needed on each file system; empty if unknown. `None` without a check.
    needs: Option<Vec<(u64, Option<u64>)>>,
    /// What the walk over all headers has to decide, if it is made beside the run.
    pub(crate) doubt: Option<Box<Doubt>>,
}

impl Preflight {
    /// Separates the answer from the shortages.
    fn of(Judged { report, needs, shortage, .. }: Judged) -> (Self, Option<Shortage>) {
        (Self { report, needs: Some(needs), doubt: None }, shortage)
    }

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

    /// Ends the walk beside the run, and takes what it has decided: its report, and the shortage for
    /// which it has stopped the run. A run that was complete before has proven that the archives
    /// fit.
    ///
    /// # Errors
    ///
    /// The error of `run`, or [`FitError::NoSpace`] if the walk was its cause.
    pub fn settle<T, E: From<FitError>>(
        &mut self,
        walk: Option<BesideWalk>,
        run: Result<T, E>,
    ) -> Result<T, E> {
        let Some(Decided { report, shortage }) = walk.and_then(BesideWalk::finish) else {
            return run;
        };
        // The run has waited only for the check before.
        let elapsed_ms = self.report.elapsed_ms;
        self.report = PreflightReport { elapsed_ms, ..report };
        match (run, shortage) {
            (Err(_), Some(shortage)) => Err(shortage.into()),
            (run, _) => run,
        }
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
                return (Preflight { report, needs: None, doubt: None }, None);
            }
            PreflightMode::Exact | PreflightMode::Within(_)
                if let Some(judged) = self.judge_announced(free, since) =>
            {
                return Preflight::of(judged);
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
                        let judged = self.judge(&sampled, free, since);
                        if judged.shortage.is_none() && judged.has_margin {
                            let (fit, _) = Preflight::of(judged);
                            return (Preflight { doubt: Some(Box::new(doubt)), ..fit }, None);
                        }
                    }
                    self.walked(each, time, &self.surveyor())
                }
            }
        };
        Preflight::of(self.judge(&survey, free, since))
    }
}

#[cfg(test)]
mod tests;
