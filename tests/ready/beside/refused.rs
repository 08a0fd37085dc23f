//! What is taken back, and where nothing can be made beside.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    process::Command,
};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use unsnap_test_support::{
    Bound, Site, available,
    ledger::{Expected, Ledger, look, small_archive, small_pair},
    skip, skip_unsupported, until,
};
use unsnap_testkit::scratch::{ScratchFs, Tmpfs};

use super::{old_and_new, prepare, ready_beside, used, validator_on};
use crate::fastboot;

#[test]
fn it_can_be_withdrawn() {
    let site = Site::new();
    let (ledger, old, _) = ready_beside(&site, 2);
    let lock = validator_on(&ledger);
    let before = used(&ledger);
    let withdraw = |flags: &[&str]| fastboot("withdraw", &ledger, flags).assert_code(0).json();
    assert_eq!(withdraw(&["--beside", "--format=json"]), json!([110]));
    assert!(used(&ledger) == before, "the validator's own was touched");
    old.assert_prepared(&ledger, 3, "what lay ready is gone");
    assert_eq!(withdraw(&["--beside", "--format=json"]), json!([]));
    drop(lock);
    prepare(&ledger, &["--beside"]);
    let report = fastboot("repair", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report, json!({ "outcome": "was-whole", "slot": 50 }));
    assert!(ledger.beside().mark(110).exists(), "repair leaves it alone");
    assert_eq!(withdraw(&["--format=json"]), json!([50, 110]));
    ledger.assert_tidy("withdrawn");
    assert_eq!(look(&ledger.snapshots, &ledger.accounts), Ok(None));
}

#[test]
fn two_at_a_time() {
    let site = Site::new();
    let (ledger, _, new) = ready_beside(&site, 1);
    let lock = File::open(&ledger.beside().snapshots).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let refused = |action: &str, flags: &[&str]| {
        let told = fastboot(action, &ledger, flags).assert_code(4);
        told.assert_error(&["another process is unpacking to", ".unsnap-ready"]);
    };
    refused("prepare", &["-q", "--beside", "--replace"]);
    refused("withdraw", &[]);
    refused("withdraw", &["--beside"]);
    // Where a validator is to start, nobody is waited for.
    let before = used(&ledger.beside());
    assert_eq!(prepare(&ledger, &[])["outcome"], "prepared");
    new.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "not adopted");
    assert!(used(&ledger.beside()) == before, "somebody is at work on it");
    drop(lock);
    assert_eq!(prepare(&ledger, &[])["outcome"], "ready");
    new.assert_prepared(&ledger, 3, "of no use any more");
}

/// One that prepares in place is not competed with.
#[test]
fn another_unsnap_on_the_ledger() {
    let site = Site::new();
    let (ledger, ..) = old_and_new(&site, 1);
    // Held by a process of that name.
    let lock = ledger.root.join("ledger.lock");
    let ours = site.path("ledger-tool");
    fs::copy("/bin/sleep", &ours).unwrap();
    let mut holder = Command::new("flock")
        .args(["--exclusive", "--no-fork"])
        .arg(&lock)
        .arg(&ours)
        .arg("600")
        .spawn();
    let Ok(holder) = &mut holder else { return skip("flock is not installed") };
    let process = holder.id();
    let comm = || fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    until("it holds the lock", || comm().trim() == "ledger-tool");
    let told = fs::read_to_string("/proc/locks").unwrap();
    let inode = format!(":{} ", fs::metadata(&lock).unwrap().ino());
    let known = told.lines().any(|line| line.contains(&inode));
    let outcomes =
        [&["-q"][..], &["-q", "--beside"]].map(|flags| fastboot("prepare", &ledger, flags));
    holder.kill().unwrap();
    holder.wait().unwrap();
    if !known {
        // A kernel or container that hides /proc/locks.
        return skip_unsupported("the kernel does not tell who holds a lock");
    }
    for outcome in outcomes {
        outcome.assert_code(4).assert_error(&["another process is unpacking to", "ledger"]);
    }
    assert!(!ledger.beside().snapshots.exists());
}

#[test]
fn where_nothing_can_be_moved_it_is_refused() {
    let tmpfs = || available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 32 << 20, inodes: None }));
    let (Some(disk), Some(states)) = (tmpfs(), tmpfs()) else { return };
    let refused = |ledger: &Ledger| {
        let told = fastboot("prepare", ledger, &["-q", "--beside"]).assert_code(2);
        told.assert_error(&["is on another file system than", "mount point", "hint: "]);
        ledger.assert_tidy("refused");
    };
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 2);
    if let Some(_bound) = Bound::at(ledger.run(1), disk.path()) {
        small_pair(&ledger.snapshots);
        refused(&ledger);
    }
    // A bind mount of the same file system is no better.
    let site = Site::new();
    let (ledger, ..) = old_and_new(&site, 1);
    if let Some(_bound) = Bound::at(ledger.run(0), &ledger.run(0)) {
        refused(&ledger);
    }
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    std::os::unix::fs::symlink(states.path(), ledger.states()).unwrap();
    small_pair(&ledger.snapshots);
    refused(&ledger);
    // Mounted on the accounts path itself it is no matter.
    let site = Site::new();
    let mut ledger = Ledger::new(&site.place(), 0);
    ledger.accounts = vec![disk.path().to_owned()];
    let (full, incremental) = small_pair(&ledger.snapshots);
    prepare(&ledger, &["--beside"]);
    assert_eq!(prepare(&ledger, &[])["outcome"], "adopted");
    Expected::of_files(&full, Some(&incremental)).assert_prepared(&ledger, 3, "a mount point");
}

#[test]
fn without_room_nothing_is_touched() {
    let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 8 << 20, inodes: None }))
    else {
        return;
    };
    let site = Site::new();
    let mut ledger = Ledger::new(&site.place(), 0);
    ledger.accounts = vec![disk.path().join("accounts")];
    let large = |slot: u64| {
        small_archive(&ledger.snapshots, slot, None, &[(slot - 1, 3 << 20), (slot, 700)])
    };
    let old = large(50);
    prepare(&ledger, &[]);
    let old = Expected::of_files(&old, None);
    let _lock = validator_on(&ledger);
    let before = used(&ledger);
    let ready = Expected::of_files(&large(60), None);
    prepare(&ledger, &["--beside"]);
    ready.assert_prepared(&ledger.beside(), 3, "there is room for two");
    // But not for three: what lay ready goes for what is newer.
    let newer = Expected::of_files(&large(70), None);
    prepare(&ledger, &["--beside"]);
    newer.assert_prepared(&ledger.beside(), 3, "in the place of the other");
    // What does not fit in its place either leaves it.
    let huge = small_archive(&ledger.snapshots, 80, None, &[(79, 6 << 20), (80, 700)]);
    for flags in [&["-q", "--beside"][..], &["-q", "--beside", "--replace"]] {
        let told = fastboot("prepare", &ledger, flags).assert_code(3);
        told.assert_error(&["does not fit"]);
        newer.assert_prepared(&ledger.beside(), 3, "no room");
    }
    // Found out late, nothing lies ready.
    let flags = ["-q", "--beside", "--no-preflight"];
    fastboot("prepare", &ledger, &flags).assert_code(3).assert_error(&["No space left"]);
    assert!(!ledger.beside().snapshots.exists());
    fs::remove_file(huge).unwrap();
    assert!(used(&ledger) == before, "the validator's own was touched");
    old.assert_prepared(&ledger, 3, "no room beside it");
}
