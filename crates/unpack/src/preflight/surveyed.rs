//! What archives take, as far as a look at them tells.

use unsnap_decode::{Basis, Effort, Reads, Untold, survey};
use unsnap_index::Index;
use unsnap_source::ArchiveFile;

use super::accounts_directories;
use crate::{
    CancelToken, Config, PreflightMode, Progress,
    members::{self, Members, Need},
    parts::Anywhere,
};

/// An archive, and its index.
pub(super) type Source<'a> = (Option<&'a ArchiveFile>, Option<&'a Index>);

/// What archives take.
pub(super) struct Surveyed {
    /// Decoded.
    pub raw_bytes: u64,
    /// How the least known of them is known.
    pub basis: Basis,
    /// Why headers did not tell it.
    pub untold: Option<Untold>,
    /// On a disk.
    pub need: Need,
    /// Reads that it took, and their bytes.
    pub reads: Reads,
}

impl Surveyed {
    /// What an index says is exact: every entry is in it.
    fn by_index(index: &Index, config: &Config) -> Self {
        let need = members::need_of(index.entries.entries(), accounts_directories(config) > 0);
        let (raw_bytes, basis) = (index.frames.raw_bytes(), Basis::Decoded);
        Self { raw_bytes, basis, untold: None, need, reads: Reads::default() }
    }

    fn of(
        file: &ArchiveFile,
        config: &Config,
        (progress, cancel): (&Progress, &CancelToken),
    ) -> Option<Self> {
        let mut members = Members::new(config.limits.tar);
        let wanted = Effort::of(file.size());
        let effort = Effort {
            whole_bytes_max: config.tuning.survey_whole_bytes.unwrap_or(wanted.whole_bytes_max),
            walk_time: match config.preflight {
                PreflightMode::Within(time) => time.or(wanted.walk_time),
                PreflightMode::Off | PreflightMode::Exact => None,
            },
            go_on: &|walked_bytes| {
                progress.walk(walked_bytes, file.size());
                !cancel.is_cancelled()
            },
        };
        let archive = Anywhere(file);
        let survey = survey(&archive, file.size(), &config.limits.decode, &effort, &mut members);
        let (raw_bytes, basis) = survey.raw_bytes?;
        let need = members.need(raw_bytes, basis, accounts_directories(config) > 0)?;
        Some(Self { raw_bytes, basis, untold: survey.untold, need, reads: survey.reads })
    }

    fn with_incremental(self, other: &Self) -> Self {
        Self {
            raw_bytes: self.raw_bytes.saturating_add(other.raw_bytes),
            basis: self.basis.max(other.basis),
            untold: self.untold.or(other.untold),
            need: self.need.with_incremental(&other.need),
            reads: self.reads.plus(other.reads),
        }
    }
}

/// What all of them take together.
pub(super) fn survey_archives<'a>(
    archives: impl Iterator<Item = Source<'a>>,
    config: &Config,
    handles: (&Progress, &CancelToken),
) -> Result<Surveyed, &'static str> {
    let mut sum: Option<Surveyed> = None;
    for (archive, index) in archives {
        let surveyed = if let Some(index) = index {
            Surveyed::by_index(index, config)
        } else {
            let file = archive.ok_or("a stream does not tell how much it holds")?;
            Surveyed::of(file, config, handles)
                .ok_or("the archive does not tell how much it holds")?
        };
        sum = Some(match sum {
            Some(before) => before.with_incremental(&surveyed),
            None => surveyed,
        });
    }
    sum.ok_or("there is no archive")
}
