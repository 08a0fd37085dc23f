//! What is damaged, bad or left over.

use std::{
    fs::{self, File},
    path::Path,
};

use serde_json::json;
use unsnap_test_support::{
    Site,
    ledger::{Ledger, look, names, small_archive},
};

use super::{old_and_new, prepare, ready_beside, used, validator_on};
use crate::fastboot;

#[test]
fn what_is_damaged_is_not_adopted() {
    type Damage = fn(&Ledger);
    let damages: [(&str, Damage); 7] = [
        ("a storage is missing", |ready| fs::remove_file(ready.run(0).join("91.2")).unwrap()),
        ("a storage is cut", |ready| {
            fs::write(ready.run(0).join("91.2"), "cut").unwrap();
        }),
        ("it is not marked", |ready| fs::remove_file(ready.mark(110)).unwrap()),
        ("the list of storages is cut", |ready| {
            let list = ready.state(110).join("storages_list");
            let bytes = fs::read(&list).unwrap();
            fs::write(list, &bytes[1..]).unwrap();
        }),
        // What an adoption leaves that was cut short.
        ("its storages have been moved", |ready| {
            fs::rename(ready.run(0), ready.accounts[0].join("../unsnap-moved")).unwrap();
        }),
        ("its state has no directory", |ready| {
            fs::remove_dir_all(&ready.snapshots).unwrap();
        }),
        ("it is no directory", |ready| {
            fs::remove_dir_all(&ready.accounts[0]).unwrap();
            fs::write(&ready.accounts[0], "a file").unwrap();
        }),
    ];
    for (what, damage) in damages {
        for beside in [false, true] {
            let site = Site::new();
            let (ledger, old, new) = ready_beside(&site, 1);
            damage(&ledger.beside());
            if beside && what != "it is no directory" {
                assert_eq!(prepare(&ledger, &["--beside"])["outcome"], "prepared", "{what}");
                new.assert_prepared(&ledger.beside(), 3, what);
                let found = look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap();
                old.assert_is(&found, what);
            }
            let outcome = &prepare(&ledger, &[])["outcome"];
            let expected = beside && what != "it is no directory";
            assert_eq!(outcome, if expected { "adopted" } else { "prepared" }, "{what}");
            new.assert_prepared(&ledger, 3, what);
        }
    }
}

#[test]
fn bad_archives_are_set_aside_beside_a_validator() {
    let site = Site::new();
    let (ledger, old, new) = old_and_new(&site, 1);
    let _lock = validator_on(&ledger);
    let bad = small_archive(&ledger.snapshots, 120, Some(100), &[(101, 9000), (120, 70_000)]);
    let bytes = fs::metadata(&bad).unwrap().len();
    File::options().write(true).open(&bad).unwrap().set_len(bytes - 40).unwrap();
    let report = prepare(&ledger, &["--beside"]);
    assert_eq!((&report["slot"], &report["set_aside"][0]["path"]), (&json!(110), &json!(bad)));
    new.assert_prepared(&ledger.beside(), 3, "the next best");
    assert!(!bad.exists());
    old.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "the old one");

    // With nothing else to take it keeps its name, and what lies ready stays only as long as it fits.
    let site = Site::new();
    let (ledger, old, _) = old_and_new(&site, 1);
    for name in names(&ledger.snapshots).iter().filter(|name| name.contains("snapshot-1")) {
        let archive = ledger.snapshots.join(name);
        let bytes = fs::metadata(&archive).unwrap().len();
        File::options().write(true).open(&archive).unwrap().set_len(bytes - 40).unwrap();
    }
    fastboot("prepare", &ledger, &["-q", "--beside"]).assert_code(1);
    assert_eq!(names(&ledger.snapshots).iter().filter(|name| name.ends_with("-bad")).count(), 0);
    old.assert_prepared(&ledger, 3, "nothing good");
}

/// What others have left, in a validator's places and beside, takes space.
#[test]
fn what_killed_runs_have_left_goes() {
    let site = Site::new();
    let (ledger, old, new) = old_and_new(&site, 1);
    let litter = |ledger: &Ledger| {
        for holder in [&ledger.accounts[0], &ledger.snapshots] {
            fs::create_dir_all(holder.join(".unsnap-removed-7/deep")).unwrap();
            fs::write(holder.join(".unsnap-removed-7/deep/1.1"), "x").unwrap();
        }
        for staged in [".unsnap-staged-run", ".unsnap-staged-shadow"] {
            fs::create_dir_all(ledger.accounts[0].join(staged)).unwrap();
            fs::write(ledger.accounts[0].join(staged).join("1.1"), "x").unwrap();
        }
        let staged = ledger.snapshots.join(".unsnap-staged-state");
        fs::create_dir_all(&staged).unwrap();
        fs::write(staged.join("version"), "x").unwrap();
    };
    for outcome in ["prepared", "ready"] {
        let before = used(&ledger);
        litter(&ledger);
        litter(&ledger.beside());
        assert_eq!(prepare(&ledger, &["--beside"])["outcome"], outcome);
        new.assert_prepared(&ledger.beside(), 3, outcome);
        let ready = [&ledger.accounts[0], &ledger.snapshots].map(|path| path.join(".unsnap-ready"));
        let mut ready = ready.to_vec();
        ready.sort();
        assert_eq!(ledger.left_over(), ready, "{outcome}");
        assert!(used(&ledger) == before, "the validator's own was touched");
    }
    old.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "the old one");
    litter(&ledger);
    litter(&ledger.beside());
    assert_eq!(prepare(&ledger, &[])["outcome"], "adopted");
    new.assert_prepared(&ledger, 3, "adopted");
    assert!(Path::new(&site.place()).join("neighbour").exists());
}
