//! What a resumable run has completed when the disk is full is used by the next one.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use rustix::fs::statvfs;
use unsnap_test_support::{Site, assert_holds, available, expected_tree_of, ledger_tool, run};
use unsnap_testkit::{
    scratch::{Ext4, ScratchFs, Tmpfs},
    spec::{ArchiveSpec, FileSizes, Frames},
};

/// Room that is left for an archive of twice this size. Many times more files fit than are in flight:
/// those in front of the one that fails are kept.
const ROOM_BYTES: u64 = 30_000_000;

/// Fills a file system up to the room, with a file that can be removed.
fn fill(disk: &ScratchFs, ballast: &Path) {
    let stat = statvfs(disk.path()).unwrap();
    let mut left = (stat.f_bavail * stat.f_frsize).saturating_sub(ROOM_BYTES);
    let mut ballast = File::create(ballast).unwrap();
    let zeros = vec![0; 1 << 20];
    while left > 0 {
        let count = left.min(1 << 20);
        ballast.write_all(&zeros[..usize::try_from(count).unwrap()]).unwrap();
        left -= count;
    }
    ballast.sync_all().unwrap();
}

/// Unpacks until the disk is full, far ahead of the first regular checkpoint, makes room and resumes.
fn assert_resumed(disk: &ScratchFs, file_bytes: u64, flags: &[&str]) {
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec {
        total_bytes: 2 * ROOM_BYTES,
        file_sizes: FileSizes::Fixed(file_bytes),
        frames: Frames::Sized(100_000),
        ..ArchiveSpec::default()
    });
    let (ballast, output) = (disk.path().join("ballast"), disk.path().join("output"));
    let staging = disk.path().join(".output.unsnap-staging");
    fill(disk, &ballast);
    let tool = || {
        let mut tool = ledger_tool();
        tool.arg("unpack").arg(&archive).arg("--output").arg(&output);
        tool.args(["--resume", "--no-preflight", "--format=json"]).args(flags);
        tool
    };
    run(&mut tool()).assert_code(3).assert_error(&["error: cannot ", "No space left"]);
    assert!(staging.join(".unsnap-journal").exists(), "{flags:?}: nothing was kept");
    assert!(!output.exists());

    fs::remove_file(&ballast).unwrap();
    let report = run(&mut tool()).assert_code(0).json();
    let resumed = report["resumed"]["bytes"].as_u64().unwrap();
    assert!((ROOM_BYTES / 4..ROOM_BYTES).contains(&resumed), "{flags:?}: {resumed}");
    assert_holds(&output, &expected_tree_of(&archive), format_args!("{flags:?}"));
    assert!(!staging.exists());
    fs::remove_dir_all(&output).unwrap();
}

/// Through the page cache and directly, whole files and files of several writes.
fn assert_all_resumed(disk: &ScratchFs) {
    assert_resumed(disk, 80_000, &["--io-engine=auto"]);
    assert_resumed(disk, 80_000, &["--io-engine=uring"]);
    assert_resumed(disk, 300_000, &["--io-engine=auto"]);
    assert_resumed(disk, 300_000, &["--io-engine=threads", "--use-direct-io=off"]);
}

#[test]
fn on_ext4() {
    let options = Ext4 { size_bytes: 96 << 20, ..Ext4::default() };
    let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
    assert_all_resumed(&disk);
}

#[test]
fn on_tmpfs() {
    let options = Tmpfs { size_bytes: 64 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    assert_all_resumed(&disk);
}
