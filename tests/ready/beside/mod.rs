//! States that are prepared beside a running validator, and adopted when it has ended.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use unsnap_testkit::scratch::{ScratchFs, Tmpfs};

use crate::{
    fastboot,
    ground::{Expected, Ledger, look, names, small_archive, small_pair},
    support::{Bound, Site, available, cleaned, run, until, validator_path},
};

/// Holds the lock that a running validator holds.
fn validator_on(ledger: &Ledger) -> File {
    let lock = File::create(ledger.root.join("ledger.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    lock
}

/// A ledger with a state of slot 50, and archives up to slot 110.
fn old_and_new(site: &Site, accounts: usize) -> (Ledger, Expected, Expected) {
    let ledger = Ledger::new(&site.place(), accounts);
    let old = small_archive(&ledger.snapshots, 50, None, &[(40, 900), (45, 700), (50, 5000)]);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    let old_state = Expected::of_files(&old, None);
    fs::remove_file(old).unwrap();
    let (full, incremental) = small_pair(&ledger.snapshots);
    (ledger, old_state, Expected::of_files(&full, Some(&incremental)))
}

/// The same with the new state ready beside.
fn ready_beside(site: &Site, accounts: usize) -> (Ledger, Expected, Expected) {
    let (ledger, old, new) = old_and_new(site, accounts);
    fastboot("prepare", &ledger, &["-q", "--beside"]).assert_code(0);
    new.assert_prepared(&ledger.beside(), 3, "ready");
    (ledger, old, new)
}

#[track_caller]
fn prepare(ledger: &Ledger, flags: &[&str]) -> serde_json::Value {
    let flags: Vec<&str> = flags.iter().copied().chain(["--format=json"]).collect();
    fastboot("prepare", ledger, &flags).assert_code(0).json()
}

/// All that a validator uses: of each file its bytes, inode, number of names and time of change.
type Used = BTreeMap<PathBuf, (Vec<u8>, u64, u64, i64, i64)>;

fn used(ledger: &Ledger) -> Used {
    let mut found = BTreeMap::new();
    let mut pending = vec![ledger.states()];
    for accounts in &ledger.accounts {
        pending.extend(["run", "snapshot", "unsnap-shadow"].map(|name| accounts.join(name)));
    }
    while let Some(path) = pending.pop().filter(|path| path.exists()) {
        let facts = fs::symlink_metadata(&path).unwrap();
        let mut bytes = Vec::new();
        if facts.is_dir() {
            pending.extend(names(&path).into_iter().map(|name| path.join(name)));
        } else {
            bytes = fs::read(&path).unwrap();
        }
        let times = (facts.ctime(), facts.ctime_nsec());
        found.insert(path, (bytes, facts.ino(), facts.nlink(), times.0, times.1));
    }
    found
}

/// Bytes of every file that a validator finds, and of the shadow; by its path in its place.
fn content(ledger: &Ledger) -> BTreeMap<PathBuf, Vec<u8>> {
    let place = ledger.root.parent().unwrap();
    let relative = |path: PathBuf| path.strip_prefix(place).unwrap().to_owned();
    used(ledger).into_iter().map(|(path, (bytes, ..))| (relative(path), bytes)).collect()
}

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
    let told = "state of slot 110 is ready: it lay ready, 7 storages in ";
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
    let Ok(holder) = &mut holder else { return crate::support::skip("there is no flock") };
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
        return crate::support::skip("the kernel does not tell who holds a lock");
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
        for staged in [".run.unsnap-staging", ".unsnap-shadow.unsnap-staging"] {
            fs::create_dir_all(ledger.accounts[0].join(staged)).unwrap();
            fs::write(ledger.accounts[0].join(staged).join("1.1"), "x").unwrap();
        }
        let staged = ledger.snapshots.join(".unsnap-state.unsnap-staging");
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
