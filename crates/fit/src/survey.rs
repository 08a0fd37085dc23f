//! Survey of archives: determines or estimates the size of their content.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use unsnap_decode::{Basis, Effort, Reads, Untold, survey};
use unsnap_index::Index;
use unsnap_pass::{Anywhere, Handles, Options, length_by_seek_table, reconcile_with_seek_table};
use unsnap_source::ArchiveFile;

use crate::estimate::{self, Members, Need};

/// The file of an archive, unless it is a stream, and its index, if it has one.
pub type Source<'a> = (Option<&'a ArchiveFile>, Option<&'a Index>);

/// What is known of an archive on a server before it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Length of the archive in bytes.
    pub bytes: u64,
    /// Device number of the file system on which it must be kept.
    pub kept_on: Option<u64>,
}

/// Time for a walk over the headers of all frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderWalk {
    /// No walk: samples only.
    No,
    /// This time; `None` for a time that grows with the archive ([`Effort::of`]).
    For(Option<Duration>),
    /// As long as the walk takes.
    Whole,
}

/// Result of a survey. The error is a message that says why the size is unknown.
pub(crate) type SurveyResult = Result<Surveyed, &'static str>;

/// Size and needs of an archive, or of several.
#[derive(Clone, Debug)]
pub(crate) struct Surveyed {
    /// Number of decoded bytes.
    pub raw_bytes: u64,
    /// Basis of this number; the least certain one of all archives.
    pub basis: Basis,
    /// Reason why frame headers did not give or confirm the number.
    pub untold: Option<Untold>,
    /// Space on a disk.
    pub need: Need,
    /// Statistics of the survey's reads.
    pub reads: Reads,
    /// Messages about ignored seek tables.
    pub warnings: Vec<String>,
}

/// Decides whether a walk over headers goes on.
#[derive(Clone, Copy)]
pub(crate) enum GoOn<'a> {
    /// Until the run is cancelled. It waits for the walk, whose progress is shown.
    Shown(&'a Handles),
    /// Until the run, which goes on meanwhile, has ended or is cancelled.
    Beside(&'a Handles, &'a AtomicBool),
}

impl GoOn<'_> {
    /// Returns whether the walk goes on.
    pub fn is_on(self) -> bool {
        match self {
            Self::Shown(handles) => !handles.cancel.is_cancelled(),
            Self::Beside(handles, ended) => {
                !ended.load(Ordering::Acquire) && !handles.cancel.is_cancelled()
            }
        }
    }

    fn after(self, walked_bytes: u64, archive_bytes: u64) -> bool {
        if let Self::Shown(handles) = self {
            handles.progress.walk(walked_bytes, archive_bytes);
        }
        self.is_on()
    }
}

/// Parameters of surveys.
#[derive(Clone, Copy)]
pub(crate) struct Surveyor<'a> {
    pub options: &'a Options,
    pub go_on: GoOn<'a>,
    /// Whether storages go to directories of their own.
    pub split_accounts: bool,
}

impl Surveyor<'_> {
    /// Surveys an archive. An index is exact, since it lists every entry.
    pub fn archive(&self, source: &Source<'_>, walk: HeaderWalk) -> SurveyResult {
        match source {
            (_, Some(index)) => Ok(self.index(index)),
            (Some(file), None) => {
                self.file(file, walk).ok_or("the archive does not tell the size of its content")
            }
            (None, None) => Err("the size of a stream is not known in advance"),
        }
    }

    fn index(&self, index: &Index) -> Surveyed {
        let need = estimate::need_of(index.entries.entries(), self.split_accounts);
        let (raw_bytes, basis) = (index.frames.raw_bytes(), Basis::Decoded);
        let reads = Reads::default();
        Surveyed { raw_bytes, basis, untold: None, need, reads, warnings: Vec::new() }
    }

    fn file(&self, file: &ArchiveFile, walk: HeaderWalk) -> Option<Surveyed> {
        let Self { options, go_on, split_accounts } = *self;
        let mut warnings = Vec::new();
        let by_table = length_by_seek_table(file, options.io.index, &mut warnings);
        let mut members = Members::new(options.limits.tar);
        let default = Effort::of(file.size());
        let effort = Effort {
            whole_bytes_max: options.tuning.survey_whole_bytes.unwrap_or(default.whole_bytes_max),
            walk_time: match walk {
                HeaderWalk::No => Some(Duration::ZERO),
                HeaderWalk::For(time) => time.or(default.walk_time),
                HeaderWalk::Whole => None,
            },
            go_on: &|walked_bytes| go_on.after(walked_bytes, file.size()),
        };
        let archive = Anywhere(file);
        let survey = survey(&archive, file.size(), &options.limits.decode, &effort, &mut members);
        let surveyed = survey.raw_bytes?;
        let (raw_bytes, basis) = reconcile_with_seek_table(surveyed, by_table, &mut warnings);
        let need = members.need(raw_bytes, basis, split_accounts)?;
        // A table that agrees with the samples is as good as a walk.
        let untold = survey.untold.filter(|_| by_table != Some(raw_bytes));
        Some(Surveyed { raw_bytes, basis, untold, need, reads: survey.reads, warnings })
    }
}

impl Surveyed {
    /// Returns the sum for archives that are unpacked together: a full one, and its incremental
    /// one.
    pub fn all(each: &[SurveyResult]) -> SurveyResult {
        let [first, others @ ..] = each else { return Err("there is no archive") };
        others.iter().try_fold(first.clone()?, |sum, other| {
            Ok(sum.with_incremental(other.as_ref().map_err(|reason| *reason)?))
        })
    }

    /// Returns whether the number of decoded bytes is certain.
    pub fn is_confirmed(&self) -> bool {
        self.basis != Basis::Sampled && self.untold.is_none()
    }

    /// Adds the reads of an earlier survey.
    pub fn after(mut self, reads: Reads) -> Self {
        self.reads = self.reads.plus(reads);
        self
    }

    fn with_incremental(mut self, other: &Self) -> Self {
        self.warnings.extend(other.warnings.iter().cloned());
        Self {
            raw_bytes: self.raw_bytes.saturating_add(other.raw_bytes),
            basis: self.basis.max(other.basis),
            // The full archive is the larger one, so its reason counts.
            untold: self.untold.or(other.untold),
            need: self.need.with_incremental(&other.need),
            reads: self.reads.plus(other.reads),
            warnings: self.warnings,
        }
    }
}
