//! What is taken back, and where nothing can be made beside.

use std::fs::{self, File};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use unsnap_test_support::{
    Bound, Site, available,
    ledger::{Expected, Ledger, look, small_archive, small_pair},
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
    let hold = |name: &str| {
        let lock = File::create(ledger.snapshots.join(name)).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        fs::write(ledger.snapshots.join(name), "4242 unpackd\n").unwrap();
        lock
    };
    let refused = |action: &str, flags: &[&str], who: &str| {
        let told = fastboot(action, &ledger, flags).assert_code(4);
        told.assert_error(&["another unsnap is at work on", who, "(process 4242, unpackd)"]);
    };
    // Somebody prepares a successor.
    let next = hold(".unsnap-next.lock");
    refused("prepare", &["-q", "--beside", "--replace"], ".unsnap-next");
    refused("withdraw", &[], ".unsnap-next");
    refused("withdraw", &["--beside"], ".unsnap-next");
    // Somebody adopts. Where a validator is to start, nobody is waited for.
    let ready = hold(".unsnap-ready.lock");
    let before = used(&ledger.beside());
    assert_eq!(prepare(&ledger, &[])["outcome"], "prepared");
    new.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "not adopted");
    assert!(used(&ledger.beside()) == before, "somebody is at work on it");
    drop(ready);
    assert_eq!(prepare(&ledger, &[])["outcome"], "ready");
    new.assert_prepared(&ledger, 3, "of no use any more");
    drop(next);
    refused_by_nobody(&ledger);
}

fn refused_by_nobody(ledger: &Ledger) {
    assert_eq!(prepare(ledger, &["--beside"])["outcome"], "ready");
    fastboot("withdraw", ledger, &[]).assert_code(0);
}

/// One that prepares in place is not competed with, and told from a validator by its own lock: names
/// of processes are cut, and locks may be hidden.
#[test]
fn another_unsnap_on_the_ledger_is_known_by_its_own_lock() {
    let site = Site::new();
    let (ledger, ..) = old_and_new(&site, 1);
    let _validator = validator_on(&ledger);
    let path = ledger.root.join(".unsnap-ledger.lock");
    let lock = File::create(&path).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    fs::write(&path, "4242 unsnap-validator\n").unwrap();
    for flags in [&["-q"][..], &["-q", "--beside"]] {
        let told = fastboot("prepare", &ledger, flags).assert_code(4);
        told.assert_error(&["another unsnap is at work on", "(process 4242, unsnap-validator)"]);
    }
    assert!(!ledger.beside().snapshots.exists() && !ledger.next().snapshots.exists());
    // What it has left in the file is no lock, and a validator may have any name.
    drop(lock);
    let told = fastboot("prepare", &ledger, &["-q"]).assert_code(4);
    told.assert_error(&["a validator is running on"]);
    assert_eq!(prepare(&ledger, &["--beside"])["outcome"], "prepared");
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
    let flags = ["-q", "--beside", "--no-preflight", "--min-free", "0"];
    fastboot("prepare", &ledger, &flags).assert_code(3).assert_error(&["No space left"]);
    newer.assert_prepared(&ledger.beside(), 3, "no room, found out late");
    fs::remove_file(huge).unwrap();
    assert!(used(&ledger) == before, "the validator's own was touched");
    old.assert_is(
        &look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(),
        "no room beside it",
    );
}
