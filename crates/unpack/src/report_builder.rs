//! Assembly of the report of a successful run.

use std::time::Duration;

use unsnap_decode::{DecodeSummary, Format};
use unsnap_fit::PreflightReport;
use unsnap_layout::ArchiveName;
use unsnap_pass::{DirectMode, LayoutKind, LimitsReport, SandboxReport, millis};
use unsnap_ring::EngineKind;

use crate::{
    Options, Report,
    creating::Created,
    process::ProcessStatus,
    report::{
        AccountsArchive, AccountsReport, BankReport, IncrementalReport, Resumed, ReusedReport,
        TeeReport,
    },
    times::Times,
    walk::Walked,
};

/// Results of a run.
pub(crate) struct ReportBuilder {
    pub options: Options,
    pub huge_pages: &'static str,
    /// Bytes of reserved memory.
    pub memory_bytes: u64,
    pub io_engine: &'static str,
    pub threads: usize,
    /// Results of each archive's walk.
    pub walked: Vec<Walked>,
    pub decoded: Vec<DecodeSummary>,
    pub created: Created,
    pub resumed: Option<Resumed>,
    pub times: Times,
    /// Requests refused so far.
    pub fallbacks: Vec<String>,
    pub sandbox: SandboxReport,
    pub status: ProcessStatus,
    pub preflight: Option<PreflightReport>,
    pub accounts: Option<AccountsReport>,
    /// Limits in force.
    pub limits: LimitsReport,
    /// Total time for which the run was paused.
    pub paused: Duration,
    /// Archives that were to be kept.
    pub tees: Vec<TeeReport>,
}

impl ReportBuilder {
    pub fn build(self) -> Report {
        let (incremental, bank, accounts) = (self.incremental(), self.bank(), self.accounts());
        let dry_run = !self.options.writes();
        let Self { options, threads, walked, decoded, created, times, .. } = self;
        let all = decoded;
        // The first archive always exists. Words in the report refer to it.
        let decoded = all.first().cloned().unwrap_or_default();
        let sum = |of: fn(&DecodeSummary) -> u64| all.iter().map(of).sum::<u64>();
        let from_byte = self.resumed.map_or(0, |resumed| resumed.from_byte);
        let all_digested = from_byte == 0 || options.digest().expected().is_some();
        let mut fallbacks = self.fallbacks;
        if options.pass.io.direct == DirectMode::On
            && all.iter().any(|one| one.source.engine.is_none())
        {
            fallbacks.push("buffered reads: a stream cannot be read by direct I/O".to_owned());
        }
        fallbacks.extend(all.iter().flat_map(|one| one.source.fallbacks.iter().cloned()));
        fallbacks.extend(created.fallbacks.iter().cloned());
        fallbacks.extend(self.tees.iter().filter_map(TeeReport::fallback));
        let copied = sum(|one| one.copied_frames);
        if copied > 0 {
            let frames = if copied == 1 { "frame has a window" } else { "frames have windows" };
            fallbacks.push(format!("copying decoder: {copied} {frames} larger than a segment"));
        }
        let (archive, layout) = (&options.archives()[0], options.source().layout());
        let name = archive.snapshot_name().filter(|_| layout == LayoutKind::Snapshot);
        let bytes: u64 = walked.iter().map(|walked| walked.met.created_bytes).sum();
        let written = if dry_run { 0 } else { bytes };
        let directories = walked.iter().map(|walked| walked.met.directories).sum();
        // Plain threads and streams have no ring to register buffers with.
        let uring = EngineKind::Uring.name();
        let mut engines = vec![self.io_engine];
        for creator in &times.create {
            if !engines.contains(&creator.engine) {
                engines.push(creator.engine);
            }
        }
        let restricted = times.create.iter().map(|creator| creator.ring_restricted);
        let restricted = restricted.chain(all.iter().map(|one| one.source.ring_restricted));
        let sandbox = self.sandbox.with_rings(restricted.flatten());
        let mut rings = Vec::new();
        let readers = all.iter().filter(|one| one.source.engine == Some(uring));
        rings.extend(readers.map(|one| one.source.registered_buffers));
        rings.extend(
            times
                .create
                .iter()
                .filter(|creator| creator.engine == uring)
                .map(|creator| creator.registered_buffers),
        );
        Report {
            archive: archive.display_name(),
            kind: match (&name, layout) {
                (Some(name), _) => name.kind(),
                (None, LayoutKind::Snapshot) => "unknown",
                (None, LayoutKind::Any) => "other",
            },
            slot: walked.first().and_then(|walked| walked.summary.slot()),
            base_slot: name.as_ref().and_then(ArchiveName::base_slot),
            hash: name.as_ref().map(|name| name.hash().to_string()),
            incremental,
            bank,
            accounts,
            reused: options.base().map(|base| ReusedReport::of(base)),
            accounts_paths: created.spread,
            compression: decoded.format.map_or("unknown", Format::name),
            dry_run,
            files: walked.iter().map(|walked| walked.met.created).sum(),
            directories: if dry_run { directories } else { created.directories },
            bytes_read: sum(|one| one.bytes_read),
            bytes_decoded: sum(|one| one.bytes_decoded),
            bytes_written: written,
            frames: sum(|one| one.frames),
            skippable_frames: sum(|one| one.skippable_frames),
            elapsed_ms: millis(times.total),
            sync_ms: millis(times.total.saturating_sub(times.created_at)),
            decode_engine: decode_engine(&decoded),
            decode_threads: if decode_engine(&decoded) == "streaming" { 1 } else { threads },
            decoder: decoder(&all),
            own_frames: sum(|one| one.own_frames),
            io_engine: engines.join("+"),
            direct_read: decoded.source.direct,
            bytes_from_cache: sum(|one| one.source.cached_bytes),
            direct_write: created.direct && !dry_run,
            huge_pages: self.huge_pages,
            registered_buffers: !rings.is_empty() && rings.iter().all(|registered| *registered),
            memory_bytes: self.memory_bytes,
            fallbacks,
            digest: decoded.source.digest.filter(|_| all_digested).map(|digest| digest.to_string()),
            resumed: self.resumed,
            tee: self.tees,
            sandbox,
            preflight: self.preflight,
            limits: LimitsReport { rate_limit: options.pass.neighbour.rate_limit(), ..self.limits },
            paused_ms: millis(self.paused),
            held_back_ms: millis(times.held_back()),
            limited_by: times.limited_by(),
            creators: times.creators(),
            threads: times.threads(),
            peak_rss_bytes: self.status.peak_rss_bytes(),
        }
    }

