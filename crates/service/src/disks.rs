//! File systems that targets are on, and their free space.

use std::{collections::BTreeMap, os::unix::fs::MetadataExt, path::Path};

use unsnap_control::protocol::DiskStatus;
use unsnap_fit::Free;
use unsnap_ring::Syscalls;

use crate::config::{Target, TargetKind};

/// Measures the file systems of all targets. Directories that are missing or cannot be examined are
/// left out: the jobs of their targets report them.
pub fn disks(targets: &[Target]) -> Vec<DiskStatus> {
    let mut disks: BTreeMap<u64, DiskStatus> = BTreeMap::new();
    for target in targets {
        for path in directories(target) {
            let Some((device, free)) = free(path) else { continue };
            let disk = disks.entry(device).or_insert_with(|| DiskStatus {
                path: path.to_owned(),
                targets: Vec::new(),
                bytes: free.total_bytes,
                bytes_available: free.bytes.unwrap_or(0),
            });
            if !disk.targets.contains(&target.name) {
                disk.targets.push(target.name.clone());
            }
        }
    }
    disks.into_values().collect()
}

/// Returns the directories that a target writes to.
fn directories(target: &Target) -> Vec<&Path> {
    match &target.kind {
        TargetKind::Tree { directory } => vec![directory],
        TargetKind::Fastboot { places, .. } => {
            let accounts = places.accounts.iter().map(|path| &**path);
            accounts.chain([&*places.snapshots]).collect()
        }
    }
}

fn free(path: &Path) -> Option<(u64, Free)> {
    let directory = std::fs::File::open(path).ok()?;
    let device = directory.metadata().ok()?.dev();
    let free = Free::of(&Syscalls::default(), &directory.into(), path).ok()?;
    Some((device, free))
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnap_fastboot::Places;

    #[test]
    fn targets_on_one_file_system_share_a_disk_and_missing_directories_have_none() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = |name: &str, directory: &Path| Target {
            name: name.to_owned(),
            kind: TargetKind::Tree { directory: directory.to_owned() },
            keep: 1,
        };
        let mut places = Places::new(scratch.path());
        places.accounts = vec![scratch.path().to_owned()];
        let kind = TargetKind::Fastboot {
            places,
            format: unsnap_state::Format::V3,
            shadow: true,
            beside: true,
            max_behind: 0,
        };
        let state = Target { name: "state".to_owned(), kind, keep: 1 };
        let targets =
            [tree("one", scratch.path()), state, tree("missing", &scratch.path().join("missing"))];
        let [disk] = &disks(&targets)[..] else { panic!("{:?}", disks(&targets)) };
        assert_eq!(disk.targets, ["one", "state"]);
        assert_eq!(disk.path, scratch.path());
        assert!(disk.bytes > 0 && disk.bytes_available <= disk.bytes);
    }
}
