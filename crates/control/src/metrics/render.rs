//! Formatting metrics as OpenMetrics text.

use std::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use super::{ErrorCounts, JobCounts, OutcomeCounts, Stats, TargetStats};
use crate::protocol::TargetState;

/// Formats all metrics as OpenMetrics 1.0 text.
pub fn render(stats: &Stats) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(stats.clone()));
    let mut text = String::new();
    // Writing to a string does not fail, and no other step can.
    let _ = text::encode(&mut text, &registry);
    text
}

impl Collector for Stats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut encoder;
        service_metrics(self, to)?;
        job_metrics(&self.targets, to)?;
        result_metrics(&self.targets, to)?;
        process_metrics(self, to)
    }
}

fn service_metrics(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Version of the service, as a label; the value is always 1";
    let metric = ConstGauge::new(1_u64);
    let mut family = to.encode_descriptor("unsnap_build_info", help, None, metric.metric_type())?;
    metric.encode(family.encode_family(&[("version", stats.version.as_str())])?)?;
    gauge(
        to,
        "unsnap_paused",
        "Whether the service is paused (1) or not (0)",
        None,
        stats.paused.into(),
    )?;
    if let Some(slot) = stats.newest_archive_slot {
        let help = "Slot of the newest usable archives";
        gauge(to, "unsnap_newest_archive_slot", help, None, slot)?;
    }
    let help = "Bad archives, skipped until their files change";
    gauge(to, "unsnap_bad_archives", help, None, stats.bad_archives)
}

fn job_metrics(targets: &[TargetStats], to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "State of the target: 1 for the current state, 0 for the others";
    gauges(to, "unsnap_target_state", help, "state", targets, |target| {
        TARGET_STATES.map(|(state, name)| (name, u64::from(target.state == state)))
    })?;
    gauges(to, "unsnap_jobs", "Jobs by state", "state", targets, |target| {
        let JobCounts { queued, running, paused, retrying } = target.jobs;
        [("queued", queued), ("running", running), ("paused", paused), ("retrying", retrying)]
    })?;
    let help = "Finished attempts at jobs, by outcome";
    counters(to, "unsnap_jobs_ended", help, "outcome", targets, |target| {
        let OutcomeCounts { done, failed, cancelled, superseded, bad_archive } =
            target.counts.ended;
        [
            ("done", done),
            ("failed", failed),
            ("cancelled", cancelled),
            ("superseded", superseded),
            ("bad-archive", bad_archive),
        ]
    })?;
    let help = "Errors of jobs, by family";
    counters(to, "unsnap_errors", help, "family", targets, |target| {
        let ErrorCounts { bad_archive, request, environment, not_clean } = target.counts.errors;
        [
            ("bad-archive", bad_archive),
            ("request", request),
            ("environment", environment),
            ("not-clean", not_clean),
        ]
    })?;
    let bytes = Some(&Unit::Bytes);
    let help = "Compressed bytes of archives decoded";
    counter(to, "unsnap_read", help, bytes, targets, |target| target.counts.bytes_read)?;
    let help = "Bytes produced by decoding";
    counter(to, "unsnap_decoded", help, bytes, targets, |target| target.counts.bytes_decoded)?;
    let help = "Bytes written to files";
    counter(to, "unsnap_written", help, bytes, targets, |target| target.counts.bytes_written)?;
    let help = "Files completed";
    counter(to, "unsnap_files_created", help, None, targets, |target| target.counts.files)?;
    let help = "Time that the rate limit delayed jobs";
    let held_back = |target: &TargetStats| seconds(target.counts.held_back_ms);
    counter(to, "unsnap_held_back", help, Some(&Unit::Seconds), targets, held_back)?;
    let help = "Fallbacks of jobs to a slower method, such as buffered instead of direct I/O";
    counter(to, "unsnap_fallbacks", help, None, targets, |target| target.counts.fallbacks)?;
    let help = "Progress of the running job, from 0 to 1; absent while no job runs";
    optional_gauge(to, "unsnap_job_progress_ratio", help, None, targets, |target| target.progress)
}

