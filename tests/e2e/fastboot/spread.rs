//! Several accounts paths of different sizes.

use std::fs;

use unsnap_test_support::{
    Site, available,
    ledger::{Expected, Ledger},
};
use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs},
    spec::{ArchiveSpec, FileSizes},
};

use super::fastboot;

fn tmpfs(size_bytes: u64) -> Option<ScratchFs> {
    available(ScratchFs::tmpfs(&Tmpfs { size_bytes, inodes: None }))
}

fn spec() -> ArchiveSpec {
    let file_sizes = FileSizes::Fixed(100_000);
    ArchiveSpec { total_bytes: 60_000_000, file_sizes, slot: 9000, ..ArchiveSpec::default() }
}

#[test]
fn the_fuller_path_gets_less() {
    let (Some(small), Some(large)) = (tmpfs(600 << 20), tmpfs(2400 << 20)) else { return };
    let site = Site::new();
    // Less than the bytes in flight by which a device counts as the slower one (16 MiB): on a busy
    // machine either may be, and then the space is not what counts.
    let archive = site.archive(&ArchiveSpec { total_bytes: 12_000_000, ..spec() });
    let mut ledger = Ledger::new(&site.place(), 0);
    ledger.accounts = vec![small.path().join("accounts"), large.path().join("accounts")];
    ledger.add(&archive);
    let report = fastboot("prepare", &ledger, &["--format=json"]).assert_code(0).json();
    Expected::of_files(&archive, None).assert_prepared(&ledger, 3, "two sizes");
    let bytes = |index: usize| report["report"]["accounts_paths"][index]["bytes"].as_u64().unwrap();
    assert!(bytes(0) > 0 && bytes(0) * 2 < bytes(1), "{report:#}");
}

/// Together there is room, but not for an equal share in the smaller one.
#[test]
fn a_path_that_is_full_gets_no_more() {
    let (Some(small), Some(large)) = (tmpfs(12 << 20), tmpfs(72 << 20)) else { return };
    let site = Site::new();
    let archive = site.archive(&spec());
    let mut ledger = Ledger::new(&site.place(), 0);
    ledger.accounts = vec![small.path().join("accounts"), large.path().join("accounts")];
    ledger.add(&archive);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    Expected::of_files(&archive, None).assert_prepared(&ledger, 3, "one full");
}

/// No room at all is told before anything is touched.
#[test]
fn without_room_nothing_is_touched() {
    let (Some(small), Some(large)) = (tmpfs(12 << 20), tmpfs(24 << 20)) else { return };
    let site = Site::new();
    let archive = site.archive(&spec());
    let mut ledger = Ledger::new(&site.place(), 0);
    ledger.accounts = vec![small.path().join("accounts"), large.path().join("accounts")];
    ledger.add(&archive);
    let told = fastboot("prepare", &ledger, &["-q"]).assert_code(3);
    told.assert_error(&["the archive does not fit"]);
    ledger.assert_tidy("no room");
    assert!(!ledger.state(9000).exists());
}

/// The snapshots' file system would have room if an old state were gone, and the storages' would not:
/// both are known before the old state is touched.
#[test]
fn one_of_two_that_clearing_does_not_help() {
    let (Some(states), Some(accounts)) = (tmpfs(4 << 20), tmpfs(12 << 20)) else { return };
    let site = Site::new();
    let archive = site.archive(&spec());
    let mut ledger = Ledger::new(states.path(), 0);
    ledger.accounts = vec![accounts.path().join("accounts")];
    let old = ledger.state(8000).join("old");
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    let filler = vec![1; (4 << 20) - 16_384];
    fs::write(&old, &filler).unwrap();
    let archives = archive.parent().unwrap().to_str().unwrap();
    let flags = ["-q", "--full-snapshot-archive-path", archives];
    let told = fastboot("prepare", &ledger, &flags).assert_code(3);
    let told = told.assert_error(&["the archive does not fit", accounts.path().to_str().unwrap()]);
    // That one would have room.
    assert!(!told.stderr.contains(states.path().to_str().unwrap()), "{told:#?}");
    assert!(fs::read(&old).unwrap() == filler, "the old state was touched");

    // What takes the space is none of ours: then both are short.
    let foreign = states.path().join("foreign");
    fs::rename(&old, &foreign).unwrap();
    let told = fastboot("prepare", &ledger, &flags).assert_code(3);
    let of = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    told.assert_error(&[&of(states.path()), "; about ", &of(accounts.path())]);
    assert!(fs::read(&foreign).unwrap() == filler);
}
