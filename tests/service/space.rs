//! Beside a running validator, min-free stays free: what serves only a later start goes.

use std::{
    fs::{self, File},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{FlockOperation, flock, statvfs},
    process::Signal,
};
use serde_json::{Value, json};
use unsnap_test_support::{
    available,
    daemon::Daemon,
    ledger::{Ledger, names, small_archive},
};
use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs},
    tree::read_tree,
};

const MIB: u64 = 1 << 20;
const MIN_FREE: u64 = 16 * MIB;

/// A service for a validator's ledger that prepares every newer snapshot.
fn beside_a_validator(ledger: &Ledger, rest: &str) -> Daemon {
    let daemon = Daemon::new();
    daemon.configure(&format!(
        "[[target]]\nname = \"validator\"\nkind = \"fastboot\"\nledger = \"{}\"\naccounts = [\"{}\"]\n\
         {rest}[cadence]\nmin-slots = 0\n",
        ledger.root.display(),
        ledger.accounts[0].display(),
    ));
    daemon
}

/// Holds the ledger's lock, as a validator does.
fn validator_on(ledger: &Ledger) -> OwnedFd {
    let lock = File::create(ledger.root.join("ledger.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    lock.into()
}

fn free(path: &Path) -> u64 {
    let space = statvfs(path).unwrap();
    space.f_bavail * space.f_frsize
}

/// Another program takes so much that this much is free.
fn fill(disk: &Path, name: &str, left: u64) {
    let bytes = usize::try_from(free(disk) - left).unwrap();
    fs::write(disk.join(name), vec![1; bytes]).unwrap();
}

/// Value of a counter or gauge of the target.
fn metric(daemon: &Daemon, name: &str) -> Option<u64> {
    let text = daemon.ask(&json!({"request": "metrics"})).unwrap();
    let series = format!("{name}{{target=\"validator\"}} ");
    let mut lines = text["text"].as_str().unwrap().lines();
    lines.find_map(|line| line.strip_prefix(&series)).map(|value| value.parse().unwrap())
}

const SHADOW_REMOVED: &str = "unsnap_shadow_removed_total";
const READY_DISCARDED: &str = "unsnap_ready_discarded_total";

#[test]
fn beside_a_validator_the_shadow_goes_first_then_the_ready_state_and_min_free_holds() {
    let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 64 * MIB, inodes: None }))
    else {
        return;
    };
    let disk = disk.path();
    let ledger = Ledger::new(disk, 1);
    let neighbour = format!("[neighbour]\nmin-free = \"{MIN_FREE}\"\n");
    let mut daemon = beside_a_validator(&ledger, &neighbour);
    daemon.start();
    let archives = [(100, 99), (110, 109)].map(|(slot, storage)| {
        small_archive(&daemon.path("stock"), slot, None, &[(storage, 6 << 20), (slot, 2 << 20)])
    });
    daemon.drop_in(&archives[0]);
    daemon.until_settled("validator", 100);
    assert!(ledger.mark(100).is_file());
    let _lock = validator_on(&ledger);
    daemon.drop_in(&archives[1]);
    daemon.until_settled("validator", 110);
    let ready = ledger.beside();
    assert!(ready.mark(110).is_file());
    daemon.until("what it takes is told", |daemon| {
        let kept = daemon.status()["disks"][0]["kept"].clone();
        let ready =
            |kept: &Value| kept["what"] == "ready" && kept["bytes"].as_u64() > Some(8 * MIB);
        kept.as_array().unwrap().iter().any(ready)
    });

    // The validator shrinks its storages: the shadow keeps the old one on the disk.
    let large = names(&ledger.run(0)).into_iter().find(|name| name.starts_with("99.")).unwrap();
    fs::remove_file(ledger.run(0).join(&large)).unwrap();
    fill(disk, "others", MIN_FREE - MIB);
    daemon.until("the shadow is gone", |daemon| metric(daemon, SHADOW_REMOVED) == Some(1));
    daemon.until("its space is free", |_| free(disk) >= MIN_FREE);
    let told = daemon.status()["recent"].clone();
    let of_shadow = |line: &Value| line["event"] == "space-short" && line["shadow_removed"] == true;
    assert!(told.as_array().unwrap().iter().any(of_shadow), "{told:#}");
    // A state that has lost a storage, and cannot be repaired, is none.
    assert!(!ledger.mark(100).exists() && !ledger.accounts[0].join("unsnap-shadow").exists());
    assert!(ready.mark(110).is_file());
    assert_eq!(metric(&daemon, READY_DISCARDED), Some(0));
    assert!(
        daemon
            .log()
            .contains("space is short, removing the shadow of the state in use: 15.0 MiB are free")
    );
    let run = read_tree(&ledger.run(0)).unwrap();

    // There is no shadow any more.
    fill(disk, "more", MIN_FREE - MIB);
    daemon.until("nothing is ready", |daemon| metric(daemon, READY_DISCARDED) == Some(1));
    assert!(!ready.mark(110).exists());
    daemon.until("its space is free", |_| free(disk) >= MIN_FREE + 6 * MIB);
    assert!(daemon.log().contains("space is short, discarding the ready state: 15.0 MiB are free"));
    // The next one would not leave min-free.
    daemon.until("it is told why", |daemon| {
        let told = daemon.target("validator").to_string();
        told.contains("does not fit") && told.contains("min-free")
    });
    assert!(free(disk) >= MIN_FREE);
    assert_eq!(metric(&daemon, SHADOW_REMOVED), Some(1));

    // Where nothing can be given back, nothing is touched.
    fill(disk, "most", MIN_FREE - MIB);
    daemon.until("it is told", |daemon| {
        daemon.log().contains("space is short, and nothing can be given back")
    });
    assert!(read_tree(&ledger.run(0)).unwrap() == run, "the validator's own was touched");
    assert!(daemon.end(Signal::TERM).success());
}

