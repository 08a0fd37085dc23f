//! Another unsnap at work, which is waited for, and states that are a few slots old.

use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    process::Stdio,
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};
use unsnap_fastboot::{Places, is_starting};
use unsnap_test_support::{finish, ledger_tool, run, until};

use super::{
    FULL, INCREMENTAL, LAST_START,
    fake::{Ledger, STARTED, archive},
};

/// Locks what an unsnap locks that prepares a state beside the validator's.
fn preparing(ledger: &Ledger) -> File {
    let path = ledger.path().join(".unsnap-next.lock");
    let lock = File::create(&path).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    fs::write(&path, "4242 unpackd\n").unwrap();
    lock
}

#[test]
fn another_unsnap_is_waited_for_until_it_ends_or_the_deadline_is_over() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let told = "another unsnap is at work on";
    let notice = ledger.path().join(".unsnap-waiting");
    let lock = preparing(&ledger);
    let outcome = ledger.start(&["--deadline", "1s"], &["--no-voting"]);
    ledger.assert_as_it_is(&outcome, &["--no-voting"], "within the deadline of 1s");
    assert!(outcome.stderr.contains(told), "{outcome:#?}");
    assert!(outcome.stderr.contains("(process 4242, unpackd): waiting for it, at most 1s\n"));
    assert!(!notice.exists());
    let outcome = ledger.start(&["--deadline", "1s", "--prepare-only"], &[]);
    assert_eq!((outcome.status.code(), ledger.was_started()), (Some(3), false), "{outcome:#?}");

    // It ends without a result.
    let mut command = ledger.command(&[], &[]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it waits", || notice.exists());
    assert!(!ledger.was_started());
    drop(lock);
    let outcome = finish(child);
    ledger.assert_ready(&outcome, 47);
    assert_eq!(outcome.stderr.matches(told).count(), 1, "{outcome:#?}");
    assert!(outcome.stderr.contains("unpacked 48 storages in"), "{outcome:#?}");

    // What exists needs no wait.
    let _lock = preparing(&ledger);
    let outcome = ledger.start(&[], &[]);
    ledger.assert_ready(&outcome, 47);
    assert!(!outcome.stderr.contains(told), "{outcome:#?}");
}

#[test]
fn a_start_that_is_killed_while_it_only_waits_was_not_killed_by_preparing() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let notice = ledger.path().join(".unsnap-waiting");
    let lock = preparing(&ledger);
    for _ in 0..2 {
        let mut command = ledger.command(&["--attempts", "2"], &[]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it waits", || notice.exists());
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        assert_eq!(finish(child).status.signal(), Some(Signal::KILL.as_raw()));
        fs::remove_file(&notice).unwrap();
    }
    drop(lock);
    let outcome = ledger.start(&["--attempts", "2"], &[]);
    ledger.assert_ready(&outcome, 47);
    let report = fs::read_to_string(ledger.path().join(LAST_START)).unwrap();
    assert!(report.contains("\"killed_preparations\":0"), "{report}");
}

#[test]
fn an_older_ready_state_is_used_while_another_unsnap_works_if_it_may_be_so_old() {
    let ledger = Ledger::with(&[FULL]);
    let mut beside = ledger_tool();
    beside.args(["fastboot", "prepare", "--beside", "--min-free=0", "--ledger"]).arg(ledger.path());
    run(&mut beside).assert_code(0);
    let incremental = archive(INCREMENTAL);
    fs::copy(&incremental, ledger.path().join(incremental.file_name().unwrap())).unwrap();
    let _lock = preparing(&ledger);
    // An older start than without unsnap is worse than the wait, and than none.
    for own in [&["--deadline", "1s"][..], &["--deadline", "1s", "--max-behind", "7"]] {
        let outcome = ledger.start(own, &["--no-voting"]);
        ledger.assert_as_it_is(&outcome, &["--no-voting"], "within the deadline of 1s");
    }
    let outcome = ledger.start(&["--max-behind", "8"], &[]);
    assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
    let told = "state of slot 39 is ready: adopted the prepared one";
    assert!(outcome.stderr.contains(told), "{outcome:#?}");
    assert!(!outcome.stderr.contains("waiting for it"), "{outcome:#?}");
    let flag = "--use-snapshot-archives-at-startup";
    assert_eq!(ledger.arguments()[2..], [flag, "never"]);
}

#[test]
fn a_signal_ends_the_wait_for_another_unsnap() {
    let ledger = Ledger::with(&[FULL]);
    for name in [".unsnap-next.lock", ".unsnap-ledger.lock"] {
        let lock = File::create(ledger.path().join(name)).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let mut command = ledger.command(&[], &[]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it waits", || ledger.path().join(".unsnap-waiting").exists());
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let outcome = finish(child);
        assert_eq!(outcome.status.signal(), Some(Signal::TERM.as_raw()), "{outcome:#?}");
        assert!(!ledger.was_started() && !ledger.path().join(".unsnap-waiting").exists());
    }
}

#[test]
fn a_state_may_be_so_many_slots_older_than_the_archives() {
    let ledger = Ledger::with(&[FULL]);
    ledger.assert_ready(&ledger.start(&[], &[]), 39);
    let incremental = archive(INCREMENTAL);
    fs::copy(&incremental, ledger.path().join(incremental.file_name().unwrap())).unwrap();
    let flag = "--use-snapshot-archives-at-startup";
    let outcome = ledger.start(&["--max-behind", "8"], &[]);
    assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
    let told = "state of slot 39 is ready: it existed already; it is 8 slots older than";
    assert!(outcome.stderr.contains(told), "{outcome:#?}");
    assert_eq!(ledger.arguments()[2..], [flag, "never"]);
    let report = fs::read_to_string(ledger.path().join(LAST_START)).unwrap();
    assert!(report.contains("\"slot\":39,\"behind\":8"), "{report}");
    // A validator that was told otherwise would unpack the archives.
    let outcome = ledger.start(&["--max-behind", "8"], &[flag, "when-newest"]);
    ledger.assert_ready(&outcome, 47);
    let told = "--max-behind has no effect: this validator cannot be told";
    assert!(outcome.stderr.contains(told), "{outcome:#?}");

    let ledger = Ledger::with(&[FULL]);
    ledger.assert_ready(&ledger.start(&[], &[]), 39);
    fs::copy(&incremental, ledger.path().join(incremental.file_name().unwrap())).unwrap();
    ledger.assert_ready(&ledger.start(&["--max-behind", "7"], &[]), 47);
}

#[test]
fn a_start_that_prepares_nothing_is_remembered_too() {
    let ledger = Ledger::with(&[FULL]);
    let outcome = ledger.start(&[], &["--use-snapshot-archives-at-startup", "always"]);
    assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
    // unpackd keeps away from the ledger's lock for some seconds after this file was written.
    let places = Places::new(ledger.path());
    assert!(is_starting(&places), "{outcome:#?}");
}
