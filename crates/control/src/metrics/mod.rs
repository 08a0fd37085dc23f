//! The service's metrics, for Prometheus.
//!
//! A [`Stats`] is the numbers at one moment; [`render`] is its text in the format of OpenMetrics 1.0, for
//! the control socket and for HTTP; [`Textfile`] keeps the same in a file for node_exporter.
//!
//! Names begin with `unsnap_`, but for the usual `process_`; units are base units and end the name;
//! counters begin at 0 with the process and end in `_total`. The only labels are a target's name and
//! values of the lists in this module. No label has a path, a slot or a message, of which there are any
//! number.

mod classic;
mod process;
mod render;
mod stats;
mod textfile;

pub use process::ProcessStats;
pub use render::render;
pub use stats::{ErrorCounts, JobCounts, OutcomeCounts, Stats, TargetCounts, TargetStats};
pub use textfile::Textfile;
