//! The ready state and its successor: there is always one to adopt.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use rustix::fs::{FlockOperation, flock};
use unsnap_failure::{Code, Failure};
use unsnap_fastboot::{
    FastbootError, LedgerLock, Outcome, Request, adopt_ready, prepare, prepare_beside,
};
use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;
use unsnap_test_support::{
    Site,
    ledger::{Expected, Ledger, look, names, small_archive},
    within,
};
use unsnap_unpack::{FileSink, FinishedFile};

use super::{old_and_new, ready_beside, validator_on};
use crate::request;

fn beside(request: &Request, cancel: &CancelToken) -> Result<Outcome, FastbootError> {
    let (request, cancel) = (request.clone(), cancel.clone());
    within(move || prepare_beside(&request, &Syscalls::default(), &Progress::default(), &cancel))
}

fn adopt(request: &Request) -> Result<Option<Outcome>, FastbootError> {
    let request = request.clone();
    within(move || adopt_ready(&request, &Syscalls::default(), &Progress::default()))
}

/// Prepares beside, and calls `meanwhile` when the first file has been written, before the others.
fn beside_with(
    mut request: Request,
    cancel: &CancelToken,
    meanwhile: impl FnOnce(),
) -> Result<Outcome, FastbootError> {
    let (sender, files): (_, Receiver<FinishedFile>) = sync_channel(0);
    request.files = Some(FileSink::names(sender));
    let cancel = cancel.clone();
    let run = thread::spawn(move || beside(&request, &cancel));
    files.recv().expect("a file is written");
    meanwhile();
    for _ in files {}
    run.join().unwrap()
}

/// A newer archive.
fn newer(ledger: &Ledger, slot: u64) -> Expected {
    let archive = small_archive(&ledger.snapshots, slot, None, &[(slot - 7, 800), (slot, 9000)]);
    Expected::of_files(&archive, None)
}

