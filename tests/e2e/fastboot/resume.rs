//! A preparation beside a validator that was cancelled goes on where it was, or begins again.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    thread,
};

use rustix::io::Errno;
use unsnap_fastboot::{FastbootError, Outcome, Request, prepare_beside};
use unsnap_pass::{CancelToken, FaultPlan, IoEngine, Progress};
use unsnap_ring::{Call, Syscalls};
use unsnap_test_support::{
    Site,
    ledger::{Expected, Ledger, names, small_archive},
    within,
};
use unsnap_unpack::{FileSink, Resumed, Verify};

use super::{prepared, request};

/// Storages of the full archive of slot 100.
const STORAGES: u64 = 80;

/// Complete files at which a preparation is cancelled.
const CANCELLED_AT: usize = 40;

/// Archives of the slots 100 and 110.
fn archives(ledger: &Ledger) -> (PathBuf, PathBuf) {
    let of_the_full: Vec<_> = (1..=STORAGES).map(|slot| (slot, 50_000)).collect();
    let full = small_archive(&ledger.snapshots, 100, None, &of_the_full);
    (full, newer(ledger, 110))
}

/// An incremental archive upon slot 100.
fn newer(ledger: &Ledger, slot: u64) -> PathBuf {
    small_archive(&ledger.snapshots, slot, Some(100), &[(101, 900), (105, 6000), (slot, 700)])
}

fn beside(request: &Request, cancel: &CancelToken) -> Result<Outcome, FastbootError> {
    let (request, cancel) = (request.clone(), cancel.clone());
    within(move || prepare_beside(&request, &Syscalls::default(), &Progress::default(), &cancel))
}

/// Returns a request with the default checks.
fn checked(ledger: &Ledger) -> Request {
    Request { verify: Verify::Structure, ..request(ledger) }
}

/// Returns a request whose checkpoints follow each other closely. Creators wait for the receiver of
/// files, which a shadow would put off.
fn step_by_step(ledger: &Ledger, shadow: bool) -> Request {
    let mut request = Request { shadow, ..checked(ledger) };
    request.pass.tuning.checkpoint_bytes = Some(1);
    request.pass.tuning.decode.segment_bytes = Some(64 << 10);
    request
}

fn staged(ledger: &Ledger) -> PathBuf {
    ledger.next().snapshots.join(".unsnap-staged-state")
}

fn journal(ledger: &Ledger) -> PathBuf {
    staged(ledger).join(".unsnap-journal")
}

/// Prepares until some files are complete, and then cancels.
#[track_caller]
fn interrupt(ledger: &Ledger, request: &Request) {
    interrupt_at(ledger, request, CANCELLED_AT);
}

/// The same after the first file.
#[track_caller]
fn interrupt_soon(ledger: &Ledger, request: &Request) {
    interrupt_at(ledger, request, 1);
}

#[track_caller]
fn interrupt_at(ledger: &Ledger, request: &Request, files: usize) {
    let cancel = CancelToken::default();
    let (sender, received) = sync_channel(0);
    let cancelling = cancel.clone();
    let receiver = thread::spawn(move || {
        for (number, _) in received.iter().enumerate() {
            if number + 1 == files {
                cancelling.cancel();
            }
        }
    });
    let request = Request { files: Some(FileSink::names(sender)), ..request.clone() };
    let error = beside(&request, &cancel).unwrap_err();
    drop(request);
    receiver.join().unwrap();
    assert!(cancel.is_cancelled(), "{error}");
    assert!(journal(ledger).exists(), "nothing is left of the cancelled run: {error}");
}

/// The inodes of the storages in the staging directories or in those of a state.
fn storages(ledger: &Ledger, directory: &str) -> BTreeMap<String, u64> {
    let files = |path: &PathBuf| {
        let directory = path.join(directory);
        let inode = |name: &String| fs::metadata(directory.join(name)).unwrap().ino();
        names(&directory).into_iter().map(|name| (name.clone(), inode(&name))).collect::<Vec<_>>()
    };
    ledger.accounts.iter().flat_map(files).collect()
}

