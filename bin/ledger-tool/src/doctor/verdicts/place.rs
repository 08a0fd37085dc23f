//! Checks of paths: their file systems, and the disks below them.

use std::collections::BTreeMap;

use unsnap_cli::units::{count, number, size};

use crate::doctor::{
    check::{Check, Verdict},
    facts::{Disk, Place},
};

/// Size of a mainnet snapshot (November 2026): the archive, its files, and their number.
const MAINNET_ARCHIVE_BYTES: u64 = 110_000_000_000;
const MAINNET_BYTES: u64 = 500_000_000_000;
const MAINNET_FILES: u64 = 430_000;

/// Minimum queue depth of a disk, so that a few large writes and the reader's requests do not wait
/// for each other: the number of requests that the engines keep in flight. Below 32 a virtual disk
/// idles.
const REQUESTS_MIN: u64 = 32;

pub fn file_system(place: &Place) -> Check {
    let kind = place.file_system.as_str();
    let found = format!("{kind} on {}, mounted at {}", place.source, place.mount_point);
    let check = Check::ok("file system", found);
    let remedy = "use a directory on a local disk with ext4 or XFS";
    let (verdict, consequence) = match kind {
        "ext4" | "xfs" => return check,
        "tmpfs" | "ramfs" => {
            (Verdict::Warning, "files are in memory: they do not survive a reboot")
        }
        "overlay" => (
            Verdict::Warning,
            "an overlay, such as a container's root: the file systems below it decide whether a \
             rename is durable",
        ),
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" | "ceph" | "glusterfs" => (
            Verdict::Warning,
            "a network file system: each of the 430,000 creates is a round trip, and the server \
             decides whether data is durable",
        ),
        "fuse" | "fuseblk" => (
            Verdict::Warning,
            "a file system in user space: its program decides whether data is durable",
        ),
        "zfs" => (
            Verdict::Warning,
            "it compresses and checksums all data, and has no direct I/O before 2.3: writes cost \
             processor time",
        ),
        "btrfs" | "bcachefs" => (
            Verdict::Warning,
            "copy on write: all data is checksummed and, if compressed, goes through the page \
             cache",
        ),
        "" => (Verdict::Note, "unknown: it is not in /proc/self/mountinfo"),
        _ => (Verdict::Note, "crash safety has been tested on ext4 and XFS only"),
    };
    let check = check.but(verdict, consequence);
    if verdict.is_bad() { check.remedy(remedy) } else { check }
}

pub fn mount_options(place: &Place) -> Option<Check> {
    let has = |option: &str| place.options.iter().any(|found| found == option);
    let check = Check::ok("mount options", place.options.join(","));
    let remount = |option| format!("mount -o remount,{option} {}", place.mount_point);
    if has("ro") {
        if place.is_directory {
            return Some(check.but(Verdict::Problem, "read-only").remedy(remount("rw")));
        }
        return Some(check);
    }
    if !place.is_directory {
        return None;
    }
    if has("nobarrier") || has("barrier=0") {
        let why = "a power cut loses data that unsnap has reported as durable";
        return Some(check.but(Verdict::Problem, why).remedy(remount("barrier=1")));
    }
    if has("data=journal") {
        let why = "all data is written twice, without direct I/O";
        return Some(check.but(Verdict::Warning, why).remedy("data=ordered in /etc/fstab"));
    }
    if has("sync") || has("dirsync") {
        let why = "every create waits for the disk";
        return Some(check.but(Verdict::Warning, why).remedy(remount("async")));
    }
    if has("discard") {
        let why = "removing an old snapshot discards its blocks at once, which can delay writes";
        let remedy = "nodiscard in /etc/fstab, and systemctl enable --now fstrim.timer";
        return Some(check.but(Verdict::Note, why).remedy(remedy));
    }
    Some(check)
}

pub fn writable(place: &Place) -> Option<Check> {
    if !place.is_directory {
        return None;
    }
    let id = "writable";
    Some(match &place.write_error {
        None => Check::ok(id, "yes"),
        Some(error) => Check::ok(id, format!("no: {error}"))
            .but(Verdict::Problem, "this user cannot unpack anything here")
            .remedy("run as the validator's user, or add ReadWritePaths= to the unit"),
    })
}

