//! Phrases that summaries of several commands share.

use indicatif::{BinaryBytes, HumanCount};
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

/// Returns a duration of milliseconds in seconds, to the hundredth.
pub fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}

/// Returns a number with its noun: "1 frame", "2,000 entries".
pub fn count(number: u64, noun: &str) -> String {
    let noun = match (number, noun.strip_suffix('y')) {
        (1, _) => noun.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        (_, None) => format!("{noun}s"),
    };
    format!("{} {noun}", HumanCount(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_agree_with_their_numbers() {
        assert_eq!(count(0, "frame"), "0 frames");
        assert_eq!(count(1, "entry"), "1 entry");
        assert_eq!(count(2_000, "entry"), "2,000 entries");
    }
}
