//! Block devices below a path, from sysfs.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{major, minor};

use crate::doctor::facts::Disk;
use unsnap_cli::machine::proc_files;

/// Maximum number of devices to probe: the others of a larger RAID are alike. A guess.
const DISKS_MAX: usize = 16;

/// Returns the disk below a file system, and the disks that it is made of (device mapper, md); empty
/// if there is no disk. `source` is the mounted device.
pub fn below(device: u64, source: &str) -> Vec<Disk> {
    // Files of btrfs and the like have a device number that no disk has.
    let mounted = fs::metadata(source).ok().filter(|node| node.file_type().is_block_device());
    let device = mounted.map_or(device, |node| node.rdev());
    let directory = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let mut found = Vec::new();
    if let Ok(directory) = fs::canonicalize(directory) {
        collect(&directory, &mut found);
    }
    found
}

fn collect(device: &Path, found: &mut Vec<Disk>) {
    // A partition has no queue of its own; its directory is inside that of the whole disk.
    let partition = device.join("partition").exists();
    let whole = device.parent().filter(|_| partition).unwrap_or(device);
    let disk = disk(whole);
    if found.len() == DISKS_MAX || found.contains(&disk) {
        return;
    }
    found.push(disk);
    let mut parts: Vec<PathBuf> = fs::read_dir(whole.join("slaves"))
        .into_iter()
        .flatten()
        .filter_map(|part| fs::canonicalize(part.ok()?.path()).ok())
        .collect();
    parts.sort();
    for part in &parts {
        collect(part, found);
    }
}

fn disk(directory: &Path) -> Disk {
    let read = |name: &str| proc_files::read(directory.join("queue").join(name)).trim().to_owned();
    let number = |name: &str| proc_files::number::<u64>(&read(name));
    let known = |word: String| Some(word).filter(|word| !word.is_empty());
    let scheduler = read("scheduler");
    Disk {
        name: directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        // A disk without a choice of schedulers has one word without brackets.
        scheduler: proc_files::selected(&scheduler).or_else(|| known(scheduler)),
        requests: number("nr_requests"),
        rotational: number("rotational").map(|flag| flag == 1),
        write_cache: known(read("write_cache")),
        discard_bytes: number("discard_max_bytes"),
        block_bytes: number("logical_block_size"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn device(directory: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(directory.join("queue")).unwrap();
        for (name, text) in files {
            fs::write(directory.join("queue").join(name), text).unwrap();
        }
    }

    #[test]
    fn partitions_and_mirrors_lead_to_whole_disks() {
        let tree = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(tree.path()).unwrap();
        let (one, two, mirror) = (root.join("nvme0n1"), root.join("nvme1n1"), root.join("md0"));
        let queue = [("scheduler", "[none] mq-deadline\n"), ("nr_requests", "1023\n")];
        device(&one, &queue);
        device(&two, &[("rotational", "1\n"), ("write_cache", "write back\n")]);
        device(&mirror, &[("scheduler", "none\n")]);
        for (disk, name) in [(&one, "nvme0n1p1"), (&two, "nvme1n1p1")] {
            fs::create_dir(disk.join(name)).unwrap();
            fs::write(disk.join(name).join("partition"), "1\n").unwrap();
            fs::create_dir_all(mirror.join("slaves")).unwrap();
            symlink(disk.join(name), mirror.join("slaves").join(name)).unwrap();
        }
        let mut found = Vec::new();
        collect(&mirror, &mut found);
        let names: Vec<&str> = found.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["md0", "nvme0n1", "nvme1n1"]);
        assert_eq!(found[0].scheduler.as_deref(), Some("none"));
        assert_eq!((found[1].scheduler.as_deref(), found[1].requests), (Some("none"), Some(1023)));
        assert_eq!((found[1].rotational, found[2].rotational), (None, Some(true)));
    }

    #[test]
    fn a_device_that_is_no_disk_has_none() {
        assert_eq!(below(rustix::fs::makedev(0, 0xfffff), "tmpfs"), []);
    }
}