pub fn direct_io(place: &Place) -> Option<Check> {
    let id = "direct I/O";
    let direct = &place.direct;
    let (what, consequence) = if place.is_directory {
        (
            "writes",
            "all data is written through the page cache, which costs processor time and pushes \
             other data out of memory",
        )
    } else {
        (
            "reads",
            "the archive is read through the page cache, which costs processor time and pushes \
             other data out of memory",
        )
    };
    let alignment = match (direct.offset_align, direct.memory_align) {
        (Some(offset), Some(memory)) => {
            format!("; alignment {offset} bytes in the file, {memory} in memory")
        }
        _ => "; the kernel does not report the alignment".to_owned(),
    };
    let remedy = "use ext4 or XFS on a local disk; --use-direct-io=on makes this an error";
    Some(match direct.works {
        None => return None,
        Some(true) if direct.declared == Some(false) => {
            // Some file systems accept the flag and then copy through the page cache.
            Check::ok(id, format!("{what} are accepted, but not direct"))
                .but(Verdict::Warning, consequence)
                .remedy(remedy)
        }
        Some(true) => {
            let check = Check::ok(id, format!("{what} work{alignment}"));
            match direct.offset_align {
                Some(align) if align > 4096 => {
                    let why = "blocks are too large: files are written through the page cache";
                    check.but(Verdict::Warning, why).remedy(remedy)
                }
                _ => check,
            }
        }
        Some(false) => {
            let error = direct.error.as_deref().unwrap_or("unknown error");
            Check::ok(id, format!("not supported: {error}"))
                .but(Verdict::Warning, consequence)
                .remedy(remedy)
        }
    })
}

pub fn space(place: &Place) -> Option<Check> {
    if !place.is_directory {
        return None;
    }
    let free = place.free_bytes;
    let check = Check::ok("space", format!("{} of {} free", size(free), size(place.total_bytes)));
    if free >= MAINNET_BYTES + MAINNET_ARCHIVE_BYTES {
        return Some(check);
    }
    if free >= MAINNET_BYTES {
        let why = format!(
            "enough for a mainnet snapshot ({}), but not for its archive ({}) as well",
            size(MAINNET_BYTES),
            size(MAINNET_ARCHIVE_BYTES)
        );
        return Some(check.but(Verdict::Note, why));
    }
    let why = format!(
        "too small for a mainnet snapshot ({}), which unsnap would refuse; smaller ones fit",
        size(MAINNET_BYTES)
    );
    Some(check.but(Verdict::Note, why).remedy("use a larger disk, or remove old snapshots"))
}

pub fn inodes(place: &Place) -> Option<Check> {
    if !place.is_directory {
        return None;
    }
    let id = "inodes";
    let Some(free) = place.free_inodes else { return Some(Check::ok(id, "no limit")) };
    let check = Check::ok(id, format!("{} free", number(free)));
    if free >= MAINNET_FILES {
        return Some(check);
    }
    let why = format!("a mainnet snapshot has {}", count(MAINNET_FILES, "file"));
    let remedy = "mkfs.ext4 -i 65536 (or XFS, which allocates inodes as needed)";
    Some(check.but(Verdict::Note, why).remedy(remedy))
}

