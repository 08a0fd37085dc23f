//! Bad input of every kind: a clear message, the right exit code, and nothing lost.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use unsnap_test_support::{
    Bound, Site, available, genuine_pairs, has_tool, is_root,
    ledger::{Expected, Ledger, look, names, small_archive, small_pair},
    ledger_tool_path, run, skip,
};
use unsnap_testkit::scratch::{ScratchFs, Tmpfs};

use super::fastboot;

/// A ledger with a state of slot 50, and archives up to slot 110.
fn old_and_new(site: &Site) -> (Ledger, Expected, Expected) {
    let ledger = Ledger::new(&site.place(), 1);
    let old = small_archive(&ledger.snapshots, 50, None, &[(40, 900), (50, 5000)]);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    let old_state = Expected::of_files(&old, None);
    fs::remove_file(old).unwrap();
    let (full, incremental) = small_pair(&ledger.snapshots);
    (ledger, old_state, Expected::of_files(&full, Some(&incremental)))
}

/// Panics unless `prepare` ends like this and what was there is still there.
#[track_caller]
fn assert_refused(ledger: &Ledger, old: &Expected, code: i32, parts: &[&str]) {
    fastboot("prepare", ledger, &["-q"]).assert_code(code).assert_error(parts);
    old.assert_prepared(ledger, 3, &format!("refused: {parts:?}"));
}

#[test]
fn without_a_full_archive() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    let told = fastboot("prepare", &ledger, &["-q"]).assert_code(3);
    told.assert_error(&["there is no full snapshot archive in", ledger.root.to_str().unwrap()]);
    let (full, _) = small_pair(&ledger.snapshots);
    fs::remove_file(full).unwrap();
    fastboot("prepare", &ledger, &["-q"]).assert_code(3).assert_error(&["no full snapshot"]);
    // An incremental archive on another one is passed over, as a validator does.
    let full = small_archive(&ledger.snapshots, 104, None, &[(104, 900)]);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    Expected::of_files(&full, None).assert_prepared(&ledger, 3, "the full one alone");
}

#[test]
fn a_ledger_that_is_in_use() {
    let site = Site::new();
    let (ledger, old, new) = old_and_new(&site);
    let lock = File::create(ledger.root.join("ledger.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_refused(
        &ledger,
        &old,
        4,
        &["a validator is running on", "ledger", "hint: stop it first"],
    );
    for action in ["repair", "withdraw"] {
        fastboot(action, &ledger, &[]).assert_code(4).assert_error(&["a validator is running"]);
        old.assert_prepared(&ledger, 3, action);
    }
    // To look is allowed.
    fastboot("status", &ledger, &[]).assert_code(0);
    drop(lock);
    // Another ledger's unsnap at work on the same accounts path.
    let staging = ledger.accounts[0].join(".unsnap-staged-run");
    fs::create_dir(&staging).unwrap();
    let other = File::open(&staging).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let told = fastboot("prepare", &ledger, &["-q"]).assert_code(4);
    told.assert_error(&["another process is unpacking to", "run"]);
    drop(other);
    old.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "locked");
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    new.assert_prepared(&ledger, 3, "when everybody is done");
}

#[test]
fn requests_that_make_no_sense() {
    let site = Site::new();
    let (ledger, old, _) = old_and_new(&site);
    let with = |accounts: Vec<&Path>| Ledger {
        accounts: accounts.into_iter().map(Path::to_owned).collect(),
        ..ledger.clone()
    };
    let accounts = ledger.accounts[0].as_path();
    let file = site.write("file", b"");
    for (case, code, parts) in [
        (with(vec![accounts, accounts]), 2, &["overlap"][..]),
        (with(vec![&ledger.snapshots]), 2, &["is both a snapshots directory and an accounts path"]),
        (
            with(vec![&site.path("nowhere/deep")]),
            2,
            &["nowhere does not exist [request]", "mkdir -p"],
        ),
        (with(vec![&file]), 3, &["Not a directory"]),
        (
            Ledger { root: site.path("nowhere"), ..ledger.clone() },
            3,
            &["cannot open", "[not-found]"],
        ),
    ] {
        fastboot("prepare", &case, &["-q"]).assert_code(code).assert_error(parts);
        old.assert_prepared(&ledger, 3, &format!("{parts:?}"));
    }
}

/// Where `run` is a link what is in it would have to be replaced somewhere else.
#[test]
fn run_is_a_link() {
    let site = Site::new();
    let (ledger, old, new) = old_and_new(&site);
    let elsewhere = site.place().join("elsewhere");
    fs::rename(ledger.run(0), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, ledger.run(0)).unwrap();
    assert_refused(&ledger, &old, 2, &["run is a symbolic link", "accounts path"]);
    fs::remove_file(ledger.run(0)).unwrap();
    fs::rename(&elsewhere, ledger.run(0)).unwrap();
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    new.assert_prepared(&ledger, 3, "without a link");
}

