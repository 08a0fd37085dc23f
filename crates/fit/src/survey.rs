//! Survey of archives: how much they hold, as far as a look at them can say.

use std::time::Duration;

use unsnap_decode::{Basis, Effort, Reads, Untold, survey};
use unsnap_index::Index;
use unsnap_pass::{Anywhere, Handles, Options, length_by_seek_table, reconcile_with_seek_table};
use unsnap_source::ArchiveFile;

use crate::estimate::{self, Members, Need};

/// An archive, unless it is a stream, and its index, if it has one.
pub type Source<'a> = (Option<&'a ArchiveFile>, Option<&'a Index>);

/// How long the headers of all frames may be walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderWalk {
    /// Not at all: samples only.
    No,
    /// This long; `None` for a time that grows with the archive ([`Effort::of`]).
    For(Option<Duration>),
    /// To the end.
    Whole,
}

/// What archives hold.
pub(crate) struct Surveyed {
    /// Decoded bytes.
    pub raw_bytes: u64,
    /// The least certain basis of these.
    pub basis: Basis,
    /// Why headers did not give the size.
    pub untold: Option<Untold>,
    /// Space on a disk.
    pub need: Need,
    /// Reads that the survey made, and their bytes.
    pub reads: Reads,
    /// What was ignored.
    pub warnings: Vec<String>,
}

/// How archives are surveyed.
#[derive(Clone, Copy)]
pub(crate) struct Surveyor<'a> {
    pub options: &'a Options,
    pub handles: &'a Handles,
    /// Whether storages go to directories of their own.
    pub split_accounts: bool,
}

impl Surveyor<'_> {
    /// Surveys archives that are unpacked together: a full one, and an incremental one. An error
    /// says in words why their size is unknown.
    pub fn all(&self, archives: &[Source<'_>], walk: HeaderWalk) -> Result<Surveyed, &'static str> {
        let mut sum: Option<Surveyed> = None;
        for (archive, index) in archives {
            let surveyed = if let Some(index) = index {
                self.index(index)
            } else {
                let file = archive.ok_or("the size of a stream is not known beforehand")?;
                self.archive(file, walk).ok_or("the archive does not say how much it holds")?
            };
            sum = Some(match sum {
                Some(before) => before.with_incremental(surveyed),
                None => surveyed,
            });
        }
        sum.ok_or("there is no archive")
    }

    /// An index is exact: it lists every entry.
    fn index(&self, index: &Index) -> Surveyed {
        let need = estimate::need_of(index.entries.entries(), self.split_accounts);
        let (raw_bytes, basis) = (index.frames.raw_bytes(), Basis::Decoded);
        let reads = Reads::default();
        Surveyed { raw_bytes, basis, untold: None, need, reads, warnings: Vec::new() }
    }

    fn archive(&self, file: &ArchiveFile, walk: HeaderWalk) -> Option<Surveyed> {
        let Self { options, handles, split_accounts } = *self;
        let mut warnings = Vec::new();
        let by_table = length_by_seek_table(file, options.io.index, &mut warnings);
        let mut members = Members::new(options.limits.tar);
        let default = Effort::of(file.size());
        let effort = Effort {
            whole_bytes_max: options.tuning.survey_whole_bytes.unwrap_or(default.whole_bytes_max),
            walk_time: match walk {
                HeaderWalk::No => Some(Duration::ZERO),
                // The table says at once what the headers would say.
                HeaderWalk::For(_) if by_table.is_some() => Some(Duration::ZERO),
                HeaderWalk::For(time) => time.or(default.walk_time),
                HeaderWalk::Whole => None,
            },
            go_on: &|walked_bytes| {
                handles.progress.walk(walked_bytes, file.size());
                !handles.cancel.is_cancelled()
            },
        };
        let archive = Anywhere(file);
        let survey = survey(&archive, file.size(), &options.limits.decode, &effort, &mut members);
        let (raw_bytes, basis) =
            reconcile_with_seek_table(survey.raw_bytes?, by_table, &mut warnings);
        let need = members.need(raw_bytes, basis, split_accounts)?;
        let untold = survey.untold.filter(|_| basis == Basis::Sampled);
        Some(Surveyed { raw_bytes, basis, untold, need, reads: survey.reads, warnings })
    }
}

impl Surveyed {
    fn with_incremental(mut self, other: Self) -> Self {
        self.warnings.extend(other.warnings);
        Self {
            raw_bytes: self.raw_bytes.saturating_add(other.raw_bytes),
            basis: self.basis.max(other.basis),
            untold: self.untold.or(other.untold),
            need: self.need.with_incremental(&other.need),
            reads: self.reads.plus(other.reads),
            warnings: self.warnings,
        }
    }
}