fn slot(outcome: Result<Option<Outcome>, FastbootError>) -> Option<(u64, u64)> {
    match outcome.unwrap()? {
        Outcome::Adopted { slot, behind, ledger_locked_us, elapsed_ms, .. } => {
            assert!(0 < ledger_locked_us && ledger_locked_us <= (elapsed_ms + 1) * 1000);
            Some((slot, behind))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_ready_state_can_be_adopted_until_its_successor_is_complete() {
    let site = Site::new();
    let (ledger, _, ready) = ready_beside(&site, 2);
    let next = newer(&ledger, 120);
    let told = beside_with(request(&ledger), &CancelToken::default(), || {
        ready.assert_prepared(&ledger.beside(), 3, "while its successor is being unpacked");
        assert!(ledger.next().snapshots.exists());
        LedgerLock::take(&ledger.root).expect("the ledger is free for a validator");
    });
    let Ok(Outcome::Prepared(prepared)) = told else { panic!("{told:?}") };
    assert_eq!(prepared.directory, ledger.beside().state(120));
    let paths: Vec<PathBuf> =
        prepared.report.accounts_paths.iter().map(|path| PathBuf::from(&path.path)).collect();
    assert_eq!(paths, ledger.beside().accounts);
    next.assert_prepared(&ledger.beside(), 3, "the successor");
    assert!(!ledger.next().snapshots.exists() && !ledger.next().accounts[0].exists());
}

#[test]
fn a_cancelled_successor_leaves_the_ready_state() {
    let site = Site::new();
    let (ledger, _, ready) = ready_beside(&site, 2);
    let mut newest = None;
    for slot in [120, 130, 140] {
        newest = Some(newer(&ledger, slot));
        let cancel = CancelToken::default();
        let told = beside_with(request(&ledger), &cancel, || cancel.cancel()).unwrap_err();
        assert_eq!(told.code(), Code::Cancelled);
        ready.assert_prepared(&ledger.beside(), 3, "cancelled");
    }
    assert_eq!(slot(adopt(&Request { max_behind: 30, ..request(&ledger) })), Some((110, 30)));
    let adopted = look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap();
    ready.assert_is(&adopted, "adopted after three cancelled ones");
    // What a run can resume stays until there is one that comes to its end.
    beside_with(request(&ledger), &CancelToken::default(), || {}).unwrap();
    assert_eq!(slot(adopt(&request(&ledger))), Some((140, 0)));
    newest.unwrap().assert_prepared(&ledger, 3, "adopted in the end");
}

/// Others adopt the ready state while its successor is being prepared, or wait for that.
#[test]
fn a_state_is_adopted_while_its_successor_is_being_prepared() {
    let site = Site::new();
    let (ledger, _, ready) = ready_beside(&site, 2);
    let next = newer(&ledger, 120);
    let told = beside_with(request(&ledger), &CancelToken::default(), || {
        let told = adopt(&request(&ledger)).unwrap_err();
        assert!(matches!(told, FastbootError::Locked { .. }), "{told}");
        assert_eq!(slot(adopt(&Request { max_behind: 10, ..request(&ledger) })), Some((110, 10)));
        ready.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "adopted");
        let told = adopt(&Request { max_behind: 10, ..request(&ledger) }).unwrap_err();
        assert!(matches!(told, FastbootError::Locked { .. }), "nothing is ready yet: {told}");
    });
    assert!(matches!(told, Ok(Outcome::Prepared(_))), "{told:?}");
    next.assert_prepared(&ledger.beside(), 3, "the successor");
    assert_eq!(slot(adopt(&request(&ledger))), Some((120, 0)));
    next.assert_prepared(&ledger, 3, "adopted");
}

#[test]
fn who_defers_to_others_unpacks_nothing_while_they_prepare_a_state() {
    let site = Site::new();
    let (ledger, old, new) = old_and_new(&site, 2);
    let by = |request: Request| {
        let (calls, cancel) = (Syscalls::default(), CancelToken::default());
        within(move || prepare(&request, &calls, &Progress::default(), &cancel))
    };
    let deferring = Request { defer: true, ..request(&ledger) };
    let told = beside_with(request(&ledger), &CancelToken::default(), || {
        let told = by(deferring.clone()).unwrap_err();
        assert!(matches!(told, FastbootError::Locked { .. }), "{told}");
        old.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "deferred");
    });
    assert!(matches!(told, Ok(Outcome::Prepared(_))), "{told:?}");
    let told = by(deferring.clone()).unwrap();
    let Outcome::Adopted { slot: 110, elapsed_ms, ledger_locked_us, .. } = told else {
        panic!("{told:?}")
    };
    assert!(0 < ledger_locked_us && ledger_locked_us < (elapsed_ms + 1000) * 1000);
    new.assert_prepared(&ledger, 3, "the other one's result");

    let next = newer(&ledger, 120);
    beside_with(request(&ledger), &CancelToken::default(), || {
        // What is new enough is there, and nobody is waited for.
        let told = by(Request { max_behind: 10, ..deferring.clone() }).unwrap();
        assert!(matches!(told, Outcome::Ready { slot: 110, behind: 10, .. }), "{told:?}");
        // The other one's result would be of no use.
        let told = by(Request { replace: true, ..deferring.clone() }).unwrap();
        assert!(matches!(told, Outcome::Prepared(_)), "{told:?}");
    })
    .unwrap();
    // The other one's is left to the next run.
    next.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "replaced");
}

/// What has been completed, but not brought to its place when the run was killed, is not done again.
#[test]
fn a_successor_that_only_lacks_its_name_is_not_lost() {
    for in_place in [false, true] {
        let site = Site::new();
        let (ledger, _, _) = ready_beside(&site, 2);
        let next = newer(&ledger, 120);
        let other_site = Site::new();
        let other = Ledger::new(&other_site.place(), 2);
        newer(&other, 120);
        let told = beside(&request(&other), &CancelToken::default());
        assert!(matches!(told, Ok(Outcome::Prepared(_))), "{told:?}");
        for (from, to) in [(&other.snapshots, &ledger.snapshots)]
            .into_iter()
            .chain(other.accounts.iter().zip(&ledger.accounts))
        {
            fs::create_dir_all(to).unwrap();
            fs::rename(from.join(".unsnap-ready"), to.join(".unsnap-next")).unwrap();
        }
        if in_place {
            assert_eq!(slot(adopt(&request(&ledger))), Some((120, 0)));
            next.assert_prepared(&ledger, 3, "adopted");
        } else {
            let told = beside(&request(&ledger), &CancelToken::default());
            assert!(matches!(told, Ok(Outcome::Ready { slot: 120, .. })), "{told:?}");
            next.assert_prepared(&ledger.beside(), 3, "promoted");
        }
    }
}

