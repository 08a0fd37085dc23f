//! The walk over all headers beside a run.
//!
//! Samples have shown that the archives fit, but less than half as much space again is free. The
//! walk over the headers of all frames decides, while the archives are being unpacked. If they do
//! not fit, it ends the run, which removes its files. Meanwhile the [`Watch`](crate::Watch) looks at
//! the free space as in any run, so less is never left than it allows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use unsnap_decode::Untold;
use unsnap_pass::{Handles, Options};
use unsnap_source::ArchiveFile;

use crate::{
    FileSystem, FitError, Free, Kept, PreflightMode, PreflightReport, Question, Shortage, Source,
    survey::{GoOn, SurveyResult, Surveyed, Surveyor},
};

/// What a walk over all headers needs to decide whether archives fit. All of it is as it was before
/// the first byte was written.
#[derive(Debug)]
pub(crate) struct Doubt {
    /// Each archive and what samples have shown of it; `None` if headers cannot tell more.
    archives: Vec<(Option<ArchiveFile>, Surveyed)>,
    time: Option<Duration>,
    systems: Vec<FileSystem>,
    pub free: Vec<Free>,
    accounts: usize,
    by_space: bool,
    kept: Vec<Kept>,
    options: Options,
    handles: Handles,
}

impl Doubt {
    /// Returns the doubt that samples have left; `None` if headers cannot remove it, or not beside
    /// the run.
    pub fn about(
        question: &Question<'_>,
        sampled: &[SurveyResult],
        time: Option<Duration>,
        free: &[Free],
    ) -> Option<Self> {
        let archive = |((file, _), sampled): (&Source<'_>, &SurveyResult)| {
            let sampled = sampled.as_ref().ok()?.clone();
            let file = file.filter(|_| sampled.untold == Some(Untold::NoTime));
            let file = file.map(ArchiveFile::again).transpose().ok()?;
            Some((file, sampled))
        };
        let archives = question.archives.iter().zip(sampled).map(archive);
        let archives = archives.collect::<Option<Vec<_>>>()?;
        archives.iter().any(|(file, _)| file.is_some()).then(|| Self {
            archives,
            time,
            systems: question.systems.to_vec(),
            free: free.to_vec(),
            accounts: question.accounts,
            by_space: question.by_space,
            kept: question.kept.to_vec(),
            options: question.options.clone(),
            handles: question.handles.clone(),
        })
    }

    /// Walks the headers. Returns `None` if it was ended before, or if the headers told nothing.
    fn decide(&self, ended: &AtomicBool) -> Option<(PreflightReport, Option<Shortage>)> {
        let since = Instant::now();
        let Self { systems, accounts, by_space, kept, options, handles, .. } = self;
        let files = self.archives.iter().map(|(file, _)| (file.as_ref(), None));
        let question = Question {
            archives: files.collect(),
            announced: Vec::new(),
            systems,
            accounts: *accounts,
            by_space: *by_space,
            kept,
            mode: PreflightMode::Within(self.time),
            options,
            handles,
            may_walk_beside: false,
        };
        let go_on = GoOn::Beside(handles, ended);
        let surveyor = Surveyor { options, go_on, split_accounts: *accounts > 0 };
        let sampled = self.archives.iter().map(|(_, sampled)| Ok(sampled.clone())).collect();
        let survey = question.walked(sampled, self.time, &surveyor);
        if !go_on.is_on() || survey.all.is_err() {
            return None;
        }
        let judged = question.judge(&survey, &self.free, since);
        Some((judged.report, judged.shortage))
    }
}

/// The walk over all headers beside a run, on a thread of its own.
pub struct BesideWalk {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<Decided>>>,
}

/// What the walk has decided.
pub(crate) struct Decided {
    /// The check's report, now by headers.
    pub report: PreflightReport,
    /// The shortage for which the run was stopped, if any.
    pub shortage: Option<FitError>,
}

impl BesideWalk {
    /// Starts the walk. `stop` ends the run, which is called if the archives do not fit. If the
    /// process may start no more threads, the samples decide.
    pub(crate) fn start(doubt: Doubt, stop: impl Fn() + Send + 'static) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let work = move || {
            let (report, shortage) = doubt.decide(&over)?;
            let shortage = shortage.map(|shortage| FitError::NoSpace(Box::new(shortage)));
            if shortage.is_some() {
                stop();
            }
            Some(Decided { report, shortage })
        };
        let thread = thread::Builder::new().name("unsnap-headers".to_owned()).spawn(work).ok();
        Self { ended, thread }
    }

    /// Ends the walk, if it still runs. Returns what it has decided, if anything.
    pub(crate) fn finish(mut self) -> Option<Decided> {
        self.end()
    }

    fn end(&mut self) -> Option<Decided> {
        self.ended.store(true, Ordering::Release);
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for BesideWalk {
    fn drop(&mut self) {
        self.end();
    }
}
