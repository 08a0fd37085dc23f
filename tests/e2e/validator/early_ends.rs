//! States with which validators end early.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

use super::{
    FULL, INCREMENTAL,
    fake::{Ledger, STARTED, archive, assert_state_of},
};

#[test]
fn a_state_with_which_validators_end_early_gives_way_to_the_next_pair_and_then_to_none() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    // The fake validator ends at once.
    let start = || ledger.start(&["--attempts", "2"], &[]);
    for told in ["unpacked 48 storages", "1 validator started from the state of slot 47 and ended"]
    {
        let outcome = start();
        ledger.assert_ready(&outcome, 47);
        assert!(outcome.stderr.contains(told), "{outcome:#?}");
    }
    for told in ["withdrew the state of slot 47", "it existed already"] {
        let outcome = start();
        assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
        assert!(outcome.stderr.contains("state of slot 39 is ready"), "{outcome:#?}");
        assert!(outcome.stderr.contains(told), "{outcome:#?}");
        assert_eq!(ledger.arguments()[2..], ["--use-snapshot-archives-at-startup", "never"]);
        assert!(!ledger.state(47).join("fastboot_version").exists());
        assert_state_of(&ledger, 39, &[archive(FULL)]);
    }
    // The archives are checked once.
    for told in ["validators have ended early with the state of slot 47", "nothing is prepared"] {
        let outcome = start();
        ledger.assert_as_it_is(&outcome, &[], told);
        assert!(outcome.stderr.contains("validators have ended early"), "{outcome:#?}");
    }
    // The operator insists.
    let outcome = ledger.start(&["--attempts", "2", "--replace"], &[]);
    ledger.assert_ready(&outcome, 47);
}

#[test]
fn without_room_for_another_one_a_validator_that_takes_nothing_but_states_keeps_its_own() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let never = ["--use-snapshot-archives-at-startup", "never"];
    for _ in 0..2 {
        let outcome = ledger.start(&["--attempts", "2"], &never);
        assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
        assert_state_of(&ledger, 47, &[archive(FULL), archive(INCREMENTAL)]);
    }
    let outcome = ledger.start(&["--attempts", "2", "--min-free", "1000TB"], &never);
    assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
    for told in ["withdrew the state of slot 47", "does not fit", "served again after all"] {
        assert!(outcome.stderr.contains(told), "{told}: {outcome:#?}");
    }
    assert_state_of(&ledger, 47, &[archive(FULL), archive(INCREMENTAL)]);
    // With room, an older one takes its place.
    let outcome = ledger.start(&["--attempts", "2"], &never);
    assert!(outcome.stderr.contains("state of slot 39 is ready"), "{outcome:#?}");
    assert_state_of(&ledger, 39, &[archive(FULL)]);
}

#[test]
fn a_state_with_a_changed_byte_is_found_when_a_validator_has_ended_with_it() {
    for archive_use in ["when-newest", "never"] {
        let ledger = Ledger::with(&[FULL]);
        let start = || {
            ledger.start(&["--attempts", "2"], &["--use-snapshot-archives-at-startup", archive_use])
        };
        assert_eq!(start().status.code(), Some(STARTED));
        let storages = || {
            let files = fs::read_dir(ledger.run_directory()).unwrap();
            files
                .map(|file| file.unwrap().path())
                .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("39."))
        };
        let path = storages().unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        // The lowest byte of the first account's lamports.
        let (at, mut byte) = (48, [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        drop(file);
        let outcome = start();
        let told = &outcome.stderr;
        assert!(told.contains("its accounts are verified before it is served again"), "{told}");
        assert!(told.contains("the state is damaged and was withdrawn"), "{told}");
        assert!(told.contains("state of slot 39 is ready: unpacked"), "{told}");
        assert_state_of(&ledger, 39, &[archive(FULL)]);
        // A good one is served again.
        let ledger = Ledger::with(&[FULL]);
        for told in ["unpacked", "it existed already"] {
            let words = ["--use-snapshot-archives-at-startup", archive_use];
            let outcome = ledger.start(&["--attempts", "2"], &words);
            assert!(outcome.stderr.contains(told), "{outcome:#?}");
        }
    }
}
