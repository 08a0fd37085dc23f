//! Whether it fits, before anything is written.
//!
//! What is needed comes from a [`survey`] of the archive, exact or estimated; what is there, from
//! the file systems. A run that cannot fit is refused at once, and not after an hour of writing.
//! What is refused on exact figures could not have fitted: what a file system needs for itself is
//! not counted. Estimates are given a margin, and what is doubtful is only warned of.
//!
//! Exact is what of a small archive is needed, every entry of which is seen. Of a large one whose
//! frames declare their sizes, or that has a seek table, the length of the tar stream is exact, to
//! the byte; what its files take of that is estimated, since only tar headers say how long each of
//! them is. A seek table spares the walk over headers. It is held to what else is known of the
//! archive, and one that lies costs a wrong estimate and nothing else: decoding does not look at it.
//!
//! File systems that compress may hold more than they say. That, and an estimate that is wrong, is
//! what `Config::preflight` (`--no-preflight`) is for.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use unsnap_decode::{Basis, Effort, survey};
use unsnap_index::Index;
use unsnap_source::ArchiveFile;

use crate::{
    CancelToken, Config, Error, LayoutKind,
    error::{Resource, Shortage},
    members::{self, Members, Need},
    opening::Target,
    parts::{Anywhere, hold_to_seek_table, length_by_seek_table},
    report::{FileSystemReport, PreflightReport, millis},
    resources::Input,
    resume::Kept,
    space::{FileSystem, Free},
    watch::{Watch, Watched},
};

/// How far a figure may be off, in percent: below that it is refused, above that warned of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Margin {
    refuse: u64,
    warn: u64,
}

/// Every entry was seen. What the file system adds (directories, extents) is about 0.1 percent.
const EXACT: Margin = Margin { refuse: 0, warn: 1 };

/// The tar stream's length is known; what its padding and headers take of it, and how files are
/// rounded up, is estimated. It is 0.2 percent of a snapshot like mainnet's. A guess.
const DECLARED: Margin = Margin { refuse: 2, warn: 2 };

/// The length is estimated. Of made archives of 0.5 and 6 GB the estimate was up to 5 percent too low
/// (one frame: the blocks of its beginning, a bank file, are not quite as full as the others); real
/// ones vary more from one part to another.
const SAMPLED: Margin = Margin { refuse: 10, warn: 10 };

/// How long to wait for the space of files that were removed. XFS gives it back in the background
/// (Linux 5.14 and later), and `statfs` does not wait for that. A guess.
const GIVEN_BACK_AFTER: Duration = Duration::from_secs(30);
const GIVEN_BACK_POLL: Duration = Duration::from_millis(20);

/// What counts for the free space of a file system that does not tell it.
const UNTOLD_BYTES: u64 = 1 << 56;

/// Of inodes, if not every entry was seen. Samples of a large archive show some ten or twenty files,
/// and those of mainnet are of very different sizes: of a made archive of 695 entries, 369 were
/// estimated.
const INODES: Margin = Margin { refuse: 60, warn: 60 };

/// Of inodes, if every entry was seen.
const INODES_EXACT: Margin = Margin { refuse: 0, warn: 0 };

impl Margin {
    /// What is needed at the least.
    fn least(self, needed: u64) -> u64 {
        percent(needed, 100 - self.refuse)
    }

    fn judge(self, needed: u64, available: Option<u64>) -> Verdict {
        match available {
            Some(available) if self.least(needed) > available => Verdict::Short,
            Some(available) if percent(needed, 100 + self.warn) > available => Verdict::Doubtful,
            _ => Verdict::Fits,
        }
    }
}

fn percent(number: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(number) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fits,
    Doubtful,
    Short,
}

