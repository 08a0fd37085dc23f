//! `status`, `repair` and `withdraw`, by the program.

use std::{fs, path::Path};

use serde_json::json;
use unsnap_test_support::{
    Site,
    ledger::{Expected, Ledger, look, names, small_archive, small_pair},
};

use super::fastboot;

fn prepared_ledger(site: &Site, accounts: usize) -> (Ledger, Expected) {
    let ledger = Ledger::new(&site.place(), accounts);
    let (full, incremental) = small_pair(&ledger.snapshots);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    let expected = Expected::of_files(&full, Some(&incremental));
    expected.assert_prepared(&ledger, 3, "at first");
    (ledger, expected)
}

/// Where a storage is.
fn storage(ledger: &Ledger, name: &str) -> std::path::PathBuf {
    let mut places = (0..ledger.accounts.len()).map(|index| ledger.run(index).join(name));
    places.find(|path| path.exists()).unwrap()
}

#[test]
fn what_there_is_can_be_asked_for() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    let status = |code| fastboot("status", &ledger, &["--format=json"]).assert_code(code).json();
    assert_eq!(status(0), json!({ "states": [] }));
    small_pair(&ledger.snapshots);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    let whole = json!({ "states": [{
        "slot": 110,
        "directory": ledger.state(110),
        "condition": { "is": "whole", "storages": 7 },
        "prepared": true,
    }] });
    assert_eq!(status(0), whole);
    let text = fastboot("status", &ledger, &[]).assert_code(0).stdout;
    assert!(text.starts_with("slot 110: whole, 7 storages ("), "{text}");

    fs::remove_file(ledger.run(0).join("91.2")).unwrap();
    let damaged = json!({ "is": "damaged", "lost": 1, "storages": 7, "repairable": true });
    assert_eq!(status(1)["states"][0]["condition"], damaged);
    let told = fastboot("status", &ledger, &[]).assert_code(1);
    told.assert_error(&["a validator would fail to start", "fastboot repair"]);

    fs::remove_file(ledger.accounts[0].join("unsnap-shadow/91.2")).unwrap();
    assert_eq!(status(1)["states"][0]["condition"]["repairable"], false);
    fs::remove_file(ledger.mark(110)).unwrap();
    assert_eq!(status(0)["states"][0]["condition"]["is"], "not-loadable");
    fs::write(ledger.mark(110), "9.0.0").unwrap();
    assert_eq!(status(0)["states"][0]["condition"]["is"], "unknown");
}

#[test]
fn what_a_validator_has_removed_is_put_back() {
    for accounts in 1..=3 {
        let site = Site::new();
        let (ledger, expected) = prepared_ledger(&site, accounts);
        let repair = || fastboot("repair", &ledger, &["--format=json"]).assert_code(0).json();
        assert_eq!(repair(), json!({ "outcome": "was-whole", "slot": 110 }));
        // Lost, cut (by a file of another inode, as links must not be changed), and empty.
        let names = expected.names();
        fs::remove_file(storage(&ledger, &names[0])).unwrap();
        for (name, bytes) in [(&names[3], &b"cut"[..]), (&names[5], b"")] {
            let path = storage(&ledger, name);
            fs::remove_file(&path).unwrap();
            fs::write(path, bytes).unwrap();
        }
        assert_eq!(repair(), json!({ "outcome": "relinked", "slot": 110, "storages": 3 }));
        expected.assert_prepared(&ledger, 3, "repaired");
        // All of them: what a validator leaves that was killed.
        for name in &names {
            fs::remove_file(storage(&ledger, name)).unwrap();
        }
        assert!(look(&ledger.snapshots, &ledger.accounts).is_err());
        assert_eq!(repair()["storages"], 7);
        expected.assert_prepared(&ledger, 3, "repaired again");
        // Prepare repairs as well.
        fs::remove_file(storage(&ledger, &names[1])).unwrap();
        let report = fastboot("prepare", &ledger, &["--format=json"]).assert_code(0).json();
        let ready = json!({
            "outcome": "ready",
            "slot": 110,
            "state": { "outcome": "relinked", "slot": 110, "storages": 1 },
            "behind": 0,
            "set_aside": [],
        });
        assert_eq!(report, ready);
        expected.assert_prepared(&ledger, 3, "repaired by prepare");
    }
}

