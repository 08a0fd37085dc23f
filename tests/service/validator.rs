//! The state that a validator starts from, by the service.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};
use unsnap_test_support::{daemon::Daemon, genuine};
use unsnap_testkit::tree::read_tree;

/// A service for a validator's ledger.
fn beside_a_validator() -> Daemon {
    let daemon = Daemon::new();
    fs::create_dir(daemon.path("ledger")).unwrap();
    let ledger = daemon.path("ledger").display().to_string();
    daemon.configure(&format!(
        "[[target]]\nname = \"validator\"\nkind = \"fastboot\"\nledger = \"{ledger}\"\n"
    ));
    daemon
}

/// The genuine pair, in the order of their slots, 39 and 47.
fn genuine_pair() -> Vec<PathBuf> {
    let is_zstd = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "zst");
    let mut pair: Vec<PathBuf> = genuine().into_iter().filter(is_zstd).collect();
    pair.sort_by_key(|path| path.file_name().unwrap().to_string_lossy().starts_with("incremental"));
    assert_eq!(pair.len(), 2);
    pair
}

fn assert_loadable(daemon: &Daemon, slot: u64) {
    assert!(
        daemon.path("ledger/snapshots").join(slot.to_string()).join("fastboot_version").is_file()
    );
    assert!(!read_tree(&daemon.path("ledger/accounts/run")).unwrap().is_empty());
}

#[test]
fn a_validators_state_is_prepared() {
    let mut daemon = beside_a_validator();
    daemon.start();
    for archive in genuine_pair() {
        daemon.drop_in(&archive);
    }
    daemon.until_settled("validator", 47);
    assert_loadable(&daemon, 47);
    assert!(daemon.end(Signal::TERM).success());
    // It is found to be there.
    daemon.start();
    daemon.until_settled("validator", 47);
}

#[test]
fn while_a_validator_runs_it_is_prepared_beside_and_adopted_at_its_end() {
    let mut daemon = beside_a_validator();
    let [full, incremental] = &genuine_pair()[..] else { unreachable!() };
    daemon.start();
    daemon.drop_in(full);
    daemon.until_settled("validator", 39);
    assert_loadable(&daemon, 39);

    let lock = File::create(daemon.path("ledger/ledger.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let before = read_tree(&daemon.path("ledger/snapshots")).unwrap();
    daemon.drop_in(incremental);
    daemon.until_settled("validator", 47);
    let ready = daemon.target("validator")["results"][0]["path"].as_str().unwrap().to_owned();
    assert!(PathBuf::from(&ready).join("fastboot_version").is_file());
    assert_ne!(PathBuf::from(&ready), daemon.path("ledger/snapshots/47"));
    assert!(
        read_tree(&daemon.path("ledger/snapshots")).unwrap() == before,
        "what the validator uses was touched"
    );

    // A rescan finds that it has ended.
    drop(lock);
    daemon.until("it is where the next validator looks", |daemon| {
        let target = daemon.target("validator");
        target["state"] == "idle"
            && target["results"][0]["path"] == daemon.path("ledger/snapshots/47").to_str().unwrap()
    });
    assert_loadable(&daemon, 47);
    assert!(!PathBuf::from(ready).exists());
}