/// How there is room for what is to be written.
#[derive(Debug, Default)]
pub enum Room {
    /// Beside what is there, or nobody knows.
    #[default]
    Beside,
    /// None, as long as what is to be cleared away from the destinations takes space: this is what
    /// is missing, of what first. It is looked again when that is gone.
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
        cancel: &CancelToken,
        fits: impl FnOnce(Room) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let check = || {
            let indexes = indexes.iter().map(Option::as_ref);
            let files = inputs.iter().map(Input::file).zip(indexes);
            Self::check(files, target, kept, config, cancel)
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
    /// `archives`: `None` for a stream, of which nothing is known; with their index, if there is one. `target`: `None` in a dry run.
    /// `kept`: what is there already in each destination. Opens nothing.
    fn check<'a>(
        archives: impl Iterator<Item = Surveyed<'a>>,
        target: Option<&Target>,
        kept: &[Kept],
        config: &Config,
        cancel: &CancelToken,
    ) -> Result<Self, Error> {
        let Some(Target { calls, staging, .. }) = target else { return Ok(Self::default()) };
        if !config.preflight {
            let report = Some(PreflightReport::skipped("it was not wanted"));
            return Ok(Self { report, watch: None });
        }
        let since = Instant::now();
        let mut directories = staging.directories()?;
        directories.truncate(config.destinations());
        let systems = FileSystem::of(calls, directories)?;
        let mut warnings = Vec::new();
        let surveyed = survey_archives(archives, config, cancel, &mut warnings);
        let mut report = match &surveyed {
            Ok((raw_bytes, basis, _)) => PreflightReport::on(*raw_bytes, *basis),
            Err(reason) => PreflightReport::skipped(reason),
        };
        report.warnings = warnings;
        let mut watched = Vec::new();
        let free: Vec<Free> = systems.iter().map(FileSystem::free).collect::<Result<_, _>>()?;
        // A state's storages go to where there is space (`AccountsSpread`).
        let room = |free: &Free| free.bytes.unwrap_or(UNTOLD_BYTES).min(UNTOLD_BYTES);
        let by_space = config.state.is_some() && config.accounts.len() > 1;
        let rooms = systems.iter().zip(&free).filter(|(system, _)| system.holds_accounts());
        let whole = rooms.map(|(_, free)| room(free)).sum::<u64>();
        for (system, free) in systems.into_iter().zip(free) {
            let part = by_space.then_some((room(&free), whole));
            let needed = surveyed.as_ref().ok().map(|(_, basis, need)| {
                let accounts = accounts_directories(config);
                let needed = Needed::on(&system, &free, need, *basis, accounts, part);
                needed.without(&system, kept, free.unit_bytes)
            });
            report.add(&system, &free, needed.as_ref())?;
            watched.push(Watched::new(system, needed.map(|needed| needed.least())));
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

/// An archive, and its index.
type Surveyed<'a> = (Option<&'a ArchiveFile>, Option<&'a Index>);

/// What all of them take together, decoded and on a disk, and how the least known of them is known.
fn survey_archives<'a>(
    archives: impl Iterator<Item = Surveyed<'a>>,
    config: &Config,
    cancel: &CancelToken,
    warnings: &mut Vec<String>,
) -> Result<(u64, Basis, Need), &'static str> {
    let mut one = |(archive, index): Surveyed<'_>| {
        if let Some(index) = index {
            return Ok(survey_index(index, config));
        }
        let file = archive.ok_or("a stream does not tell how much it holds")?;
        survey_archive(file, config, cancel, warnings)
            .ok_or("the archive does not tell how much it holds")
    };
    let mut sum: Option<(u64, Basis, Need)> = None;
    for archive in archives {
        let (raw_bytes, basis, need) = one(archive)?;
        sum = Some(match sum {
            Some((before, worse, needed)) => {
                let raw_bytes = before.saturating_add(raw_bytes);
                (raw_bytes, worse.max(basis), needed.with_incremental(&need))
            }
            None => (raw_bytes, basis, need),
        });
    }
    sum.ok_or("there is no archive")
}

/// What an index says is exact: every entry is in it.
fn survey_index(index: &Index, config: &Config) -> (u64, Basis, Need) {
    let need = members::need_of(index.entries.entries(), accounts_directories(config) > 0);
    (index.frames.raw_bytes(), Basis::Decoded, need)
}

fn survey_archive(
    file: &ArchiveFile,
    config: &Config,
    cancel: &CancelToken,
    warnings: &mut Vec<String>,
) -> Option<(u64, Basis, Need)> {
    let by_table = length_by_seek_table(file, config, warnings);
    let mut members = Members::new(config.limits.tar);
    let wanted = Effort::of(file.size());
    let effort = Effort {
        whole_bytes_max: config.tuning.survey_whole_bytes.unwrap_or(wanted.whole_bytes_max),
        // What headers would say, the table says at once.
        walk_time: match by_table {
            Some(_) => Duration::ZERO,
            None => config.tuning.survey_walk_time.unwrap_or(wanted.walk_time),
        },
        is_cancelled: &|| cancel.is_cancelled(),
    };
    let survey = survey(&Anywhere(file), file.size(), &config.limits.decode, &effort, &mut members);
    let (raw_bytes, basis) = hold_to_seek_table(survey.raw_bytes?, by_table, warnings);
    let need = members.need(raw_bytes, basis, accounts_directories(config) > 0)?;
    Some((raw_bytes, basis, need))
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

/// What is needed on one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needed {
    bytes: u64,
    inodes: Option<u64>,
    exact: bool,
    bytes_margin: Margin,
    inodes_margin: Margin,
}