/// Links above that are followed, as a validator follows them.
#[test]
fn paths_that_are_links() {
    let site = Site::new();
    let (ledger, _, new) = old_and_new(&site);
    let place = site.place();
    let linked = Ledger {
        root: place.join("ledger-link"),
        snapshots: place.join("ledger-link"),
        accounts: vec![place.join("accounts-link")],
    };
    std::os::unix::fs::symlink(&ledger.root, &linked.root).unwrap();
    std::os::unix::fs::symlink(&ledger.accounts[0], &linked.accounts[0]).unwrap();
    // And a state whose directory is one.
    let moved = place.join("state-of-50");
    fs::rename(ledger.state(50), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, ledger.state(50)).unwrap();
    fastboot("prepare", &linked, &["-q"]).assert_code(0);
    new.assert_prepared(&ledger, 3, "through links");
    assert!(moved.join("version").exists(), "what a link leads to is not ours to remove");
}

#[test]
fn other_file_systems() {
    let tmpfs = || available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 32 << 20, inodes: None }));
    let (Some(accounts), Some(snapshots), Some(states)) = (tmpfs(), tmpfs(), tmpfs()) else {
        return;
    };
    let site = Site::new();
    let mut ledger = Ledger::new(&site.place(), 0);
    // A mount point each, and the directory of states is on a third file system.
    ledger.accounts = vec![accounts.path().to_owned()];
    ledger.snapshots = snapshots.path().to_owned();
    std::os::unix::fs::symlink(states.path(), ledger.states()).unwrap();
    let old = small_archive(&ledger.snapshots, 50, None, &[(40, 900), (50, 5000)]);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    Expected::of_files(&old, None).assert_prepared(&ledger, 3, "other file systems");
    let (full, incremental) = small_pair(&ledger.snapshots);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    Expected::of_files(&full, Some(&incremental)).assert_prepared(&ledger, 3, "once more");
    fastboot("withdraw", &ledger, &[]).assert_code(0);
    assert!(names(states.path()).is_empty());
    ledger.assert_tidy("withdrawn");
}

#[test]
fn a_mount_point_in_the_way() {
    let site = Site::new();
    let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 32 << 20, inodes: None }))
    else {
        return;
    };
    let ledger = Ledger::new(&site.place(), 1);
    let Some(_bound) = Bound::at(ledger.run(0), disk.path()) else { return };
    small_pair(&ledger.snapshots);
    let told = fastboot("prepare", &ledger, &["-q"]).assert_code(2);
    told.assert_error(&["is a mount point", "hint: mount the file system on"]);
    assert!(!ledger.state(110).exists());
}

/// Owned by another user, or not writable.
#[test]
fn permissions() {
    if !is_root() {
        return skip("running as another user needs root");
    }
    if !has_tool("setpriv", "--version") {
        return;
    }
    let site = Site::new_in(&std::env::temp_dir());
    let (ledger, old, _) = old_and_new(&site);
    let everybody = |path: &Path, mode| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    everybody(&site.path(""), 0o755);
    // The program, where that user can run it.
    let tool = site.path("ledger-tool");
    fs::copy(ledger_tool_path(), &tool).unwrap();
    let as_nobody = |action: &str| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&tool);
        run(setpriv.args(["fastboot", action]).args(ledger.arguments()))
    };
    let told = as_nobody("prepare").assert_code(2);
    told.assert_error(&["belongs to user 0, but this process runs as user 65534"]);
    old.assert_prepared(&ledger, 3, "another user");
    // The ledger is that user's, what is below is not.
    std::os::unix::fs::chown(&ledger.root, Some(65534), Some(65534)).unwrap();
    as_nobody("prepare").assert_code(3).assert_error(&["Permission denied"]);
    old.assert_prepared(&ledger, 3, "not writable");
    as_nobody("status").assert_code(0);
}

#[test]
fn a_read_only_file_system() {
    let Some(disk) = available(ScratchFs::tmpfs(&Tmpfs { size_bytes: 32 << 20, inodes: None }))
    else {
        return;
    };
    let site = Site::new();
    let mut ledger = Ledger::new(&site.place(), 0);
    ledger.accounts = vec![disk.path().join("accounts")];
    let old = small_archive(&ledger.snapshots, 50, None, &[(40, 900), (50, 5000)]);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    small_pair(&ledger.snapshots);
    disk.remount("ro").unwrap();
    let told = fastboot("prepare", &ledger, &["-q"]).assert_code(3);
    told.assert_error(&["Read-only file system", "hint: the file system is mounted read-only"]);
    Expected::of_files(&old, None).assert_prepared(&ledger, 3, "read-only");
}

