//! Prometheus' older text format 0.0.4, the only one that node_exporter reads from files.

use std::{collections::HashSet, fmt::Write};

/// Converts text of OpenMetrics to Prometheus' format. The differences that concern our metrics: a
/// counter's family has the name of its only series, with `_total`; there are no units and no end
/// marker.
pub fn prometheus_text(text: &str) -> String {
    let counters: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut converted = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(name) => {
                let _ = writeln!(converted, "# {what} {name}_total {rest}");
            }
            _ => {
                converted.push_str(line);
                converted.push('\n');
            }
        }
    }
    converted
}
