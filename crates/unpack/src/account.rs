//! What a run did, put together into its report.

use std::time::Duration;

use unsnap_create::CreatorTimes;
use unsnap_decode::{DecodeSummary, Format, ThreadTimes};
use unsnap_layout::{ArchiveName, Summary};

use crate::{
    Config, LayoutKind, Report,
    report::{StageReport, peak_rss_bytes},
    resources::Memory,
    walk::Met,
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
    pub times: Times,
    pub fallbacks: Vec<String>,
}

/// What the creators did.
#[derive(Default)]
pub(crate) struct Created {
    pub times: Vec<CreatorTimes>,
    /// Time that the walk has waited for the creators.
    pub waited: Duration,
    pub directories: u64,
    pub direct: bool,
    pub fallbacks: Vec<String>,
}

/// Where the time went.
pub(crate) struct Times {
    pub total: Duration,
    pub walked_at: Duration,
    pub walk_waited: Duration,
    pub source_waited: Duration,
    pub decode: Vec<ThreadTimes>,
    pub create: Vec<CreatorTimes>,
}

impl Account<'_> {
    pub fn report(self) -> Report {
        let Self { config, memory, threads, summary, met, decoded, created, times, .. } = self;
        let name = self.name.filter(|_| config.layout == LayoutKind::Snapshot);
        let written = if config.dry_run { 0 } else { summary.file_bytes() };
        let registered = decoded.source.engine.is_none_or(|_| decoded.source.registered_buffers)
            && created.times.iter().all(|times| times.registered_buffers);
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
            sync_ms: millis(times.total.saturating_sub(times.walked_at)),
            decode_engine: match (decoded.parallel_frames, decoded.frames) {
                (0, _) => "streaming",
                (parallel, frames) if parallel == frames => "frame-parallel",
                _ => "mixed",
            },
            decode_threads: if decoded.parallel_frames > 0 { threads } else { 1 },
            io_engine: self.io_engine,
            direct_read: decoded.source.direct,
            direct_write: created.direct && !config.dry_run,
            huge_pages: memory.arena.page_kind().name(),
            registered_buffers: registered,
            memory_bytes: memory.arena.bytes() as u64,
            fallbacks: self.fallbacks,
            limited_by: times.limited_by(),
            stages: times.stages(),
            peak_rss_bytes: peak_rss_bytes(),
        }
    }
}

impl Times {
    fn stages(&self) -> Vec<StageReport> {
        let stage = |name, threads, busy: Duration, waiting: Duration| StageReport {
            name,
            threads,
            busy_ms: millis(busy),
            waiting_ms: millis(waiting),
        };
        let sum = |part: fn(&ThreadTimes) -> Duration| self.decode.iter().map(part).sum();
        let created = |part: fn(&CreatorTimes) -> Duration| self.create.iter().map(part).sum();
        let planner = self.decode.first().copied().unwrap_or_default();
        vec![
            // The reader works on the planner's thread: its reads are under way for as long as
            // the planner runs, and hold it up only while it waits for them.
            stage(
                "source",
                0,
                self.source_waited,
                planner.total.saturating_sub(self.source_waited),
            ),
            stage(
                "decode",
                self.decode.len(),
                sum(ThreadTimes::busy),
                sum(|times| times.waited_for_input + times.waited_for_output),
            ),
            stage("walk", 1, self.walked_at.saturating_sub(self.walk_waited), self.walk_waited),
            stage(
                "create",
                self.create.len(),
                created(|times| times.total.saturating_sub(times.idle)),
                created(|times| times.idle),
            ),
        ]
    }

    /// The stage the others waited for, told by what the planner, in the middle, waited for.
    fn limited_by(&self) -> &'static str {
        let sync = self.total.saturating_sub(self.walked_at);
        if sync > self.total / 2 {
            return "sync";
        }
        let Some((planner, workers)) = self.decode.split_first() else { return "decode" };
        let share =
            |part: Duration, total: Duration| part.as_secs_f64() / total.as_secs_f64().max(1e-9);
        if planner.waited_for_input > planner.busy()
            && planner.waited_for_input > planner.waited_for_output
        {
            return "source";
        }
        if planner.waited_for_output <= planner.busy() {
            return "decode";
        }
        let creating = self
            .create
            .iter()
            .map(|times| share(times.total.saturating_sub(times.idle), times.total));
        let decoding = workers.iter().map(|times| share(times.busy(), times.total));
        let walking = share(self.walked_at.saturating_sub(self.walk_waited), self.walked_at);
        let creating = creating.fold(0.0, f64::max);
        let decoding = decoding.fold(0.0, f64::max);
        if decoding >= creating.max(walking) {
            "decode"
        } else if walking > creating {
            "walk"
        } else {
            "create"
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