pub fn disk(disk: &Disk) -> Check {
    let parts = [
        disk.scheduler.as_ref().map(|name| format!("scheduler {name}")),
        disk.requests.map(|requests| format!("queue depth {requests}")),
        disk.rotational.map(|turns| if turns { "rotational" } else { "not rotational" }.to_owned()),
        disk.write_cache.as_ref().map(|cache| format!("cache {cache}")),
        disk.discard_bytes.map(|bytes| if bytes > 0 { "discard" } else { "no discard" }.to_owned()),
        disk.block_bytes.map(|bytes| format!("blocks of {}", count(bytes, "byte"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let name = &disk.name;
    let check = Check::ok("disk", format!("{name}: {}", parts.join(", ")));
    let set = |file, value| format!("echo {value} > /sys/block/{name}/queue/{file}");
    if disk.scheduler.as_deref() == Some("bfq") {
        let why = "bfq is made for fairness on slow disks, and limits fast ones";
        return check.but(Verdict::Warning, why).remedy(set("scheduler", "none"));
    }
    if disk.requests.is_some_and(|requests| requests < REQUESTS_MIN) {
        let why = "the queue is too short to keep the disk busy";
        return check.but(Verdict::Warning, why).remedy(set("nr_requests", "256"));
    }
    if disk.rotational == Some(true) {
        // Virtual disks report this whatever they are (virtio does by default).
        if name.starts_with("vd") || name.starts_with("xvd") {
            let why = "virtual disks report this whatever they are: measure it";
            return check.but(Verdict::Note, why).remedy("ledger-tool bench --output DIR");
        }
        let why = "a rotating disk: every file costs a seek";
        return check.but(Verdict::Warning, why).remedy("use an NVMe disk");
    }
    check
}

/// Groups several paths by their file systems.
pub fn together(places: &[Place]) -> Option<Check> {
    if places.len() < 2 {
        return None;
    }
    let mut systems: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for place in places {
        systems.entry(place.device).or_default().push(&place.path);
    }
    let groups: Vec<String> = systems.values().map(|paths| paths.join(" and ")).collect();
    let check = Check::ok("file systems", groups.join("; "));
    if systems.len() == places.len() {
        return Some(check);
    }
    let why = "paths on one file system share its space and its disk";
    Some(check.but(Verdict::Note, why).remedy("use a separate disk for accounts"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::facts::Direct;

    fn place(kind: &str, options: &[&str]) -> Place {
        Place {
            path: "/mnt".to_owned(),
            is_directory: true,
            file_system: kind.to_owned(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..Place::default()
        }
    }

    #[test]
    fn file_systems_are_recommended_or_have_consequences() {
        let verdict = |kind| file_system(&place(kind, &[])).verdict;
        assert_eq!((verdict("ext4"), verdict("xfs")), (Verdict::Ok, Verdict::Ok));
        for kind in ["tmpfs", "overlay", "nfs4", "zfs", "btrfs", "fuse"] {
            let check = file_system(&place(kind, &[]));
            assert_eq!(check.verdict, Verdict::Warning, "{kind}");
            assert!(check.consequence.is_some() && check.remedy.is_some(), "{kind}");
        }
        assert_eq!((verdict("f2fs"), verdict("")), (Verdict::Note, Verdict::Note));
    }

    #[test]
    fn mount_options_can_be_slow_or_unsafe() {
        for (options, expected) in [
            (&["rw", "relatime"][..], Verdict::Ok),
            (&["ro"], Verdict::Problem),
            (&["rw", "nobarrier"], Verdict::Problem),
            (&["rw", "data=journal"], Verdict::Warning),
            (&["rw", "sync"], Verdict::Warning),
            (&["rw", "discard"], Verdict::Note),
        ] {
            let check = mount_options(&place("ext4", options)).unwrap();
            assert_eq!(check.verdict, expected, "{options:?}");
        }
        let archive = Place { is_directory: false, ..place("ext4", &["ro"]) };
        assert_eq!(mount_options(&archive).unwrap().verdict, Verdict::Ok);
    }

    #[test]
    fn direct_io_is_judged_by_what_works_and_not_by_what_is_declared() {
        let with = |declared, works, align| {
            let direct = Direct {
                declared,
                works: Some(works),
                offset_align: align,
                memory_align: align,
                error: (!works).then(|| "Invalid argument".to_owned()),
            };
            direct_io(&Place { direct, ..place("ext4", &[]) }).unwrap().verdict
        };
        assert_eq!(with(Some(true), true, Some(512)), Verdict::Ok);
        assert_eq!(with(None, true, None), Verdict::Ok);
        assert_eq!(with(Some(true), true, Some(65_536)), Verdict::Warning);
        assert_eq!(with(Some(false), true, None), Verdict::Warning);
        assert_eq!(with(Some(true), false, Some(512)), Verdict::Warning);
        assert_eq!(direct_io(&place("ext4", &[])), None);
        let refused = Place { write_error: Some("Read-only".to_owned()), ..place("ext4", &[]) };
        assert_eq!(writable(&refused).unwrap().verdict, Verdict::Problem);
    }

    #[test]
    fn space_is_compared_with_mainnet() {
        let with = |free_bytes, free_inodes| {
            let place = Place { free_bytes, free_inodes, ..place("ext4", &[]) };
            (space(&place).unwrap().verdict, inodes(&place).unwrap().verdict)
        };
        assert_eq!(with(2_000_000_000_000, None), (Verdict::Ok, Verdict::Ok));
        assert_eq!(with(550_000_000_000, Some(430_000)), (Verdict::Note, Verdict::Ok));
        assert_eq!(with(60_000_000_000, Some(429_999)), (Verdict::Note, Verdict::Note));
    }

    #[test]
    fn queues_are_judged() {
        let good = Disk {
            name: "nvme0n1".to_owned(),
            scheduler: Some("none".to_owned()),
            requests: Some(1023),
            rotational: Some(false),
            ..Disk::default()
        };
        assert_eq!(disk(&good).verdict, Verdict::Ok);
        let fair = Disk { scheduler: Some("bfq".to_owned()), ..good.clone() };
        let remedy = disk(&fair).remedy.unwrap();
        assert_eq!(remedy, "echo none > /sys/block/nvme0n1/queue/scheduler");
        let short = Disk { requests: Some(8), ..good.clone() };
        assert_eq!(disk(&short).verdict, Verdict::Warning);
        let turning = Disk { rotational: Some(true), ..good };
        assert_eq!(disk(&turning).verdict, Verdict::Warning);
        let virtio = Disk { name: "vda".to_owned(), ..turning };
        assert_eq!(disk(&virtio).verdict, Verdict::Note);
    }

    #[test]
    fn shared_file_systems_are_noted() {
        let on = |path: &str, device| Place { path: path.to_owned(), device, ..Place::default() };
        assert_eq!(together(&[on("/a", 1)]), None);
        assert_eq!(together(&[on("/a", 1), on("/b", 2)]).unwrap().verdict, Verdict::Ok);
        let shared = together(&[on("/a", 1), on("/b", 2), on("/c", 1)]).unwrap();
        assert_eq!((shared.verdict, shared.found.as_str()), (Verdict::Note, "/a and /c; /b"));
    }
}
