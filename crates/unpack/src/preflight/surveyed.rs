//! What archives take, as far as a look at them tells.

use std::time::Duration;

use unsnap_decode::{Basis, Effort, Reads, Untold, survey};
use unsnap_index::Index;
use unsnap_source::ArchiveFile;

use super::accounts_directories;
use crate::{
    CancelToken, Config, PreflightMode, Progress,
    members::{self, Members, Need},
    parts::{Anywhere, hold_to_seek_table, length_by_seek_table},
};

/// An archive, and its index.
pub(super) type Source<'a> = (Option<&'a ArchiveFile>, Option<&'a Index>);

/// How long headers may be walked, if nobody has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// So that the run is hardly later for it: for what is written down, and not needed to decide.
    Brief,
    /// [`Effort::of`]: an estimate does not tell whether the archive fits.
    Long,
}

impl Patience {
    /// A second, and 50 ms more for each GB: 2 percent of what the fastest unpacking of a large archive takes,
    /// which reads about 0.4 GB a second of it. 1.7 GB took 0.8 to 1 s on the development machine's disk, and
    /// mainnet's 110 GB have 6.5 s, which is what an NVMe disk that carries out 550,000 small reads a second
    /// takes; a slower one is found out after an eighth of it.
    fn walk_time(self, archive_bytes: u64) -> Option<Duration> {
        match self {
            Self::Brief => Some(Duration::from_millis(1000 + archive_bytes / 20_000_000)),
            Self::Long => Effort::of(archive_bytes).walk_time,
        }
    }
}

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
    /// What was passed over.
    pub warnings: Vec<String>,
}

impl Surveyed {
    /// What an index says is exact: every entry is in it.
    fn by_index(index: &Index, config: &Config) -> Self {
        let need = members::need_of(index.entries.entries(), accounts_directories(config) > 0);
        let (raw_bytes, basis) = (index.frames.raw_bytes(), Basis::Decoded);
        let reads = Reads::default();
        Self { raw_bytes, basis, untold: None, need, reads, warnings: Vec::new() }
    }

    fn of(
        file: &ArchiveFile,
        config: &Config,
        patience: Patience,
        (progress, cancel): (&Progress, &CancelToken),
    ) -> Option<Self> {
        let mut warnings = Vec::new();
        let by_table = length_by_seek_table(file, config, &mut warnings);
        let mut members = Members::new(config.limits.tar);
        let wanted = Effort::of(file.size());
        let effort = Effort {
            whole_bytes_max: config.tuning.survey_whole_bytes.unwrap_or(wanted.whole_bytes_max),
            walk_time: match config.preflight {
                // What headers would say, the table says at once.
                PreflightMode::Within(_) if by_table.is_some() => Some(Duration::ZERO),
                PreflightMode::Within(time) => time.or(patience.walk_time(file.size())),
                PreflightMode::Off | PreflightMode::Exact => None,
            },
            go_on: &|walked_bytes| {
                progress.walk(walked_bytes, file.size());
                !cancel.is_cancelled()
            },
        };
        let archive = Anywhere(file);
        let survey = survey(&archive, file.size(), &config.limits.decode, &effort, &mut members);
        let (raw_bytes, basis) = hold_to_seek_table(survey.raw_bytes?, by_table, &mut warnings);
        let need = members.need(raw_bytes, basis, accounts_directories(config) > 0)?;
        let untold = survey.untold.filter(|_| basis == Basis::Sampled);
        Some(Self { raw_bytes, basis, untold, need, reads: survey.reads, warnings })
    }

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

/// What all of them take together.
pub(super) fn survey_archives(
    archives: &[Source<'_>],
    config: &Config,
    patience: Patience,
    handles: (&Progress, &CancelToken),
) -> Result<Surveyed, &'static str> {
    let mut sum: Option<Surveyed> = None;
    for (archive, index) in archives {
        let surveyed = if let Some(index) = index {
            Surveyed::by_index(index, config)
        } else {
            let file = archive.ok_or("a stream does not tell how much it holds")?;
            Surveyed::of(file, config, patience, handles)
                .ok_or("the archive does not tell how much it holds")?
        };
        sum = Some(match sum {
            Some(before) => before.with_incremental(surveyed),
            None => surveyed,
        });
    }
    sum.ok_or("there is no archive")
}