#[test]
fn without_a_validator_nothing_is_given_back() {
    let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 64 * MIB, inodes: None }))
    else {
        return;
    };
    let disk = disk.path();
    let ledger = Ledger::new(disk, 1);
    let neighbour = format!("[neighbour]\nmin-free = \"{MIN_FREE}\"\n");
    let mut daemon = beside_a_validator(&ledger, &neighbour);
    daemon.start();
    let stock = daemon.path("stock");
    daemon.drop_in(&small_archive(&stock, 100, None, &[(99, 6 << 20), (100, 2 << 20)]));
    daemon.until_settled("validator", 100);
    fs::remove_file(ledger.run(0).join(names(&ledger.run(0)).pop().unwrap())).unwrap();
    fill(disk, "others", MIN_FREE - MIB);
    daemon.until("it has looked", |daemon| {
        daemon.log().contains("space is short, and nothing can be given back")
    });
    // The shadow repairs the state at the next start.
    assert!(ledger.mark(100).is_file() && ledger.accounts[0].join("unsnap-shadow").is_dir());
}

#[test]
fn what_nobody_needs_any_more_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let ledger = Ledger::new(place.path(), 1);
    let mut daemon = beside_a_validator(&ledger, "");
    daemon.edit("settle = \"1s\"\n", "settle = \"1s\"\nbad-archives-max-age = \"1s\"\n");
    daemon.start();
    let stock = daemon.path("stock");
    daemon.drop_in(&small_archive(&stock, 100, None, &[(99, 6000), (100, 2000)]));
    daemon.until_settled("validator", 100);
    let _lock = validator_on(&ledger);
    let archive = small_archive(&daemon.path("stock"), 120, None, &[(120, 2000)]);
    let name = archive.file_name().unwrap().to_str().unwrap();
    let bad = daemon.path("archives").join(format!("{name}.unsnap-bad"));
    let other = daemon.path("archives").join("notes.unsnap-bad");
    for path in [&bad, &other] {
        fs::copy(&archive, path).unwrap();
    }
    let left = [
        ledger.accounts[0].join(".unsnap-removed-7"),
        ledger.accounts[0].join(".unsnap-staged-run"),
        ledger.snapshots.join(".unsnap-staged-state"),
    ];
    for path in &left {
        fs::create_dir(path).unwrap();
        fs::write(path.join("file"), "left").unwrap();
    }
    daemon.until("old files are gone", |_| !bad.exists() && !left.iter().any(|path| path.exists()));
    assert!(other.exists());
    let shadow = ledger.accounts[0].join("unsnap-shadow");
    assert!(shadow.is_dir() && metric(&daemon, SHADOW_REMOVED) == Some(0));
    // The validator removes the state it started from.
    fs::remove_dir_all(ledger.state(100)).unwrap();
    daemon.until("its shadow is gone", |daemon| metric(daemon, SHADOW_REMOVED) == Some(1));
    assert!(!shadow.exists());
    // The next state may be ready by now.
    daemon.until("nothing is left", |_| {
        ledger.left_over().iter().all(|path| path.ends_with(".unsnap-ready"))
    });
}
