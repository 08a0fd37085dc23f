//! A newer incremental archive upon the full archive of an earlier state: it alone is unpacked.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use unsnap_fastboot::{ATTEMPTS_FILE, AttemptRules, Attempts, StateName};
use unsnap_ring::Syscalls;
use unsnap_test_support::{
    Site,
    ledger::{Expected, Ledger, names, small_archive, small_pair},
};

use super::prepare;
use crate::fastboot;

/// Storages of the full archive of slot 100.
const OF_THE_FULL: u64 = 4;

/// A ledger with nothing but a ready state of slot 110, upon slot 100; the full archive.
fn ready(site: &Site, accounts: usize) -> (Ledger, PathBuf) {
    let ledger = Ledger::new(&site.place(), accounts);
    let (full, _) = small_pair(&ledger.snapshots);
    let report = prepare(&ledger, &["--beside"]);
    assert_eq!((&report["slot"], &report["report"]["reused"]), (&json!(110), &Value::Null));
    (ledger, full)
}

/// A newer incremental archive upon slot 100, and the state that is to come of it.
fn newer(ledger: &Ledger, full: &Path, slot: u64) -> Expected {
    let storages = [(101, 900), (slot, 6000)];
    let archive = small_archive(&ledger.snapshots, slot, Some(100), &storages);
    Expected::of_files(full, Some(&archive))
}

/// The inode of each storage of the full archive.
fn inodes(ledger: &Ledger) -> BTreeMap<String, u64> {
    let runs = (0..ledger.accounts.len()).map(|index| ledger.run(index));
    let files = runs.flat_map(|run| names(&run).into_iter().map(move |name| run.join(name)));
    let slot = |name: &str| name.split('.').next().unwrap().parse::<u64>().unwrap();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let of_the_full = files.filter(|path| slot(&name(path)) <= 100);
    of_the_full.map(|path| (name(&path), fs::metadata(&path).unwrap().ino())).collect()
}

#[test]
fn a_newer_incremental_archive_costs_itself() {
    for accounts in [1, 3] {
        let site = Site::new();
        let (ledger, full) = ready(&site, accounts);
        let storages = inodes(&ledger.beside());
        assert_eq!(storages.len() as u64, OF_THE_FULL);

        let expected = newer(&ledger, &full, 120);
        let plan = prepare(&ledger, &["--beside", "--dry-run"]);
        assert_eq!(plan["reused"]["files"], OF_THE_FULL, "{plan:#}");
        let told = prepare(&ledger, &["--beside"]);
        let report = &told["report"];
        let name = full.file_name().unwrap().to_str().unwrap();
        assert_eq!((&told["slot"], &report["kind"]), (&json!(120), &json!("incremental")));
        let reused = &report["reused"];
        assert_eq!((&reused["files"], &reused["archive"]), (&json!(OF_THE_FULL), &json!(name)));
        assert_eq!(reused["bytes"], plan["reused"]["bytes"]);
        // Its own two storages, the bank file, the status cache and the version.
        assert_eq!(report["files"], 5, "{report:#}");
        let paths = report["accounts_paths"].as_array().unwrap().iter();
        assert_eq!(paths.map(|path| path["files"].as_u64().unwrap()).sum::<u64>(), OF_THE_FULL + 2);
        expected.assert_whole(&ledger.beside(), "linked");
        assert_eq!(inodes(&ledger.beside()), storages);

        // Adopted, it is the base of the next one, which is prepared in place.
        assert_eq!(prepare(&ledger, &[])["outcome"], "adopted");
        expected.assert_whole(&ledger, "adopted");
        let expected = newer(&ledger, &full, 130);
        let told = prepare(&ledger, &[]);
        assert_eq!(told["report"]["reused"]["files"], OF_THE_FULL, "{told:#}");
        expected.assert_whole(&ledger, "in place");
        assert_eq!(inodes(&ledger), storages);
        // It can be repaired like any other.
        for name in names(&ledger.run(0)) {
            fs::remove_file(ledger.run(0).join(name)).unwrap();
        }
        fastboot("repair", &ledger, &["-q"]).assert_code(0);
        expected.assert_whole(&ledger, "repaired");
    }
}

#[test]
fn the_text_says_what_was_linked() {
    let site = Site::new();
    let (ledger, full) = ready(&site, 1);
    newer(&ledger, &full, 120);
    let told = fastboot("prepare", &ledger, &["--beside", "--dry-run"]).assert_code(0).stdout;
    assert!(told.contains("  would link from the earlier state: 4 storages, "), "{told}");
    let told = fastboot("prepare", &ledger, &["--beside"]).assert_code(0).stdout;
    assert!(told.contains("  linked from the earlier state: 4 storages, "), "{told}");
    assert!(told.contains("\n  incremental: "), "{told}");
}