#[test]
fn a_state_is_adopted_by_itself_if_nobody_is_in_the_way() {
    let site = Site::new();
    let (ledger, old, new) = old_and_new(&site, 2);
    let request = request(&ledger);
    assert_eq!(slot(adopt(&request)), None, "nothing is ready");
    beside(&request, &CancelToken::default()).unwrap();
    let validator = validator_on(&ledger);
    let told = adopt(&request).unwrap_err();
    assert!(matches!(told, FastbootError::Running { .. }), "{told}");
    drop(validator);
    for name in [".unsnap-ready.lock", ".unsnap-ledger.lock"] {
        let lock = File::create(ledger.root.join(name)).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let told = adopt(&request).unwrap_err();
        assert!(matches!(told, FastbootError::Locked { .. }), "{name}: {told}");
        assert_eq!(told.code(), Code::Locked);
    }
    old.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "in the way");
    new.assert_prepared(&ledger.beside(), 3, "in the way");
    assert_eq!(slot(adopt(&request)), Some((110, 0)));
    new.assert_prepared(&ledger, 3, "adopted");
    assert!(!ledger.beside().snapshots.exists());
    assert_eq!(slot(adopt(&request)), None, "once is enough");
    LedgerLock::take(&ledger.root).expect("the ledger is free");
}

#[test]
fn a_state_may_be_so_many_slots_behind_the_archives_and_no_more() {
    let site = Site::new();
    let (ledger, old, new) = ready_beside(&site, 1);
    newer(&ledger, 120);
    let behind = |max_behind| Request { max_behind, ..request(&ledger) };
    for max_behind in [0, 9] {
        assert_eq!(slot(adopt(&behind(max_behind))), None, "{max_behind}");
    }
    old.assert_is(&look(&ledger.snapshots, &ledger.accounts).unwrap().unwrap(), "too old");
    assert_eq!(slot(adopt(&behind(10))), Some((110, 10)));
    new.assert_prepared(&ledger, 3, "adopted");
    // In place it counts as well, and what is there already.
    let by = |request: Request| {
        let (calls, cancel) = (Syscalls::default(), CancelToken::default());
        within(move || prepare(&request, &calls, &Progress::default(), &cancel)).unwrap()
    };
    let told = by(behind(10));
    assert!(matches!(told, Outcome::Ready { slot: 110, behind: 10, .. }), "{told:?}");
    let told = by(behind(9));
    assert!(matches!(told, Outcome::Prepared(_)), "{told:?}");
    let site = Site::new();
    let (ledger, _, new) = ready_beside(&site, 1);
    newer(&ledger, 120);
    let told = by(Request { max_behind: 10, ..request(&ledger) });
    assert!(matches!(told, Outcome::Adopted { slot: 110, behind: 10, .. }), "{told:?}");
    new.assert_prepared(&ledger, 3, "adopted in place");
}

/// Directories that wait for removal, however deep.
fn removed_in(directory: &Path, depth: usize, found: &mut Vec<(usize, PathBuf)>) {
    for name in names(directory) {
        let path = directory.join(&name);
        if name.starts_with(".unsnap-removed-") {
            found.push((depth, path.clone()));
        }
        if path.is_dir() {
            removed_in(&path, depth + usize::from(name.starts_with(".unsnap-removed-")), found);
        }
    }
}

/// However often a run is cut short by the next, what it has moved aside does not pile up.
#[test]
fn leftovers_go_before_anything_is_unpacked_and_are_never_moved_again() {
    let site = Site::new();
    let (ledger, ..) = ready_beside(&site, 2);
    for round in 0..6 {
        newer(&ledger, 120 + round);
        let leftover = ledger.accounts[0].join(".unsnap-removed-3/run");
        fs::create_dir_all(&leftover).unwrap();
        (0..200).for_each(|file| fs::write(leftover.join(file.to_string()), "").unwrap());
        let cancel = CancelToken::default();
        let place = ledger.root.parent().unwrap().to_owned();
        let told = beside_with(request(&ledger), &cancel, || {
            let mut found = Vec::new();
            removed_in(&place, 0, &mut found);
            assert_eq!(found, [], "while unpacking, round {round}");
            cancel.cancel();
        });
        assert_eq!(told.unwrap_err().code(), Code::Cancelled);
        // Of the one that was cut short.
        let mut found = Vec::new();
        removed_in(&place, 0, &mut found);
        assert!(found.iter().all(|(depth, _)| *depth == 0), "nested: {found:?}");
    }
}