impl Needed {
    /// Without accounts directories everything goes to the output; with them, each takes an equal
    /// share of the storages, and the output the rest. Shares are only about equal: then nothing
    /// is exact. `part`: how much space of how much for storages is here, if that decides instead.
    fn on(
        system: &FileSystem,
        free: &Free,
        need: &Need,
        basis: Basis,
        accounts_directories: usize,
        part: Option<(u64, u64)>,
    ) -> Self {
        let share = need.storages.share(accounts_directories.max(1) as u64);
        let (mut bytes, mut inodes) = (0_u64, Some(0_u64));
        let mut add = |part: &members::Part| {
            bytes = bytes.saturating_add(part.bytes(free.unit_bytes));
            inodes = inodes.zip(part.files).map(|(sum, files)| sum.saturating_add(files));
        };
        let mut directories = Some(0);
        for destination in &system.destinations {
            if *destination == 0 {
                add(&need.others);
                directories = need.directories;
            }
            if part.is_none() && (*destination == 0) == (accounts_directories == 0) {
                add(&share);
            }
        }
        if let Some((part, whole)) = part.filter(|_| system.holds_accounts()) {
            add(&need.storages.part(part, whole));
        }
        let shared = accounts_directories > 1;
        let exact = basis == Basis::Decoded && !shared;
        Self {
            bytes,
            inodes: inodes.zip(directories).map(|(files, more)| files.saturating_add(more)),
            exact,
            bytes_margin: match basis {
                Basis::Decoded if !shared => EXACT,
                Basis::Declared if !shared => DECLARED,
                _ => SAMPLED,
            },
            inodes_margin: if exact { INODES_EXACT } else { INODES },
        }
    }

    /// Less what is there already.
    fn without(mut self, system: &FileSystem, kept: &[Kept], unit_bytes: u64) -> Self {
        for Kept { files, bytes } in system.destinations.iter().filter_map(|index| kept.get(*index))
        {
            // Each file is rounded up, by half a unit on average.
            let bytes = bytes.saturating_add(files.saturating_mul(unit_bytes / 2));
            self.bytes = self.bytes.saturating_sub(bytes);
            self.inodes = self.inodes.map(|inodes| inodes.saturating_sub(*files));
            if *files > 0 {
                self.exact = false;
                self.bytes_margin = SAMPLED;
            }
        }
        self
    }

    /// Bytes and inodes that are needed at the least.
    fn least(&self) -> (u64, Option<u64>) {
        let inodes = self.inodes.map(|inodes| self.inodes_margin.least(inodes));
        (self.bytes_margin.least(self.bytes), inodes)
    }
}

impl PreflightReport {
    fn on(tar_bytes: u64, basis: Basis) -> Self {
        let exact = basis == Basis::Decoded;
        Self {
            basis: basis_name(basis),
            skipped: None,
            tar_bytes: Some(tar_bytes),
            tar_bytes_exact: basis != Basis::Sampled,
            bytes_needed: Some(0),
            bytes_exact: exact,
            inodes_needed: Some(0),
            inodes_exact: exact,
            file_systems: Vec::new(),
            warnings: Vec::new(),
            elapsed_ms: 0,
        }
    }

    fn skipped(reason: &str) -> Self {
        Self {
            basis: "unknown",
            skipped: Some(reason.to_owned()),
            tar_bytes: None,
            tar_bytes_exact: false,
            bytes_needed: None,
            bytes_exact: false,
            inodes_needed: None,
            inodes_exact: false,
            file_systems: Vec::new(),
            warnings: Vec::new(),
            elapsed_ms: 0,
        }
    }

    /// Compares what a file system has with what is needed there.
    fn add(
        &mut self,
        system: &FileSystem,
        free: &Free,
        needed: Option<&Needed>,
    ) -> Result<(), Error> {
        let inodes = needed.and_then(|needed| needed.inodes);
        self.file_systems.push(FileSystemReport {
            destinations: system.paths.iter().map(|path| path.display().to_string()).collect(),
            bytes_needed: needed.map(|needed| needed.bytes),
            bytes_available: free.bytes,
            inodes_needed: inodes,
            inodes_available: free.inodes,
        });
        let Some(needed) = needed else { return Ok(()) };
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
            };
            match margin.judge(needed, Some(available)) {
                Verdict::Fits => {}
                Verdict::Doubtful => {
                    let warning = format!("it may not fit: {}", shortage.figures());
                    tracing::warn!("{warning}");
                    self.warnings.push(warning);
                }
                Verdict::Short => return Err(Error::NoSpace(Box::new(shortage))),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Doubtful, Fits, Short};

    #[test]
    fn exact_figures_are_refused_only_when_nothing_can_help() {
        for (available, verdict) in [(999, Short), (1000, Doubtful), (1009, Doubtful), (1010, Fits)]
        {
            assert_eq!(EXACT.judge(1000, Some(available)), verdict, "{available}");
        }
        assert_eq!(EXACT.judge(0, Some(0)), Fits);
        assert_eq!(EXACT.judge(u64::MAX, None), Fits, "who does not tell has enough");
        assert_eq!(EXACT.judge(u64::MAX, Some(u64::MAX)), Fits);
    }

    #[test]
    fn estimates_have_a_margin() {
        for (available, verdict) in [(899, Short), (900, Doubtful), (1099, Doubtful), (1100, Fits)]
        {
            assert_eq!(SAMPLED.judge(1000, Some(available)), verdict, "{available}");
        }
        assert_eq!(INODES.judge(10, Some(16)), Fits);
        assert_eq!(INODES.judge(10, Some(4)), Doubtful);
        assert_eq!(INODES.judge(10, Some(3)), Short);
    }
}