/// Files that no state lists are told, with some of their names, whatever they are called.
#[test]
fn what_no_state_lists_is_told() {
    let site = Site::new();
    let (ledger, expected) = prepared_ledger(&site, 2);
    let json = || fastboot("status", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(json().get("unlisted"), None);
    assert!(!fastboot("status", &ledger, &[]).assert_code(0).stdout.contains("warning"));
    for number in 0..7 {
        fs::write(ledger.run(0).join(format!("999.{number}")), vec![1; 1000]).unwrap();
    }
    fs::write(ledger.run(1).join("odd\x1b[2Jname"), "1234567").unwrap();
    let found = json();
    let unlisted = &found["unlisted"];
    assert_eq!((&unlisted["files"], &unlisted["bytes"]), (&json!(8), &json!(7007)));
    let some: Vec<_> = (0..5).map(|number| ledger.run(0).join(format!("999.{number}"))).collect();
    assert_eq!(unlisted["some"], json!(some));
    let text = fastboot("status", &ledger, &[]).assert_code(0).stdout;
    assert!(text.contains("warning: 8 files that no state lists"), "{text}");
    assert!(text.contains("999.4, ...\n"), "{text}");
    // The state is no worse for it.
    assert_eq!(found["states"][0]["condition"]["is"], "whole");
    for number in 0..7 {
        fs::remove_file(ledger.run(0).join(format!("999.{number}"))).unwrap();
    }
    let text = fastboot("status", &ledger, &[]).assert_code(0).stdout;
    assert!(text.contains(r"run/odd\x1b[2Jname") && !text.contains("..."), "{text}");
    // Without its mark no validator takes the state, and nobody lists its storages.
    fs::remove_file(ledger.mark(110)).unwrap();
    assert_eq!(json()["unlisted"]["files"], expected.storages() + 1);
}

/// Which of the two a validator would take is not known.
#[test]
fn a_storage_in_two_paths() {
    let site = Site::new();
    let (ledger, expected) = prepared_ledger(&site, 2);
    let name = &expected.names()[2];
    let index = usize::from(ledger.run(0).join(name).exists());
    fs::write(ledger.run(index).join(name), "another").unwrap();
    let report = fastboot("status", &ledger, &["--format=json"]).assert_code(1).json();
    let damaged = json!({ "is": "damaged", "lost": 1, "storages": 7, "repairable": true });
    assert_eq!(report["states"][0]["condition"], damaged);
    let report = fastboot("repair", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report, json!({ "outcome": "relinked", "slot": 110, "storages": 1 }));
    expected.assert_prepared(&ledger, 3, "the stray one is gone");
}

#[test]
fn what_cannot_be_made_whole_is_withdrawn() {
    type Damage = fn(&Ledger);
    let damages: [(&str, Damage); 8] = [
        ("a storage and its link", |ledger| {
            fs::remove_file(ledger.run(0).join("91.2")).unwrap();
            fs::remove_file(ledger.accounts[0].join("unsnap-shadow/91.2")).unwrap();
        }),
        ("a storage and the shadow's list", |ledger| {
            fs::remove_file(ledger.run(0).join("91.2")).unwrap();
            fs::write(ledger.accounts[0].join("unsnap-shadow/unsnap-shadow.list"), "x").unwrap();
        }),
        ("a storage and the shadow", |ledger| {
            fs::remove_file(ledger.run(0).join("91.2")).unwrap();
            fs::remove_dir_all(ledger.accounts[0].join("unsnap-shadow")).unwrap();
        }),
        // A link cannot be made over a directory.
        ("a directory in place of a storage", |ledger| {
            fs::remove_file(ledger.run(0).join("91.2")).unwrap();
            fs::create_dir(ledger.run(0).join("91.2")).unwrap();
        }),
        ("the list of storages", |ledger| {
            fs::remove_file(ledger.state(110).join("storages_list")).unwrap();
        }),
        ("a byte of the list of storages", |ledger| {
            let list = ledger.state(110).join("storages_list");
            let bytes = fs::read(&list).unwrap();
            fs::write(&list, &bytes[1..]).unwrap();
        }),
        ("the content of obsolete_accounts", |ledger| {
            fs::write(ledger.state(110).join("obsolete_accounts"), "").unwrap();
        }),
        ("the content of status_cache", |ledger| {
            fs::write(ledger.state(110).join("status_cache"), "").unwrap();
        }),
    ];
    for (what, damage) in damages {
        let site = Site::new();
        let (ledger, expected) = prepared_ledger(&site, 1);
        damage(&ledger);
        let status = fastboot("status", &ledger, &["--format=json"]).json();
        assert_eq!(status["states"][0]["condition"]["is"], "damaged", "{what}: {status:#}");
        let report = fastboot("repair", &ledger, &["--format=json"]).assert_code(0).json();
        assert_eq!(report, json!({ "outcome": "withdrawn", "slot": 110 }), "{what}");
        assert_eq!(look(&ledger.snapshots, &ledger.accounts), Ok(None), "{what}");
        fastboot("prepare", &ledger, &["-q"]).assert_code(0);
        expected.assert_prepared(&ledger, 3, what);
    }
}

#[test]
fn states_are_withdrawn() {
    let site = Site::new();
    let (ledger, expected) = prepared_ledger(&site, 2);
    let withdraw = || fastboot("withdraw", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(withdraw(), json!([110]));
    assert!(names(&ledger.states()).is_empty());
    for (index, path) in ledger.accounts.iter().enumerate() {
        assert!(!path.join("unsnap-shadow").exists());
        assert!(!names(&ledger.run(index)).is_empty(), "storages are the validator's");
    }
    ledger.assert_tidy("withdrawn");
    assert_eq!(withdraw(), json!([]));
    let report = fastboot("repair", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report, json!({ "outcome": "no-state" }));
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    expected.assert_prepared(&ledger, 3, "after it was withdrawn");
}

/// An older state goes, a newer one stays; `--replace` decides otherwise.
#[test]
fn what_is_newer_is_left_alone() {
    let site = Site::new();
    let (ledger, expected) = prepared_ledger(&site, 1);
    let prepare = |flags: &[&str]| fastboot("prepare", &ledger, flags).assert_code(0).json();
    let older = small_archive(&ledger.snapshots, 120, None, &[(113, 800), (120, 9000)]);
    let report = prepare(&["--format=json"]);
    assert_eq!((&report["outcome"], &report["slot"]), (&json!("prepared"), &json!(120)));
    Expected::of_files(&older, None).assert_prepared(&ledger, 3, "a newer archive");
    // Now the archives are older than the state.
    fs::remove_file(&older).unwrap();
    let before = fs::metadata(ledger.mark(120)).unwrap().modified().unwrap();
    assert_eq!(prepare(&["--format=json"])["slot"], 120);
    assert_eq!(fs::metadata(ledger.mark(120)).unwrap().modified().unwrap(), before);
    assert_eq!(prepare(&["--format=json", "--replace"])["slot"], 110);
    expected.assert_prepared(&ledger, 3, "replaced");
}

/// What a validator leaves there itself: links, names that are no slots.
#[test]
fn odd_names_beside_states_do_not_matter() {
    let site = Site::new();
    let (ledger, expected) = prepared_ledger(&site, 1);
    let nowhere = Path::new("nowhere");
    std::os::unix::fs::symlink(nowhere, ledger.states().join("300")).unwrap();
    fs::create_dir(ledger.states().join("0301")).unwrap();
    fs::write(ledger.states().join("302"), "a file").unwrap();
    fs::create_dir(ledger.states().join("303")).unwrap();
    std::os::unix::fs::symlink(site.path(""), ledger.states().join("304")).unwrap();
    let report = fastboot("status", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report["states"].as_array().unwrap().last().unwrap()["condition"]["is"], "whole");
    // A validator that starts removes or ignores them, and loads the state.
    let report = fastboot("prepare", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report["outcome"], "ready");
    let found = look(&ledger.snapshots, &ledger.accounts).unwrap();
    expected.assert_is(&found.expect("the state is gone"), "with odd names");
    fastboot("prepare", &ledger, &["-q", "--replace"]).assert_code(0);
    fs::remove_file(ledger.states().join("302")).unwrap();
    expected.assert_prepared(&ledger, 3, "cleared");
    assert!(site.path("place").exists(), "what a link led to is not removed");
}