/// A shadow is on the accounts path, so only a file system without links has none. An archive that
/// cannot be linked is stood in for by a run without a shadow.
#[test]
fn without_a_shadow() {
    let site = Site::new();
    let (ledger, _, new) = old_and_new(&site);
    fastboot("prepare", &ledger, &["-q", "--no-shadow"]).assert_code(0);
    new.assert_prepared(&ledger, 3, "no shadow");
    assert!(!ledger.accounts[0].join("unsnap-shadow").exists(), "the old one is gone as well");
    fs::remove_file(ledger.run(0).join(&new.names()[0])).unwrap();
    let report = fastboot("repair", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report, json!({ "outcome": "withdrawn", "slot": 110 }));
}

/// What is in `run` is never mixed with what is new: a validator that unpacks archives empties it,
/// too.
#[test]
fn foreign_files_in_run() {
    let site = Site::new();
    let (ledger, _, new) = old_and_new(&site);
    fs::write(ledger.run(0).join("90.77"), "the same slot").unwrap();
    fs::create_dir_all(ledger.run(0).join("deep/down")).unwrap();
    fs::write(ledger.run(0).join("deep/down/file"), "x").unwrap();
    std::os::unix::fs::symlink(site.place().join("neighbour"), ledger.run(0).join("95.78"))
        .unwrap();
    fs::write(ledger.accounts[0].join("beside"), "not in run").unwrap();
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    new.assert_prepared(&ledger, 3, "foreign files");
    assert!(ledger.accounts[0].join("beside").exists());
    assert!(site.place().join("neighbour").exists());
}

/// What earlier runs have left goes, be there something to prepare or not.
#[test]
fn what_killed_runs_have_left_goes() {
    let site = Site::new();
    let (ledger, _, new) = old_and_new(&site);
    let litter = || {
        for holder in [&ledger.accounts[0], &ledger.snapshots] {
            for name in [".unsnap-removed-0", ".unsnap-removed-17"] {
                fs::create_dir_all(holder.join(name).join("deep")).unwrap();
                fs::write(holder.join(name).join("deep/1.1"), "x").unwrap();
            }
            // A link to what is not ours, and a file.
            let link = holder.join(".unsnap-removed-3");
            std::os::unix::fs::symlink(site.place(), link).unwrap();
            fs::write(holder.join(".unsnap-removed-4"), "x").unwrap();
        }
        for staged in [".unsnap-staged-run", ".unsnap-staged-shadow"] {
            fs::create_dir(ledger.accounts[0].join(staged)).unwrap();
            fs::write(ledger.accounts[0].join(staged).join("1.1"), "x").unwrap();
        }
        let staged = ledger.snapshots.join(".unsnap-staged-state");
        fs::create_dir(&staged).unwrap();
        fs::write(staged.join("version"), "x").unwrap();
    };
    for (what, flags) in [
        ("prepared", &["-q", "--no-shadow"][..]),
        ("ready", &["-q"]),
        ("replaced", &["-q", "--replace"]),
    ] {
        litter();
        fastboot("prepare", &ledger, flags).assert_code(0);
        new.assert_prepared(&ledger, 3, what);
        assert!(site.place().join("neighbour").exists(), "{what}");
    }
    litter();
    fastboot("withdraw", &ledger, &[]).assert_code(0);
    ledger.assert_tidy("withdrawn");
}

/// Cuts off the end of an archive, behind its bank file.
fn truncate(archive: &Path) {
    let bytes = fs::metadata(archive).unwrap().len();
    File::options().write(true).open(archive).unwrap().set_len(bytes - 40).unwrap();
}

fn is_set_aside(archive: &Path) -> bool {
    let mut name = archive.file_name().unwrap().to_owned();
    name.push(".unsnap-bad");
    !archive.exists() && archive.with_file_name(name).exists()
}

