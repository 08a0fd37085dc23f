//! What summaries of different commands have in common.

use indicatif::BinaryBytes;
use unsnap_pass::LimitsReport;
use unsnap_unpack::Report;

/// What the run was asked to keep to, and what that did to it: a line, or nothing.
pub fn limits(report: &Report) -> String {
    let LimitsReport { rate_limit, io_priority, nice, cpus } = &report.limits;
    let words = [
        rate_limit.map(|rate| format!("{}/s to each device", BinaryBytes(rate))),
        io_priority.as_ref().map(|priority| format!("I/O priority {priority}")),
        nice.map(|nice| format!("niceness {nice}")),
        cpus.as_ref().map(|cpus| format!("processors {cpus}")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() {
        return String::new();
    }
    let held_back = seconds(report.held_back_ms);
    format!("  limits: {}; held back for {held_back}\n", words.join(", "))
}

/// A duration of milliseconds, to the hundredth of a second.
pub fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}
