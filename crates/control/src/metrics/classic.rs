//! The older text format of Prometheus, 0.0.4, which is all that node_exporter reads from files.

use std::{collections::HashSet, fmt::Write};

/// Text of OpenMetrics in the older format. What differs in what we write: there a counter's family has
/// the name of its only series, with `_total`; there are no units; and nothing marks the end.
pub fn classic(text: &str) -> String {
    let counters: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut classic = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(name) => {
                let _ = writeln!(classic, "# {what} {name}_total {rest}");
            }
            _ => {
                classic.push_str(line);
                classic.push('\n');
            }
        }
    }
    classic
}
