//! The question whether archives fit: the needs of archives, compared with the free space.

use std::time::{Duration, Instant};

use unsnap_decode::{Basis, Reads, Untold};
use unsnap_pass::{Handles, Options, millis};

use crate::{
    FileSystem, FileSystemReport, Free, Kept, PreflightReport, Resource, Shortage,
    needed::{Needed, Verdict},
    survey::{Announced, GoOn, HeaderWalk, Source, SurveyResult, Surveyed, Surveyor},
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

/// Substitute for the free space in bytes of a file system that does not report it: more than any
/// archive needs, and far from an overflow of sums.
pub(crate) const UNKNOWN_BYTES: u64 = 1 << 56;

/// Reason for samples where nothing depended on an exact size.
pub(crate) const AMPLE: &str = "samples suffice, there is ample room";

/// The question whether archives fit into their destinations.
pub struct Question<'a> {
    /// Archives that are unpacked together: a full one, then its incremental one.
    pub archives: Vec<Source<'a>>,
    /// What servers announce, of each archive that is on one.
    pub announced: Vec<Option<Announced>>,
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

/// Needs of archives, compared with the free space.
pub(crate) struct Judged {
    /// Figures for the report.
    pub report: PreflightReport,
    /// Least bytes and inodes needed on each file system; empty if unknown.
    pub needs: Vec<(u64, Option<u64>)>,
    /// Whether each file system has room for the figures and their margins of error.
    pub has_margin: bool,
    /// All shortages.
    pub shortage: Option<Shortage>,
}

impl Question<'_> {
    /// Judges the needs that a survey has found.
    pub(crate) fn judge(
        &self,
        Survey { all, is_ample }: &Survey,
        free: &[Free],
        since: Instant,
    ) -> Judged {
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
        Judged { report, needs, has_margin, shortage: Shortage::of_all(shortages) }
    }

    /// Returns the surveyor of a run that waits for it.
    pub(crate) fn surveyor(&self) -> Surveyor<'_> {
        let Self { options, handles, .. } = self;
        Surveyor { options, go_on: GoOn::Shown(handles), split_accounts: self.accounts > 0 }
    }

    /// Returns whether the space suffices beyond doubt, by samples.
    pub(crate) fn is_ample(&self, sampled: &Surveyed, free: &[Free]) -> bool {
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
    pub(crate) fn skipped(reason: &str) -> Self {
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
                announced: None,
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