    /// Returns the report of the incremental snapshot, if there is one.
    fn incremental(&self) -> Option<IncrementalReport> {
        let archive = self.options.archives().get(1)?;
        let (walked, decoded) = (self.walked.get(1)?, self.decoded.get(1)?);
        let name = archive.snapshot_name();
        Some(IncrementalReport {
            archive: archive.display_name(),
            slot: walked.summary.slot(),
            base_slot: name.as_ref().and_then(ArchiveName::base_slot),
            hash: name.as_ref().map(|name| name.hash().to_string()),
            compression: decoded.format.map_or("unknown", Format::name),
            bytes_read: decoded.bytes_read,
            bytes_decoded: decoded.bytes_decoded,
            frames: decoded.frames,
            files: walked.met.created,
            digest: decoded.source.digest.map(|digest| digest.to_string()),
        })
    }

    /// Returns the result of verifying accounts, with the archives that hold them.
    fn accounts(&self) -> Option<AccountsReport> {
        let mut accounts = self.accounts.clone()?;
        let archives = self.options.archives().iter().zip(&self.walked).zip(&self.decoded);
        let archives = archives.map(|((archive, walked), decoded)| AccountsArchive {
            archive: archive.display_name(),
            slot: walked.summary.slot(),
            digest: decoded.source.digest.map(|digest| digest.to_string()),
        });
        accounts.archives = archives.collect();
        Some(accounts)
    }

    /// Returns fields of the newest bank file.
    fn bank(&self) -> Option<BankReport> {
        let facts = &self.walked.last()?.bank.as_ref()?.facts;
        Some(BankReport {
            slot: facts.slot,
            epoch: facts.epoch(),
            hash: facts.hash.to_string(),
            capitalization: facts.capitalization,
        })
    }
}

/// Returns who decoded the zstd frames.
fn decoder(decoded: &[DecodeSummary]) -> &'static str {
    let frames: u64 = decoded.iter().map(DecodeSummary::zstd_frames).sum();
    match (frames, decoded.iter().map(|one| one.own_frames).sum()) {
        (0, _) => "none",
        (_, 0) => "libzstd",
        (frames, own) if frames == own => "own",
        _ => "own+libzstd",
    }
}

/// Returns how the frames were decoded: all in one way, or in several.
fn decode_engine(decoded: &DecodeSummary) -> &'static str {
    let frames = decoded.frames.saturating_sub(decoded.frames_before);
    let by_blocks = decoded.own_frames + decoded.shared_frames;
    match (decoded.parallel_frames, by_blocks) {
        (0, 0) => "streaming",
        (parallel, _) if parallel == frames => "frame-parallel",
        (_, blocks) if blocks == frames => "block-parallel",
        _ => "mixed",
    }
}