#[track_caller]
fn resumed(outcome: Result<Outcome, FastbootError>) -> Resumed {
    let report = prepared(outcome).report;
    report.resumed.unwrap_or_else(|| panic!("nothing was resumed: {:?}", report.fallbacks))
}

/// Panics if a run has left anything but the ready state.
#[track_caller]
fn assert_tidy(ledger: &Ledger, what: &str) {
    let left = ledger.left_over();
    let ready = |path: &PathBuf| path.ends_with(".unsnap-ready");
    assert!(left.iter().all(ready), "{what}: left over: {left:?}");
}

/// Prepares again, and expects that what the cancelled run did is of no use.
#[track_caller]
fn starts_over(ledger: &Ledger, expected: &Expected, reason: &str) {
    let report = prepared(beside(&checked(ledger), &CancelToken::default())).report;
    assert!(report.resumed.is_none(), "{reason}");
    let told = report.fallbacks.iter().any(|told| told.contains(reason));
    assert!(told, "{reason}: {:?}", report.fallbacks);
    expected.assert_prepared(&ledger.beside(), 3, reason);
    assert_tidy(ledger, reason);
}

#[test]
fn a_cancelled_preparation_goes_on_where_it_was() {
    for accounts in [1, 2] {
        let site = Site::new();
        let ledger = Ledger::new(&site.place(), accounts);
        let (full, incremental) = archives(&ledger);
        let expected = Expected::of_files(&full, Some(&incremental));
        let what = format!("{accounts} accounts paths");
        let request = step_by_step(&ledger, false);

        interrupt(&ledger, &request);
        let before = storages(&ledger.next(), ".unsnap-staged-run");
        assert!(!ledger.beside().snapshots.exists(), "{what}");

        let Resumed { files, bytes, .. } = resumed(beside(&request, &CancelToken::default()));
        assert!(files >= 20 && bytes >= 20 * 50_000, "{what}: {files}, {bytes}");
        let now = storages(&ledger.beside(), "run");
        let same = before.iter().filter(|(name, inode)| now.get(*name) == Some(inode));
        assert!(same.count() as u64 >= files, "{what}");
        expected.assert_prepared(&ledger.beside(), 3, &what);
        assert_tidy(&ledger, &what);
    }
}

/// A validator writes incremental archives all the time: the storages of the full one are the same.
#[test]
fn a_newer_incremental_archive_does_not_cost_the_full_one_again() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 2);
    let (full, incremental) = archives(&ledger);
    let request = step_by_step(&ledger, false);
    interrupt(&ledger, &request);
    fs::remove_file(incremental).unwrap();
    let expected = Expected::of_files(&full, Some(&newer(&ledger, 120)));
    assert!(resumed(beside(&request, &CancelToken::default())).files >= 20);
    expected.assert_prepared(&ledger.beside(), 3, "newer");
    assert_tidy(&ledger, "newer");

    // Before there was none. What only a full archive alone gives to the state goes.
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 2);
    let (full, incremental) = archives(&ledger);
    fs::remove_file(incremental).unwrap();
    let request = step_by_step(&ledger, false);
    interrupt(&ledger, &request);
    let newest = newer(&ledger, 120);
    let expected = Expected::of_files(&full, Some(&newest));
    assert!(resumed(beside(&request, &CancelToken::default())).files >= 20);
    expected.assert_prepared(&ledger.beside(), 3, "the first");
    assert_tidy(&ledger, "the first");

    // If that one is interrupted, the full archive alone is another matter again: by then, files of
    // the incremental archive may have the names of its own.
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 2);
    let (full, incremental) = archives(&ledger);
    fs::remove_file(&incremental).unwrap();
    interrupt(&ledger, &step_by_step(&ledger, true));
    let incremental = newer(&ledger, 120);
    interrupt_soon(&ledger, &step_by_step(&ledger, true));
    fs::remove_file(incremental).unwrap();
    starts_over(&ledger, &Expected::of_files(&full, None), "another layout");
}

