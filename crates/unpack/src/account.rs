//! What a run did, put together into its report.

use unsnap_decode::{DecodeSummary, Format};
use unsnap_layout::{ArchiveName, Summary};
use unsnap_ring::{DirectMode, EngineKind};

use crate::{
    Config, LayoutKind, PreflightReport, Report, Resumed, SandboxReport, report::millis,
    resources::Memory, times::Times, walk::Met,
};

/// Everything that was learnt in a run that succeeded.
pub(crate) struct Account<'a> {
    pub config: &'a Config,
    pub memory: &'a Memory,
    /// By the archive's file name.
    pub name: Option<ArchiveName>,
    pub io_engine: &'static str,
    pub threads: usize,
    pub summary: Summary,
    pub met: Met,
    pub decoded: DecodeSummary,
    pub created: Created,
    pub resumed: Option<Resumed>,
    pub times: Times,
    /// What was wanted by then and could not be had.
    pub fallbacks: Vec<String>,
    pub sandbox: SandboxReport,
    pub peak_rss_bytes: u64,
    pub preflight: Option<PreflightReport>,
}

/// What the creators did.
#[derive(Default)]
pub(crate) struct Created {
    pub directories: u64,
    pub direct: bool,
    pub fallbacks: Vec<String>,
}

impl Account<'_> {
    pub fn report(self) -> Report {
        let Self { config, memory, threads, summary, met, decoded, created, times, .. } = self;
        let from_byte = self.resumed.map_or(0, |resumed| resumed.from_byte);
        let all_digested = from_byte == 0 || config.expect_digest.is_some();
        let mut fallbacks = self.fallbacks;
        if config.direct_io == DirectMode::On && decoded.source.engine.is_none() {
            fallbacks.push("buffered reads: a stream cannot be read by direct I/O".to_owned());
        }
        fallbacks.extend(decoded.source.fallbacks.iter().cloned());
        fallbacks.extend(created.fallbacks.iter().cloned());
        let copied = decoded.copied_frames;
        if copied > 0 {
            fallbacks.push(format!(
                "copying decoder: the window of {copied} frame(s) is larger than a segment"
            ));
        }
        let name = self.name.filter(|_| config.layout == LayoutKind::Snapshot);
        let written = if config.dry_run { 0 } else { summary.file_bytes() };
        // Plain threads and streams have nothing that buffers could be registered with.
        let uring = EngineKind::Uring.name();
        let mut engines = vec![self.io_engine];
        for creator in &times.create {
            if !engines.contains(&creator.engine) {
                engines.push(creator.engine);
            }
        }
        let restricted = times.create.iter().map(|creator| creator.ring_restricted);
        let restricted = restricted.chain([decoded.source.ring_restricted]).flatten();
        let sandbox = self.sandbox.with_rings(restricted);
        let mut rings = Vec::new();
        if decoded.source.engine == Some(uring) {
            rings.push(decoded.source.registered_buffers);
        }
        rings.extend(
            times
                .create
                .iter()
                .filter(|creator| creator.engine == uring)
                .map(|creator| creator.registered_buffers),
        );
        Report {
            archive: config.archive.display_name(),
            kind: match (&name, config.layout) {
                (Some(name), _) => name.kind(),
                (None, LayoutKind::Snapshot) => "unknown",
                (None, LayoutKind::Any) => "other",
            },
            slot: summary.slot(),
            base_slot: name.as_ref().and_then(ArchiveName::base_slot),
            hash: name.as_ref().map(|name| name.hash().to_string()),
            compression: decoded.format.map_or("unknown", Format::name),
            dry_run: config.dry_run,
            files: met.files,
            directories: if config.dry_run { met.directories } else { created.directories },
            bytes_read: decoded.bytes_read,
            bytes_decoded: decoded.bytes_decoded,
            bytes_written: written,
            frames: decoded.frames,
            skippable_frames: decoded.skippable_frames,
            elapsed_ms: millis(times.total),
            sync_ms: millis(times.total.saturating_sub(times.created_at)),
            decode_engine: match (
                decoded.parallel_frames,
                decoded.frames.saturating_sub(decoded.frames_before),
            ) {
                (0, _) => "streaming",
                (parallel, frames) if parallel == frames => "frame-parallel",
                _ => "mixed",
            },
            decode_threads: if decoded.parallel_frames > 0 { threads } else { 1 },
            io_engine: engines.join("+"),
            direct_read: decoded.source.direct,
            bytes_from_cache: decoded.source.cached_bytes,
            direct_write: created.direct && !config.dry_run,
            huge_pages: memory.arena.page_kind().name(),
            registered_buffers: !rings.is_empty() && rings.iter().all(|registered| *registered),
            memory_bytes: memory.arena.bytes() as u64,
            fallbacks,
            digest: decoded.source.digest.filter(|_| all_digested).map(|digest| digest.to_string()),
            resumed: self.resumed,
            sandbox,
            preflight: self.preflight,
            limited_by: times.limited_by(),
            threads: times.threads(),
            peak_rss_bytes: self.peak_rss_bytes,
        }
    }
}
