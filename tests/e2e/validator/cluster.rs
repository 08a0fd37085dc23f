//! What would end the validator because it is of another cluster is not prepared.

use std::fs;

use super::{
    FULL, INCREMENTAL,
    fake::{Ledger, STARTED, archive, assert_state_of},
};

/// Hash and shred version of the genesis of the archives, by `solana-genesis-config` and
/// `solana-shred-version`; and the version after a hard fork at slot 50.
const GENESIS: &str = "AFpHXPzEpNfVeEprA7gTLX2h1UEhrRgt1wb4aFAXzN99";
const VERSION: &str = "30123";
const VERSION_AFTER_50: &str = "21353";

const MAINNET: &str = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";

/// A ledger with these archives and their genesis.
fn ledger(archives: &[&str]) -> Ledger {
    let ledger = Ledger::with(archives);
    let genesis = archive(FULL).parent().unwrap().join("genesis.bin");
    fs::copy(genesis, ledger.path().join("genesis.bin")).unwrap();
    ledger
}

#[test]
fn a_state_of_the_expected_cluster_is_prepared() {
    for (arguments, slot) in [
        (&["--expected-genesis-hash", GENESIS, "--expected-shred-version", VERSION][..], 47),
        // Not newer than the bank, so that the validator leaves it out.
        (&["--expected-shred-version", VERSION, "--hard-fork", "47"], 47),
        (&["--hard-fork", "50", "--expected-shred-version", VERSION_AFTER_50], 47),
    ] {
        let ledger = ledger(&[FULL, INCREMENTAL]);
        ledger.assert_ready(&ledger.start(&[], arguments), slot);
        assert_state_of(&ledger, slot, &[archive(FULL), archive(INCREMENTAL)]);
        // Once more, with the state in place.
        ledger.assert_ready(&ledger.start(&[], arguments), slot);
    }
    // The validator has to fetch the genesis.
    let ledger = ledger(&[FULL]);
    fs::remove_file(ledger.path().join("genesis.bin")).unwrap();
    ledger.assert_ready(&ledger.start(&[], &["--expected-shred-version", "7"]), 39);
}

#[test]
fn one_of_another_cluster_is_not_and_nothing_is_cleared() {
    let version = "its shred version is 30123, but the validator expects 7";
    for (arguments, told) in [
        (&["--expected-shred-version", "7"][..], version),
        (&["--hard-fork", "50", "--expected-shred-version", VERSION], VERSION_AFTER_50),
        (&["--expected-genesis-hash", MAINNET], MAINNET),
    ] {
        let ledger = ledger(&[FULL]);
        ledger.assert_ready(&ledger.start(&[], &[]), 39);
        let storages = ledger.storages();
        let newer = archive(INCREMENTAL);
        fs::copy(&newer, ledger.path().join(newer.file_name().unwrap())).unwrap();
        let outcome = ledger.start(&[], arguments);
        assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
        assert!(outcome.stderr.contains(told), "no {told:?} in {outcome:#?}");
        assert_eq!(ledger.arguments()[2..], *arguments, "{outcome:#?}");
        assert_eq!(ledger.storages(), storages);
        assert!(ledger.state(39).join("fastboot_version").exists());
        // Nor is the state in place served, or the one beside adopted.
        fs::remove_file(ledger.path().join(newer.file_name().unwrap())).unwrap();
        let outcome = ledger.start(&[], arguments);
        assert!(outcome.stderr.contains(told), "no {told:?} in {outcome:#?}");
        assert_eq!(ledger.arguments()[2..], *arguments, "{outcome:#?}");
        assert_eq!(ledger.start(&["--prepare-only"], arguments).status.code(), Some(2));
        assert_eq!(ledger.storages(), storages);
    }
}
