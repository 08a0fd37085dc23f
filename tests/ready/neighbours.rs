//! What others use on the same machine is left alone, and odd surroundings are no obstacle.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::json;
use unsnap_failure::{Code, Failure};
use unsnap_fastboot::{FastbootError, adopt_ready};
use unsnap_pass::Progress;
use unsnap_ring::Syscalls;
use unsnap_test_support::{
    Bound, Site,
    ledger::{Expected, Ledger, look, names, small_archive},
};

use crate::{
    beside::{old_and_new, prepare, ready_beside},
    fastboot, request,
};

/// A process that holds a file as its standard input, as a validator holds its storages.
struct Holder(Child);

impl Holder {
    fn of(path: &Path) -> Self {
        let file = Stdio::from(File::open(path).unwrap());
        Self(Command::new("sleep").arg("600").stdin(file).spawn().unwrap())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Its ledger is free, or another one: what it has open tells.
#[test]
fn storages_that_a_process_uses_are_not_cleared_away() {
    let site = Site::new();
    let (ledger, old, new) = old_and_new(&site, 2);
    let storage = |index: usize| ledger.run(index).join(&names(&ledger.run(index))[0]);
    let used = if names(&ledger.run(1)).is_empty() { storage(0) } else { storage(1) };
    let holder = Holder::of(&used);
    let assert_left = |what: &str| {
        old.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), what);
    };
    let who = format!("{} is in use by process {}, sleep", used.display(), holder.0.id());
    fastboot("prepare", &ledger, &["-q"]).assert_code(4).assert_error(&[&who, "hint: "]);
    assert_left("nothing is ready");
    // Beside it can be prepared, but not adopted.
    assert_eq!(prepare(&ledger, &["--beside"])["outcome"], "prepared");
    fastboot("prepare", &ledger, &["-q"]).assert_code(4).assert_error(&[&who]);
    let told = adopt_ready(&request(&ledger), &Syscalls::default(), &Progress::default());
    let told = told.unwrap_err();
    assert!(matches!(told, FastbootError::AccountsInUse { .. }), "{told}");
    assert_eq!(told.code(), Code::LedgerInUse);
    assert_left("a state is ready");
    drop(holder);
    assert_eq!(prepare(&ledger, &[])["outcome"], "adopted");
    new.assert_prepared(&ledger, 3, "when the process has ended");
}

/// The staging directory of `unpack --resume --accounts <accounts path>/run`.
#[test]
fn the_files_of_an_interrupted_tree_are_not_removed() {
    let site = Site::new();
    let (ledger, ..) = old_and_new(&site, 1);
    let staged = ledger.accounts[0].join(".run.unsnap-staging");
    fs::create_dir(&staged).unwrap();
    fs::write(staged.join("1.1"), "half").unwrap();
    for flags in [&["--beside"][..], &[], &["--replace"]] {
        prepare(&ledger, flags);
        assert_eq!(names(&staged), ["1.1"], "{flags:?}");
    }
    fastboot("withdraw", &ledger, &[]).assert_code(0);
    assert_eq!(names(&staged), ["1.1"]);
}

#[test]
fn what_is_mounted_in_old_files_is_not_removed() {
    for beside in [false, true] {
        let site = Site::new();
        let (ledger, ..) = old_and_new(&site, 1);
        let mine = site.path("mine");
        fs::create_dir(&mine).unwrap();
        fs::write(mine.join("precious"), "x").unwrap();
        let mounted = ledger.accounts[0].join(".unsnap-removed-0/deep/mounted");
        fs::create_dir_all(&mounted).unwrap();
        let Some(_bound) = Bound::at(mounted, &mine) else { return };
        let outcome = prepare(&ledger, if beside { &["--beside"] } else { &[] });
        assert_eq!(outcome["outcome"], "prepared");
        assert_eq!(names(&mine), ["precious"], "beside: {beside}");
    }
}

/// A bind mount of the same file system: `rename` does not cross it, and the device is the same.
#[test]
fn the_directory_of_states_may_be_a_mount_point_of_the_same_file_system() {
    let site = Site::new();
    let (ledger, _, new) = old_and_new(&site, 1);
    let Some(_bound) = Bound::at(ledger.states(), &ledger.states()) else { return };
    assert_eq!(prepare(&ledger, &[])["outcome"], "prepared");
    new.assert_prepared(&ledger, 3, "in a bind mount");
    assert_eq!(prepare(&ledger, &["--replace"])["outcome"], "prepared");
    new.assert_prepared(&ledger, 3, "again");
}

/// A ledger with a whole state of slot 110, and above it a directory that a validator removes.
fn incomplete_above(site: &Site) -> (Ledger, Expected, PathBuf) {
    let (ledger, _, new) = old_and_new(site, 1);
    prepare(&ledger, &[]);
    let incomplete = ledger.state(200);
    fs::create_dir(&incomplete).unwrap();
    fs::write(incomplete.join("200"), "a bank that is being written").unwrap();
    (ledger, new, incomplete)
}

#[test]
fn a_directory_that_a_starting_validator_removes_hides_no_state() {
    let site = Site::new();
    let (ledger, new, incomplete) = incomplete_above(&site);
    for name in names(&ledger.snapshots).iter().filter(|name| name.contains("snapshot-1")) {
        fs::remove_file(ledger.snapshots.join(name)).unwrap();
    }
    small_archive(&ledger.snapshots, 90, None, &[(80, 900), (90, 5000)]);
    let report = prepare(&ledger, &[]);
    assert_eq!((&report["outcome"], &report["slot"]), (&json!("ready"), &json!(110)));
    new.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "older archives");
    let status = fastboot("status", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(status["states"][0]["incomplete"], true);
    assert_eq!(status["states"][1]["condition"]["is"], "whole");
    // A version that is none counts as none.
    fs::write(incomplete.join("version"), "half").unwrap();
    fs::write(incomplete.join("status_cache"), "x").unwrap();
    assert_eq!(prepare(&ledger, &[])["slot"], 110);
    // Complete, it is the one that a validator examines, and would not load.
    fs::write(incomplete.join("version"), "1.2.0").unwrap();
    assert_eq!(prepare(&ledger, &[])["slot"], 90);
}

#[test]
fn a_damaged_state_below_such_a_directory_is_withdrawn() {
    let site = Site::new();
    let (ledger, ..) = incomplete_above(&site);
    for directory in [ledger.run(0), ledger.accounts[0].join("unsnap-shadow")] {
        fs::remove_file(directory.join("91.2")).unwrap();
    }
    let report = fastboot("repair", &ledger, &["--format=json"]).assert_code(0).json();
    assert_eq!(report, json!({ "outcome": "withdrawn", "slot": 110 }));
    assert!(!ledger.mark(110).exists());
}

/// What is ready is moved away from where others may look for it, not only marked.
#[test]
fn a_ready_state_that_is_withdrawn_leaves_no_directory() {
    let site = Site::new();
    let (ledger, ..) = ready_beside(&site, 2);
    fs::create_dir_all(ledger.next().run(0)).unwrap();
    fastboot("withdraw", &ledger, &["--beside"]).assert_code(0);
    ledger.assert_tidy("withdrawn");
}