/// One storage of the full archive in the ready state, and its second name.
fn a_storage(ledger: &Ledger) -> (PathBuf, PathBuf) {
    let name = inodes(ledger).into_keys().next().unwrap();
    (ledger.run(0).join(&name), ledger.accounts[0].join("unsnap-shadow").join(&name))
}

/// Writes to a file, at another time than the one at which the state was complete.
fn change(path: &PathBuf, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    let later = SystemTime::now() + Duration::from_secs(5);
    File::options().write(true).open(path).unwrap().set_modified(later).unwrap();
}

/// An earlier state that is not as it was made is no base: everything is unpacked.
#[test]
fn what_is_not_as_it_was_is_unpacked_again() {
    type Damage = fn(&Ledger);
    let cases: [(&str, Damage); 8] = [
        ("a flipped byte", |ledger| {
            let (storage, _) = a_storage(&ledger.beside());
            let mut bytes = fs::read(&storage).unwrap();
            bytes[40] ^= 1;
            change(&storage, &bytes);
        }),
        ("a shorter storage", |ledger| {
            let (storage, _) = a_storage(&ledger.beside());
            let bytes = fs::read(&storage).unwrap();
            fs::write(&storage, &bytes[1..]).unwrap();
        }),
        ("no second name", |ledger| fs::remove_file(a_storage(&ledger.beside()).1).unwrap()),
        ("a link instead of a second name", |ledger| {
            let (storage, second) = a_storage(&ledger.beside());
            fs::remove_file(&second).unwrap();
            std::os::unix::fs::symlink(storage, second).unwrap();
        }),
        ("no origin", |ledger| {
            let shadow = ledger.beside().accounts[0].join("unsnap-shadow");
            fs::remove_file(shadow.join("unsnap-shadow.origin")).unwrap();
        }),
        ("another origin", |ledger| {
            let origin = ledger.beside().accounts[0].join("unsnap-shadow/unsnap-shadow.origin");
            let text = fs::read_to_string(&origin).unwrap();
            fs::write(&origin, text.replace("snapshot-100-", "snapshot-101-")).unwrap();
        }),
        ("withdrawn", |ledger| {
            let state = ledger.beside().state(110);
            fs::remove_file(state.join("fastboot_version")).unwrap();
        }),
        ("a validator has died of it", |ledger| {
            let mut attempts = Attempts::default();
            attempts.serve(StateName { slot: 110, hash: None }, 1_000);
            assert!(attempts.judge_state(1_001, AttemptRules::default()).is_some());
            attempts.write(&Syscalls::default(), &ledger.snapshots).unwrap();
        }),
    ];
    for (what, damage) in cases {
        let site = Site::new();
        let (ledger, full) = ready(&site, 1);
        damage(&ledger);
        let expected = newer(&ledger, &full, 120);
        let told = prepare(&ledger, &["--beside"]);
        assert_eq!(told["report"]["reused"], Value::Null, "{what}: {told:#}");
        let _ = fs::remove_file(ledger.snapshots.join(ATTEMPTS_FILE));
        expected.assert_prepared(&ledger.beside(), 3, what);
    }
}

#[test]
fn everything_is_unpacked_if_that_is_asked_for_or_the_full_archive_was_not_checked() {
    let site = Site::new();
    let (ledger, full) = ready(&site, 1);
    let expected = newer(&ledger, &full, 120);
    let told = prepare(&ledger, &["--beside", "--replace"]);
    assert_eq!(told["report"]["reused"], Value::Null, "{told:#}");
    expected.assert_prepared(&ledger.beside(), 3, "replaced");

    let expected = newer(&ledger, &full, 130);
    let told = prepare(&ledger, &["--beside", "--replace", "--verify=none"]);
    assert_eq!(told["report"]["reused"], Value::Null, "{told:#}");
    expected.assert_prepared(&ledger.beside(), 3, "not checked");
    let expected = newer(&ledger, &full, 140);
    let told = prepare(&ledger, &["--beside"]);
    assert_eq!(told["report"]["reused"], Value::Null, "{told:#}");
    expected.assert_prepared(&ledger.beside(), 3, "now checked");
}

#[test]
fn a_full_archive_alone_is_unpacked_as_ever() {
    let site = Site::new();
    let (ledger, full) = ready(&site, 1);
    fs::remove_file(full).unwrap();
    let archive = small_archive(&ledger.snapshots, 200, None, &[(100, 9000), (200, 700)]);
    let told = prepare(&ledger, &["--beside"]);
    assert_eq!(told["report"]["reused"], Value::Null, "{told:#}");
    Expected::of_files(&archive, None).assert_prepared(&ledger.beside(), 3, "another full one");
}
