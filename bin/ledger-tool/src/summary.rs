//! Phrases that summaries of several commands share.

use indicatif::BinaryBytes;
pub use unsnap_cli::units::{count, seconds};
use unsnap_pass::LimitsReport;
use unsnap_unpack::Report;

/// Returns the line about the limits that the run was given and how long they held it back; empty
/// if there were none.
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
