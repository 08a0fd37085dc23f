//! What is made beside a validator, and when it is adopted.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::Command,
};

use serde_json::json;
use unsnap_test_support::{
    Site, cleaned,
    ledger::{Expected, Ledger, look, names, small_archive},
    run, validator_path,
};

use super::{content, old_and_new, prepare, ready_beside, used, validator_on};
use crate::fastboot;

#[test]
fn a_running_validator_is_not_disturbed_and_what_is_adopted_is_what_would_have_been_prepared() {
    for accounts in 1..=3 {
        let site = Site::new();
        let (ledger, old, new) = old_and_new(&site, accounts);
        let lock = validator_on(&ledger);
        let before = used(&ledger);
        let report = prepare(&ledger, &["--beside"]);
        assert_eq!((&report["outcome"], &report["slot"]), (&json!("prepared"), &json!(110)));
        assert_eq!(report["directory"], json!(ledger.beside().state(110)));
        new.assert_prepared(&ledger.beside(), 3, "beside");
        // To ask is allowed, and once is enough.
        let status = fastboot("status", &ledger, &["--format=json"]).assert_code(0).json();
        assert_eq!(status["states"][0]["slot"], 50);
        let ready = json!({
            "slot": 110,
            "directory": ledger.beside().state(110),
            "condition": { "is": "whole", "storages": 7 },
            "prepared": true,
        });
        assert_eq!(status["ready"], ready);
        let told = fastboot("status", &ledger, &[]).assert_code(0).stdout;
        assert!(told.contains("\nready beside: slot 110: whole, 7 storages"), "{told}");
        let report = prepare(&ledger, &["--beside"]);
        assert_eq!((&report["outcome"], &report["slot"]), (&json!("ready"), &json!(110)));
        let told = fastboot("prepare", &ledger, &["-q"]).assert_code(4);
        told.assert_error(&["a validator is running on", "hint: ", "--beside"]);
        assert!(used(&ledger) == before, "the validator's own was touched");
        old.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "locked");

        // Each storage keeps its inode: nothing is copied.
        let inodes = |ledger: &Ledger, index: usize| {
            let run = ledger.run(index);
            let inode = |name: String| (fs::metadata(run.join(&name)).unwrap().ino(), name);
            names(&run).into_iter().map(inode).collect::<Vec<_>>()
        };
        let in_path = |index| inodes(&ledger.beside(), index);
        let ready: Vec<_> = (0..accounts).map(in_path).collect();
        drop(lock);
        let report = prepare(&ledger, &[]);
        assert_eq!((&report["outcome"], &report["slot"]), (&json!("adopted"), &json!(110)));
        assert_eq!((&report["storages"], &report["set_aside"]), (&json!(7), &json!([])));
        new.assert_prepared(&ledger, 3, "adopted");
        let adopted: Vec<_> = (0..accounts).map(|index| inodes(&ledger, index)).collect();
        assert_eq!(adopted, ready);
        for (index, path) in ledger.accounts.iter().enumerate() {
            for (inode, name) in inodes(&ledger, index) {
                let shadow = fs::metadata(path.join("unsnap-shadow").join(name)).unwrap();
                assert_eq!(shadow.ino(), inode);
            }
            assert!(path.join("snapshot").is_dir());
        }
        // What is damaged afterwards can be repaired.
        let lost = (0..accounts)
            .find_map(|index| Some(ledger.run(index).join(names(&ledger.run(index)).pop()?)));
        fs::remove_file(lost.unwrap()).unwrap();
        assert_eq!(prepare(&ledger, &[])["state"]["outcome"], "relinked");

        // With one path it is known where each storage goes.
        if accounts == 1 {
            let other = Site::new();
            let (direct, ..) = old_and_new(&other, accounts);
            assert_eq!(prepare(&direct, &[])["outcome"], "prepared");
            assert!(content(&ledger) == content(&direct), "differs from one prepared directly");
        }
    }
}

/// At most one state lies ready: the newest.
#[test]
fn what_lies_ready_follows_the_archives() {
    let site = Site::new();
    let (ledger, _, pair) = ready_beside(&site, 2);
    let _lock = validator_on(&ledger);
    let newer = small_archive(&ledger.snapshots, 120, None, &[(113, 800), (120, 9000)]);
    let newest = Expected::of_files(&newer, None);
    assert_eq!(prepare(&ledger, &["--beside"])["slot"], 120);
    newest.assert_prepared(&ledger.beside(), 3, "a newer one");
    // Older archives change nothing, unless it is to be replaced.
    fs::remove_file(newer).unwrap();
    let report = prepare(&ledger, &["--beside"]);
    assert_eq!((&report["outcome"], &report["slot"]), (&json!("ready"), &json!(120)));
    newest.assert_prepared(&ledger.beside(), 3, "older archives");
    assert_eq!(prepare(&ledger, &["--beside", "--replace"])["slot"], 110);
    pair.assert_prepared(&ledger.beside(), 3, "replaced");
    let report = prepare(&ledger, &["--beside", "--fastboot-format=5"]);
    assert_eq!(report["outcome"], "prepared");
    pair.assert_prepared(&ledger.beside(), 5, "of another form");
}