fn result_metrics(targets: &[TargetStats], to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let unit = Some(&Unit::Seconds);
    let help = "Time of the last successful job, since 1970, UTC; absent before the first success";
    optional_gauge(to, "unsnap_last_success_timestamp", help, unit, targets, |target| {
        target.last_success_unix_ms.map(seconds)
    })?;
    let help = "Duration of the last successful job";
    optional_gauge(to, "unsnap_last_duration", help, unit, targets, |target| {
        target.last_duration_ms.map(seconds)
    })?;
    let help = "Slot of the newest result";
    optional_gauge(to, "unsnap_newest_result_slot", help, None, targets, |target| {
        target.newest_result_slot
    })?;
    let help = "Results on disk";
    optional_gauge(to, "unsnap_results", help, None, targets, |target| Some(target.results))?;
    let help = "Slots by which the newest result is older than the newest archives";
    optional_gauge(to, "unsnap_behind_slots", help, None, targets, |target| target.behind_slots)?;
    let help = "Slot of the ready state; absent if none waits beside the validator's";
    optional_gauge(to, "unsnap_ready_slot", help, None, targets, |target| target.ready_slot)?;
    let help = "Time at which the ready state was complete, since 1970, UTC";
    optional_gauge(to, "unsnap_ready_timestamp", help, unit, targets, |target| {
        target.ready_unix_ms.map(seconds)
    })?;
    let help = "Ready states that were moved to where the validator looks";
    counter(to, "unsnap_adopted", help, None, targets, |target| target.counts.adopted)?;
    let help = "Time for which the ledger was locked to adopt states";
    counter(to, "unsnap_ledger_locked", help, unit, targets, |target| {
        Duration::from_micros(target.counts.ledger_locked_us).as_secs_f64()
    })?;
    let help = "States that are not made again, because validators have ended early with them";
    counter(to, "unsnap_states_given_up", help, None, targets, |target| {
        target.counts.states_given_up
    })?;
    let (help, bytes) = ("Bytes of old files that wait for their removal", Some(&Unit::Bytes));
    optional_gauge(to, "unsnap_leftover", help, bytes, targets, |target| {
        Some(target.leftover_bytes)
    })?;
    let help = "Results removed";
    counter(to, "unsnap_results_removed", help, None, targets, |target| {
        target.counts.results_removed
    })?;
    let help = "Bytes that only the shadow of the validator's state keeps on the disk; absent before \
                they are counted";
    optional_gauge(to, "unsnap_shadow", help, Some(&Unit::Bytes), targets, |target| {
        target.counts.shadow_bytes
    })?;
    let help = "Shadows removed because space was short or their state was gone";
    counter(to, "unsnap_shadow_removed", help, None, targets, |target| {
        target.counts.shadow_removed
    })?;
    let help = "Ready states discarded because space was short";
    counter(to, "unsnap_ready_discarded", help, None, targets, |target| {
        target.counts.ready_discarded
    })?;
    let help = "Completed looks at the free space beside the validator";
    counter(to, "unsnap_space_looks", help, None, targets, |target| target.counts.space_looks)
}

fn process_metrics(stats: &Stats, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(process) = stats.process else { return Ok(()) };
    let bytes = Some(&Unit::Bytes);
    let name = "process_cpu";
    let metric = ConstCounter::new(process.cpu_seconds);
    let help = "Processor time of all threads";
    let encoder = to.encode_descriptor(name, help, Some(&Unit::Seconds), metric.metric_type())?;
    metric.encode(encoder)?;
    gauge(to, "process_resident_memory", "Resident memory", bytes, process.resident_bytes)?;
    gauge(to, "process_virtual_memory", "Virtual memory", bytes, process.virtual_bytes)?;
    gauge(to, "process_open_fds", "Open descriptors", None, process.open_fds)?;
    if let Some(most) = process.max_fds {
        gauge(to, "process_max_fds", "Limit of open descriptors", None, most)?;
    }
    gauge(to, "process_threads", "Number of threads", None, process.threads)?;
    let metric = ConstGauge::new(seconds(stats.started_unix_ms));
    let help = "Start time of the service, since 1970, UTC";
    let unit = Some(&Unit::Seconds);
    let encoder = to.encode_descriptor("process_start_time", help, unit, metric.metric_type())?;
    metric.encode(encoder)
}

const TARGET_STATES: [(TargetState, &str); 4] = [
    (TargetState::Idle, "idle"),
    (TargetState::Working, "working"),
    (TargetState::Waiting, "waiting"),
    (TargetState::Failing, "failing"),
];

/// Encodes a gauge of the service as a whole.
fn gauge(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: u64,
) -> fmt::Result {
    let metric = ConstGauge::new(value);
    metric.encode(to.encode_descriptor(name, help, unit, metric.metric_type())?)
}

/// Encodes a gauge with one series per target that has a value.
fn optional_gauge<N>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    targets: &[TargetStats],
    value: impl Fn(&TargetStats) -> Option<N>,
) -> fmt::Result
where
    ConstGauge<N>: EncodeMetric,
{
    // The family's header is written even if no target has a value, so that the name is known.
    let kind = ConstGauge::new(0_u64).metric_type();
    let mut family = to.encode_descriptor(name, help, unit, kind)?;
    for target in targets {
        if let Some(value) = value(target) {
            let labels = [("target", target.name.as_str())];
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Encodes a counter with one series per target.
fn counter<N>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    targets: &[TargetStats],
    value: impl Fn(&TargetStats) -> N,
) -> fmt::Result
where
    ConstCounter<N>: EncodeMetric,
{
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut family = to.encode_descriptor(name, help, unit, kind)?;
    for target in targets {
        let labels = [("target", target.name.as_str())];
        ConstCounter::new(value(target)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Encodes a gauge with one series per target and value of another label.
fn gauges<const N: usize>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    targets: &[TargetStats],
    values: impl Fn(&TargetStats) -> [(&'static str, u64); N],
) -> fmt::Result {
    let kind = ConstGauge::new(0_u64).metric_type();
    let mut family = to.encode_descriptor(name, help, None, kind)?;
    for target in targets {
        for (which, value) in values(target) {
            let labels = [("target", target.name.as_str()), (label, which)];
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Encodes a counter with one series per target and value of another label.
fn counters<const N: usize>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    targets: &[TargetStats],
    values: impl Fn(&TargetStats) -> [(&'static str, u64); N],
) -> fmt::Result {
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut family = to.encode_descriptor(name, help, None, kind)?;
    for target in targets {
        for (which, value) in values(target) {
            let labels = [("target", target.name.as_str()), (label, which)];
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // exact for 2^53 milliseconds: 280,000 years
fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