/// Interrupted again and again, with second names of all storages, it comes to its end.
#[test]
fn second_names_are_completed() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 2);
    let (full, incremental) = archives(&ledger);
    let expected = Expected::of_files(&full, Some(&incremental));
    let request = step_by_step(&ledger, true);
    let (next, mut rounds) = (ledger.next(), 0);
    let cancelled = |number| {
        let cancel = CancelToken::default();
        let (sender, received) = sync_channel(0);
        let cancelling = cancel.clone();
        let receiver =
            thread::spawn(move || received.iter().nth(number).map(|_| cancelling.cancel()));
        let request = Request { files: Some(FileSink::names(sender)), ..request.clone() };
        let outcome = beside(&request, &cancel);
        drop(request);
        let _ = receiver.join().unwrap();
        outcome
    };
    loop {
        rounds += 1;
        assert!(rounds < 100, "it gets nowhere");
        if cancelled(20).is_ok() {
            break;
        }
        let Some(name) = storages(&next, ".unsnap-staged-run").into_keys().next() else { continue };
        // As if the power had failed before the link was on the disk, and one of something else.
        for accounts in &next.accounts {
            let shadow = accounts.join(".unsnap-staged-shadow");
            let _ = fs::remove_file(shadow.join(&name));
            fs::write(shadow.join("7.7"), "not a storage").unwrap();
        }
    }
    expected.assert_prepared(&ledger.beside(), 3, "again and again");
    assert_tidy(&ledger, "again and again");
    for (index, accounts) in ledger.beside().accounts.iter().enumerate() {
        for name in names(&accounts.join("run")) {
            let inode =
                |directory: &str| fs::metadata(accounts.join(directory).join(&name)).unwrap().ino();
            assert_eq!(inode("run"), inode("unsnap-shadow"), "{name} in path {index}");
        }
    }
}

#[test]
fn what_does_not_match_is_begun_again() {
    type Change = fn(&Ledger, &Path);
    let cases: [(Change, &str); 4] = [
        (|ledger, _| fs::remove_file(first(ledger)).unwrap(), "is missing"),
        (|ledger, _| fs::write(first(ledger), "short").unwrap(), "instead of 50000"),
        (|ledger, _| fs::write(journal(ledger), "none").unwrap(), "not reached a checkpoint"),
        // Bank file and version come from the full archive then.
        (|_, incremental| fs::remove_file(incremental).unwrap(), "another layout"),
    ];
    for (change, reason) in cases {
        let site = Site::new();
        let ledger = Ledger::new(&site.place(), 1);
        let (full, incremental) = archives(&ledger);
        interrupt(&ledger, &step_by_step(&ledger, true));
        change(&ledger, &incremental);
        let incremental = incremental.exists().then_some(&*incremental);
        starts_over(&ledger, &Expected::of_files(&full, incremental), reason);
    }
}

/// The first storage of the archive, which is complete in any case.
fn first(ledger: &Ledger) -> PathBuf {
    ledger.next().accounts[0].join(".unsnap-staged-run/1.0")
}

/// Only a cancelled run is continued. What fails on a full disk must not keep the disk full, and what
/// was not checked is not taken for checked.
#[test]
fn after_errors_and_with_other_checks_nothing_is_kept() {
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    let (full, incremental) = archives(&ledger);
    let expected = Expected::of_files(&full, Some(&incremental));
    let mut failing = step_by_step(&ledger, false);
    failing.pass.io.engine =
        IoEngine::Faulty(FaultPlan::new(1).fail_nth(Call::Close, 60, Errno::NOSPC));
    beside(&failing, &CancelToken::default()).unwrap_err();
    assert_tidy(&ledger, "after an error");

    let unchecked = Request { verify: Verify::None, ..step_by_step(&ledger, true) };
    interrupt(&ledger, &unchecked);
    starts_over(&ledger, &expected, "another layout");

    // Accounts are verified over the whole archive.
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    archives(&ledger);
    interrupt(&ledger, &step_by_step(&ledger, true));
    let all = Request { verify: Verify::Accounts { memory_bytes: None }, ..request(&ledger) };
    let _ = beside(&all, &CancelToken::default());
    assert!(!journal(&ledger).exists());
}
