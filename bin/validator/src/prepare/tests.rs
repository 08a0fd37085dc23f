use std::{cell::Cell, fs, path::Path, sync::mpsc::Sender};

use tempfile::TempDir;
use unsnap_fastboot::{Condition, Places, Survey};
use unsnap_pass::{Compromised, Options};

use super::*;

/// A ledger with the genuine archives, of slots 39 and 47.
fn ledger() -> TempDir {
    let ledger = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/agave-tiny");
    for entry in fs::read_dir(data).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), ledger.path().join(entry.file_name())).unwrap();
    }
    ledger
}

fn request(ledger: &TempDir) -> Request {
    let mut pass = Options::default();
    pass.resources.memory_budget = Some(4 << 20);
    Request { pass, ..Request::new(Places::new(ledger.path())) }
}

fn run(request: &Request, wanted: Wanted, deadline: Option<Duration>) -> Result<Outcome, Failure> {
    let (progress, cancel) = (Progress::default(), CancelToken::default());
    let preparation = Preparation {
        request: request.clone(),
        wanted,
        takes_older: true,
        oldest: newest_slot(&request.places).unwrap_or(0),
        deadline: Deadline::from_now(deadline),
        mark: None,
    };
    let say = Box::new(|error: &FastbootError| panic!("waits: {error}"));
    match prepare_guarded(preparation, say, &progress, &cancel, || false) {
        End::Done(result) => result,
        End::Tidying(slot) => panic!("still tidying up behind the state of slot {slot}"),
    }
}

fn newest(request: &Request) -> Option<(u64, Condition)> {
    let survey = Survey::of(&Syscalls::default(), &request.places, &Progress::default()).unwrap();
    survey.newest().map(|state| (state.slot, state.condition.clone()))
}

#[test]
fn a_panic_is_a_failure_and_leaves_nothing() {
    let ledger = ledger();
    let mut request = request(&ledger);
    request.pass.tuning.compromised = Some(Compromised::new(|| panic!("for a test")));
    let failure = run(&request, Wanted::Newest, None).unwrap_err();
    assert!(matches!(failure, Failure::Panicked), "{failure}");
    repair_older_state(&request, &failure);
    assert_eq!(newest(&request), None);
    for (directory, left) in [("snapshots", 0), ("accounts/run", 0), ("accounts", 2)] {
        let entries: Vec<_> = fs::read_dir(ledger.path().join(directory)).unwrap().collect();
        assert_eq!(entries.len(), left, "{directory}: {entries:?}");
    }
    // Nothing is locked or in the way.
    request.pass.tuning.compromised = None;
    run(&request, Wanted::Newest, None).unwrap();
    assert_eq!(newest(&request), Some((47, Condition::Whole { storages: 48 })));
}

#[test]
fn a_deadline_that_has_passed_leaves_nothing_and_a_later_one_is_not_waited_for() {
    let ledger = ledger();
    let request = request(&ledger);
    let failure = run(&request, Wanted::Newest, Some(Duration::ZERO)).unwrap_err();
    assert!(matches!(failure, Failure::Expired(_)), "{failure}");
    assert_eq!(newest(&request), None);
    run(&request, Wanted::Newest, Some(Duration::from_secs(1 << 40))).unwrap();
    // An existing state needs no time.
    let outcome = run(&request, Wanted::Newest, Some(Duration::ZERO)).unwrap();
    assert!(matches!(outcome, Outcome::Ready { slot: 47, .. }), "{outcome:?}");
}

/// Work that has completed a state, and then removes old files until the test is over.
fn endless_removal() -> (Sender<()>, impl FnOnce() -> Result<Outcome, Failure> + Send) {
    let (test_ends, removal) = channel();
    let work = move || {
        let _ = removal.recv();
        Err(FastbootError::CANCELLED.into())
    };
    (test_ends, work)
}

#[test]
fn removing_old_files_does_not_outlast_the_deadline() {
    let (_until_the_end, work) = endless_removal();
    let end = within(
        Deadline::from_now(Some(Duration::from_millis(1))),
        &CancelToken::default(),
        || Some(7),
        work,
    );
    assert!(matches!(end, End::Tidying(7)), "{end:?}");
}

#[test]
fn removing_old_files_does_not_outlast_a_signal() {
    let (_until_the_end, work) = endless_removal();
    let cancel = CancelToken::default();
    cancel.cancel();
    let end = within(Deadline::from_now(None), &cancel, || Some(7), work);
    assert!(matches!(end, End::Tidying(7)), "{end:?}");
}

#[test]
fn removing_what_an_unfinished_preparation_has_written_is_waited_for() {
    let (test_ends, work) = endless_removal();
    // Asked again and again: no state is complete, until the work has ended.
    let (asked, test_ends) = (Cell::new(0), Cell::new(Some(test_ends)));
    let complete = || {
        asked.set(asked.get() + 1);
        if asked.get() == 3 {
            drop(test_ends.take());
        }
        None
    };
    let end =
        within(Deadline::from_now(Some(Duration::ZERO)), &CancelToken::default(), complete, work);
    assert!(matches!(end, End::Done(Err(Failure::Expired(_)))), "{end:?}");
    assert!(asked.get() >= 3);
}

#[test]
fn a_validator_that_ignores_archives_keeps_its_state() {
    let ledger = ledger();
    let mut request = request(&ledger);
    let incremental = fs::read_dir(ledger.path()).unwrap();
    let incremental = incremental
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("incremental"))
        .unwrap();
    let aside = ledger.path().join("aside");
    fs::rename(&incremental, &aside).unwrap();
    // Without a state, one is prepared.
    run(&request, Wanted::Any, None).unwrap();
    assert_eq!(newest(&request).unwrap().0, 39);
    // An older state is kept.
    fs::rename(&aside, &incremental).unwrap();
    run(&request, Wanted::Any, None).unwrap();
    assert_eq!(newest(&request), Some((39, Condition::Whole { storages: 40 })));
    // It is replaced on demand.
    request.replace = true;
    run(&request, Wanted::Any, None).unwrap();
    assert_eq!(newest(&request).unwrap().0, 47);
}

#[test]
fn a_damaged_state_does_not_stay_marked_when_nothing_can_be_prepared() {
    let ledger = ledger();
    let mut request = request(&ledger);
    request.shadow = false;
    run(&request, Wanted::Newest, None).unwrap();
    let storage = fs::read_dir(ledger.path().join("accounts/run")).unwrap().next().unwrap();
    fs::remove_file(storage.unwrap().path()).unwrap();
    for entry in fs::read_dir(ledger.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".tar.zst") {
            fs::remove_file(path).unwrap();
        }
    }
    assert!(newest(&request).unwrap().1.is_loadable());
    let failure = run(&request, Wanted::Newest, None).unwrap_err();
    repair_older_state(&request, &failure);
    assert!(!newest(&request).unwrap().1.is_loadable());
}