#[test]
fn what_lies_ready_is_adopted_only_if_nothing_is_newer() {
    // Archives are: it is unpacked, and what lay ready goes.
    let site = Site::new();
    let (ledger, ..) = ready_beside(&site, 2);
    let newer = small_archive(&ledger.snapshots, 120, None, &[(113, 800), (120, 9000)]);
    let newest = Expected::of_files(&newer, None);
    assert_eq!(prepare(&ledger, &[])["outcome"], "prepared");
    newest.assert_prepared(&ledger, 3, "a newer archive");
    // It is newer than archives and state.
    let site = Site::new();
    let (ledger, _, new) = ready_beside(&site, 2);
    for name in names(&ledger.snapshots).iter().filter(|name| name.contains("snapshot-1")) {
        fs::remove_file(ledger.snapshots.join(name)).unwrap();
    }
    small_archive(&ledger.snapshots, 50, None, &[(40, 900), (50, 5000)]);
    assert_eq!(prepare(&ledger, &[])["outcome"], "adopted");
    new.assert_prepared(&ledger, 3, "older archives");
    // The state is as new: nothing is made beside, and what lies there goes.
    let report = prepare(&ledger, &["--beside"]);
    assert_eq!((&report["outcome"], &report["slot"]), (&json!("ready"), &json!(110)));
    new.assert_prepared(&ledger, 3, "nothing is wanted beside");
    for flags in [&[][..], &["--beside"]] {
        let (other_site, kept) = (Site::new(), site.path("kept"));
        let (other, ..) = ready_beside(&other_site, 2);
        for (index, (to, from)) in ledger
            .accounts
            .iter()
            .chain([&ledger.snapshots])
            .zip(other.accounts.iter().chain([&other.snapshots]))
            .enumerate()
        {
            let moved = kept.join(index.to_string());
            fs::create_dir_all(&kept).unwrap();
            fs::rename(from.join(".unsnap-ready"), &moved).unwrap();
            fs::rename(moved, to.join(".unsnap-ready")).unwrap();
        }
        assert_eq!(prepare(&ledger, flags)["outcome"], "ready", "{flags:?}");
        new.assert_prepared(&ledger, 3, "of no use any more");
    }
    // Asked to replace the state, what lies ready is not taken for new.
    let site = Site::new();
    let (ledger, _, new) = ready_beside(&site, 2);
    assert_eq!(prepare(&ledger, &["--replace"])["outcome"], "prepared");
    new.assert_prepared(&ledger, 3, "replaced");
}

#[test]
fn the_front_end_adopts_what_lies_ready() {
    let site = Site::new();
    let (ledger, _, new) = ready_beside(&site, 2);
    let fake = site.write("agave-validator", b"#!/bin/sh\nexit 42\n");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let mut validator = cleaned(Command::new(validator_path()));
    let outcome = run(validator.arg(&fake).args(ledger.arguments())).assert_code(42);
    let told = "state of slot 110 is ready: adopted the prepared one, 7 storages in ";
    assert!(outcome.stderr.contains(told), "{outcome:#?}");
    new.assert_prepared(&ledger, 3, "by the front end");
}

/// A state that cannot be repaired has none above it.
#[test]
fn what_lies_ready_takes_the_place_of_what_is_withdrawn() {
    let site = Site::new();
    let (ledger, _, new) = old_and_new(&site, 1);
    prepare(&ledger, &[]);
    fs::write(ledger.state(110).join("status_cache"), "").unwrap();
    // A validator would fail on that: so beside it a new one is wanted.
    assert_eq!(prepare(&ledger, &["--beside"])["outcome"], "prepared");
    assert_eq!(prepare(&ledger, &[])["outcome"], "adopted");
    new.assert_prepared(&ledger, 3, "in the place of a damaged one");
}

#[test]
fn without_second_names() {
    let site = Site::new();
    let (ledger, _, new) = ready_beside(&site, 2);
    assert_eq!(prepare(&ledger, &["--no-shadow"])["outcome"], "adopted");
    new.assert_prepared(&ledger, 3, "they were there");
    assert!(ledger.accounts.iter().all(|path| !path.join("unsnap-shadow").exists()));
    let site = Site::new();
    let (ledger, _, new) = old_and_new(&site, 2);
    prepare(&ledger, &["--beside", "--no-shadow"]);
    assert_eq!(prepare(&ledger, &[])["outcome"], "adopted");
    new.assert_prepared(&ledger, 3, "they were not");
    assert!(ledger.accounts.iter().all(|path| !path.join("unsnap-shadow").exists()));
}
