//! The service's metrics, for Prometheus.
//!
//! [`Stats`] holds the numbers at one moment. [`render`] formats them as OpenMetrics 1.0, for the
//! control socket and for HTTP. [`Textfile`] writes them to a file for node_exporter.
//!
//! Names begin with `unsnap_`, except for the customary `process_`. Units are base units and end
//! the name. Counters begin at 0 with the process and end in `_total`. The only labels are the
//! target's name and values of the enumerations in this module. No label holds a path, a slot or a
//! message, whose number is unbounded.

mod process;
mod prometheus;
mod render;
mod stats;
mod textfile;

pub use process::ProcessStats;
pub use render::render;
pub use stats::{ErrorCounts, JobCounts, OutcomeCounts, Stats, TargetCounts, TargetStats};
pub use textfile::Textfile;
