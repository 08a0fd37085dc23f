//! Disks that are full, and disks that promise more than they have.

use std::{fs, path::Path};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use unsnap_test_support::{
    Outcome, Site, assert_holds, assert_same_tree,
    disk::{Disk, KINDS, Kind, Options, can_lose_power, command},
    expected_tree_of, ledger_tool, run,
};
use unsnap_testkit::{compress, spec::ArchiveSpec, tar::snapshot_tar, tree::read_tree};

fn unpack(archive: &Path, output: &Path, flags: &[&str]) -> Outcome {
    let mut tool = ledger_tool();
    tool.arg("unpack").arg(archive).args(["--verify", "none", "--output"]);
    run(tool.arg(output).args(flags))
}

/// Leaves about so many bytes free, by a file that takes the rest.
fn fill(disk: &Disk, free_bytes: u64) {
    let filler = fs::File::create(disk.path().join("filler")).unwrap();
    let mut len = 0;
    loop {
        let stat = statvfs(disk.path()).unwrap();
        let free = stat.f_bavail * stat.f_frsize;
        // The file system itself needs some for the map of the file.
        if free <= free_bytes + (1 << 20) {
            break;
        }
        let more = (free - free_bytes).min(64 << 20);
        fallocate(&filler, FallocateFlags::empty(), len, more).unwrap();
        len += more;
    }
}

#[test]
fn a_full_disk() {
    if !can_lose_power() {
        return;
    }
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 60_000_000, ..ArchiveSpec::default() });
    let tiny = compress::zstd_frames(&snapshot_tar(7, &[(7, 1, vec![3; 9_000])]), 4_000, 1);
    let tiny = site.write("tiny.tar.zst", &tiny);
    for kind in KINDS {
        let Some(disk) = Disk::new(kind, &Options::default()) else { return };
        fill(&disk, 20 << 20);
        let place = disk.path().join("place");
        fs::create_dir(&place).unwrap();
        let output = place.join("output");
        for empty in [false, true] {
            if empty {
                fs::create_dir(&output).unwrap();
            }
            let before = read_tree(&place).unwrap();
            for flags in [
                ["--io-engine=auto", "--use-direct-io=auto"],
                ["--io-engine=auto", "--use-direct-io=off"],
                ["--io-engine=threads", "--use-direct-io=auto"],
            ] {
                let flags = [flags[0], flags[1], "--no-preflight"];
                let outcome = unpack(&archive, &output, &flags).assert_code(3).assert_error(&[
                    "error: cannot ",
                    output.to_str().unwrap(),
                    "No space left",
                    "hint: free space",
                ]);
                assert_eq!(outcome.stdout, "");
                let after = read_tree(&place).unwrap();
                assert_same_tree(&after, &before, format_args!("{kind:?}, {flags:?}"));
            }
        }
        unpack(&tiny, &output, &[]).assert_code(0);
        assert_holds(&output, &expected_tree_of(&tiny), format_args!("{kind:?}, after"));
    }
}

/// The device takes what it is given into a memory that is smaller than it said, so every write
/// succeeds and only syncing fails. Then somebody buys a larger disk.
#[test]
fn a_disk_that_is_full_only_when_synced() {
    if !can_lose_power() {
        return;
    }
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 60_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let expected = expected_tree_of(&archive);
    for kind in KINDS {
        // An empty XFS of this size takes 64 MiB for its log, ext4 takes little.
        let memory_bytes = if kind == Kind::Xfs { 96 << 20 } else { 40 << 20 };
        let options = Options { memory_bytes, ..Options::default() };
        let Some(mut disk) = Disk::new(kind, &options) else { return };
        let output = disk.path().join("output");
        let outcome = unpack(&archive, &output, &["--use-direct-io=off", "--no-progress"]);
        let outcome = outcome.assert_code(3).assert_error(&[output.to_str().unwrap()]);
        let told = [
            ("No space left", "hint: free space"),
            // What the kernel makes of it once the journal could not be written either.
            ("Input/output error", "hint: the disk reports errors"),
        ];
        let known = |(errno, hint)| outcome.stderr.contains(errno) && outcome.stderr.contains(hint);
        assert!(told.into_iter().any(known), "{outcome:#?}");
        assert!(fs::symlink_metadata(&output).is_err(), "{kind:?}: it has its final name");

        // What is left is the next run's to remove, once the disk is sound again.
        disk.unmount();
        let memory = disk.memory().unwrap();
        memory.remount("size=400m").unwrap();
        repair(kind, disk.device());
        disk.mount().unwrap();
        assert!(fs::symlink_metadata(&output).is_err(), "{kind:?}: it has its final name");
        unpack(&archive, &output, &[]).assert_code(0);
        assert_holds(&output, &expected, format_args!("{kind:?}, after"));
        assert!(!disk.path().join(".output.unsnap-staging").exists(), "{kind:?}");
    }
}

/// What a boot does after errors. XFS repairs itself when it is mounted.
pub fn repair(kind: Kind, device: &Path) {
    if kind == Kind::Ext4 {
        let output = command("e2fsck", &["-fy"]).arg(device).output().unwrap();
        // 1: errors were corrected.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    }
}
