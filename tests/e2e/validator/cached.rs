//! Storages are read into the page cache while the validator starts.

use std::{
    fs::{self, File},
    io::Read,
    process::{Child, Command, Stdio},
};

use rustix::fs::{Advice, fadvise};
use unsnap_ring::is_cached;
use unsnap_test_support::{skip, until};

use super::{FULL, fake::Ledger};

/// A validator that lives until its standard input ends.
const LASTING: &str = "#!/bin/sh\necho up\nread line\nexit 42\n";

/// A ledger with a state of which no storage is in the page cache; `None` if this file system keeps
/// files there whatever it is asked.
fn cold_state() -> Option<Ledger> {
    let ledger = Ledger::with(&[FULL]);
    fs::write(ledger.fake(), LASTING).unwrap();
    let prepared = ledger.run(&mut ledger.command(&["--prepare-only"], &[]));
    assert_eq!(prepared.status.code(), Some(0), "{prepared:#?}");
    for path in storages(&ledger) {
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        if is_cached(&file, 0, file.metadata().unwrap().len()) != Some(false) {
            skip("the page cache cannot be emptied, or not be looked at");
            return None;
        }
    }
    Some(ledger)
}

fn storages(ledger: &Ledger) -> Vec<std::path::PathBuf> {
    let found = fs::read_dir(ledger.run_directory()).unwrap();
    let found: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 40);
    found
}

/// Returns whether all storages are in the page cache to their ends.
fn all_are_cached(ledger: &Ledger) -> bool {
    storages(ledger).iter().all(|path| {
        let file = File::open(path).unwrap();
        let bytes = file.metadata().unwrap().len();
        is_cached(&file, 0, bytes) == Some(true)
    })
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Lets the validator end; returns what it and the process beside it have printed, once both are gone.
fn end(mut validator: Child) -> (Option<i32>, String) {
    drop(validator.stdin.take());
    let mut told = String::new();
    validator.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    (validator.wait().unwrap().code(), told)
}

#[test]
fn storages_are_cached_while_the_validator_starts() {
    for when in ["on", "auto"] {
        let Some(ledger) = cold_state() else { return };
        let validator = start(&mut ledger.command(&["--leave-cached", when], &[]));
        until("all storages are cached", || all_are_cached(&ledger));
        let (code, told) = end(validator);
        assert_eq!(code, Some(42), "{told}");
        assert!(told.contains("unsnap: state of slot 39 is ready"), "{told}");
    }
}

#[test]
fn what_was_read_is_told_while_the_validator_lives() {
    let Some(ledger) = cold_state() else { return };
    let mut validator = start(&mut ledger.command(&[], &[]));
    let mut told = Vec::new();
    let stderr = validator.stderr.as_mut().unwrap();
    while !String::from_utf8_lossy(&told).contains("unsnap: read 40 storages, ") {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&told));
        told.push(byte[0]);
    }
    assert_eq!(end(validator).0, Some(42));
}

#[test]
fn nothing_is_read_if_it_is_not_wanted() {
    let Some(ledger) = cold_state() else { return };
    let mut validator = start(&mut ledger.command(&["--leave-cached", "off"], &[]));
    let mut up = [0; 3];
    validator.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    let (code, told) = end(validator);
    assert_eq!((code, told.contains("page cache")), (Some(42), false), "{told}");
    assert!(!all_are_cached(&ledger));
}

#[test]
fn a_quiet_start_stays_quiet() {
    let Some(ledger) = cold_state() else { return };
    let validator = start(&mut ledger.command(&["-q"], &[]));
    until("all storages are cached", || all_are_cached(&ledger));
    assert_eq!(end(validator), (Some(42), String::new()));
}