#[test]
fn bad_archives_are_set_aside_for_the_next_best() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 2);
    let here = &ledger.snapshots;
    let older = small_archive(here, 80, None, &[(70, 800), (80, 30_000)]);
    let (full, lower) = small_pair(here);
    let best = small_archive(here, 120, Some(100), &[(101, 9000), (120, 70_000)]);
    let steps = [
        (&best, Expected::of_files(&full, Some(&lower)), "the lower incremental one"),
        (&lower, Expected::of_files(&full, None), "the full one alone"),
        (&full, Expected::of_files(&older, None), "the next full one"),
    ];
    for (index, (bad, expected, what)) in steps.into_iter().enumerate() {
        truncate(bad);
        // The archive that a whole state was made of is bad now: only asked to replace it will
        // anybody look.
        let flags = ["--format=json", "--replace"];
        let report = fastboot("prepare", &ledger, &flags[..=index.min(1)]).assert_code(0).json();
        let aside = report["set_aside"].as_array().unwrap();
        assert_eq!(aside.len(), 1, "{what}: {report:#}");
        assert_eq!(aside[0]["path"], json!(bad), "{what}");
        assert!(is_set_aside(bad), "{what}");
        expected.assert_prepared(&ledger, 3, what);
    }
    // The last one is not: there is nothing else.
    truncate(&older);
    let told = fastboot("prepare", &ledger, &["-q", "--replace"]).assert_code(1);
    told.assert_error(&["snapshot-80-", "hint: the archive is incomplete"]);
    assert!(older.exists());
    assert_eq!(look(here, &ledger.accounts), Ok(None));
    ledger.assert_tidy("nothing good is left");
}

/// What was cleared away for a pair that proved bad half-way is gone: it must not be taken for a
/// state that is as new as the next pair.
#[test]
fn a_state_that_was_cleared_away_is_not_taken_for_ready() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    let full = small_archive(&ledger.snapshots, 100, None, &[(90, 800), (100, 30_000)]);
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    let bad = small_archive(&ledger.snapshots, 120, Some(100), &[(101, 9000), (120, 70_000)]);
    truncate(&bad);
    let report = fastboot("prepare", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report["outcome"], "prepared", "{report:#}");
    assert!(is_set_aside(&bad));
    Expected::of_files(&full, None).assert_prepared(&ledger, 3, "prepared anew");
}

/// A bank file that is not the one of the name ends it before anything is touched.
#[test]
fn an_archive_under_another_name() {
    let site = Site::new();
    let (ledger, old, new) = old_and_new(&site);
    let bad = ledger.snapshots.join(format!(
        "incremental-snapshot-100-111-{}.tar.zst",
        unsnap_testkit::bank::name_hash(&[7; 2048])
    ));
    let good = small_archive(&site.path(""), 111, Some(100), &[(105, 900), (111, 4000)]);
    fs::copy(good, &bad).unwrap();
    let report = fastboot("prepare", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report["set_aside"][0]["path"], json!(bad));
    new.assert_prepared(&ledger, 3, "the one of its name");

    // Alone there is nothing else to take.
    let other = Site::new();
    let (ledger, ..) = old_and_new(&other);
    for name in names(&ledger.snapshots).iter().filter(|name| name.contains("snapshot-")) {
        fs::remove_file(ledger.snapshots.join(name)).unwrap();
    }
    let (full, _) = &genuine_pairs()[0];
    let name = full.file_name().unwrap().to_str().unwrap().replace("qRmx7H5b", "qRmx7H5c");
    fs::copy(full, ledger.snapshots.join(name.replace("snapshot-39", "snapshot-60"))).unwrap();
    assert_refused(&ledger, &old, 1, &["snapshot-60-"]);
}

#[test]
fn archives_of_another_cluster() {
    let [(full, incremental), _] = genuine_pairs();
    let genesis = fs::read(full.parent().unwrap().join("genesis.bin")).unwrap();
    let site = Site::new();
    let (ledger, old, _) = old_and_new(&site);
    for name in names(&ledger.snapshots).iter().filter(|name| name.ends_with(".tar.zst")) {
        fs::remove_file(ledger.snapshots.join(name)).unwrap();
    }
    // Newer than the state of slot 50, if it were of the same cluster.
    small_archive(&ledger.snapshots, 60, None, &[(60, 900)]);
    fs::write(ledger.root.join("genesis.bin"), &genesis).unwrap();
    assert_refused(
        &ledger,
        &old,
        2,
        &["is of another cluster", "at Unix time 1584368940", "at 1600000000", "genesis.bin"],
    );
    assert!(!names(&ledger.snapshots).iter().any(|name| name.contains("unsnap-bad")));
    // Archives of the ledger's own cluster.
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    for archive in [&full, &incremental] {
        fs::copy(archive, ledger.snapshots.join(archive.file_name().unwrap())).unwrap();
    }
    fs::write(ledger.root.join("genesis.bin"), &genesis).unwrap();
    fastboot("prepare", &ledger, &["-q"]).assert_code(0);
    Expected::of_files(&full, Some(&incremental)).assert_prepared(&ledger, 3, "of its own");
}
