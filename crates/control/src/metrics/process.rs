//! Process metrics, under the names that Prometheus' client libraries use.

use std::fs;

use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

/// Resources used by the process. A value that cannot be read is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessStats {
    /// Processor time of all threads, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Virtual memory.
    pub virtual_bytes: u64,
    /// Open descriptors.
    pub open_fds: u64,
    /// Limit of open descriptors; `None` if unlimited.
    pub max_fds: Option<u64>,
    /// Number of threads.
    pub threads: u64,
}

impl ProcessStats {
    /// Reads the current values of this process.
    pub fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name may hold anything. The first field after it is the third of proc_pid_stat(5).
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |number: usize| -> u64 {
            fields.get(number - 3).and_then(|field| field.parse().ok()).unwrap_or(0)
        };
        // One of them is the descriptor of the directory itself.
        let open_fds = fs::read_dir("/proc/self/fd").map_or(0, |fds| fds.count().saturating_sub(1));
        #[allow(clippy::cast_precision_loss)] // exact for 2^53 ticks: millions of years
        let cpu_seconds = (field(14) + field(15)) as f64 / clock_ticks_per_second() as f64;
        Self {
            cpu_seconds,
            resident_bytes: field(24).saturating_mul(page_size() as u64),
            virtual_bytes: field(23),
            open_fds: open_fds as u64,
            max_fds: getrlimit(Resource::Nofile).current,
            threads: field(20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let before = ProcessStats::now();
        assert!(before.resident_bytes > 100 << 10 && before.virtual_bytes > before.resident_bytes);
        assert!(before.threads >= 1 && before.open_fds >= 3);
        // Other tests run meanwhile, so no more can be said than that it does not go back.
        assert!(ProcessStats::now().cpu_seconds >= before.cpu_seconds);
    }
}
