//! Queue depth that suits a device.

use std::{fs, path::PathBuf};

/// Bounds of the queue depth. Below 8 a virtual NVMe disk idles between completions; above 128 only
/// latency grows (common practice, see ARCHITECTURE.md).
const DEPTH_MIN: usize = 8;
const DEPTH_MAX: usize = 128;

/// Depth for devices without an entry in sysfs (overlay, tmpfs, network file systems).
const DEPTH_UNKNOWN: usize = 32;

/// Returns the number of operations to keep in flight for a file's device (`st_dev`): half of the
/// request queue's `nr_requests`, between 8 and 128. A partition uses the queue of its disk. The
/// depth is 32 where sysfs has no entry.
pub fn queue_depth(device: u64) -> usize {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    // A partition has no queue of its own; its directory lies inside the directory of its disk.
    ["queue/nr_requests", "../queue/nr_requests"]
        .iter()
        .find_map(|file| fs::read_to_string(block.join(file)).ok()?.trim().parse().ok())
        .map_or(DEPTH_UNKNOWN, |requests: usize| (requests / 2).clamp(DEPTH_MIN, DEPTH_MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn every_device_has_a_sane_depth() {
        for path in ["/", "/dev", "/proc"] {
            let depth = queue_depth(fs::metadata(path).unwrap().dev());
            assert!((DEPTH_MIN..=DEPTH_MAX).contains(&depth), "{path}: {depth}");
        }
        assert_eq!(queue_depth(rustix::fs::makedev(0, 0xfffff)), DEPTH_UNKNOWN);
    }
}
