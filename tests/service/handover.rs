//! The service and the program in front of a validator hand work over to each other.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Command,
    time::{Duration, SystemTime},
};

use rustix::process::Signal;
use serde_json::json;
use unsnap_fastboot::{ATTEMPTS_FILE, Attempts, Candidates, SearchDirs, StateName};
use unsnap_ring::Syscalls;
use unsnap_test_support::{Outcome, cleaned, daemon::Daemon, run, validator_path};

use crate::validator::{
    ANY_SLOT, assert_loadable, beside_a_validator, genuine_pair, lock_ledger, slow, target,
    until_it_unpacks,
};

const ARCHIVE_USE: &str = "--use-snapshot-archives-at-startup";

/// A program in the place of `agave-validator` that writes down its arguments, behind `validator`.
fn front_end(daemon: &Daemon, own: &[&str]) -> Command {
    let program = daemon.path("agave-validator");
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > {}\n", arguments(daemon).display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = cleaned(Command::new(validator_path()));
    command.args(["--attempts", "0"]).args(own).arg(program);
    command.arg("--ledger").arg(daemon.path("ledger"));
    for flag in ["--full-snapshot-archive-path", "--incremental-snapshot-archive-path"] {
        command.arg(flag).arg(daemon.path("archives"));
    }
    command
}

fn arguments(daemon: &Daemon) -> std::path::PathBuf {
    daemon.path("arguments")
}

/// Panics unless the validator was started from a state, after a wait for the service.
#[track_caller]
fn assert_waited(daemon: &Daemon, outcome: &Outcome, parts: &[&str], archive_use: &str) {
    assert_eq!(outcome.status.code(), Some(0), "{outcome:#?}");
    let told = &outcome.stderr;
    let who = format!("(process {}, unpackd): waiting for it, at most 30m\n", daemon.pid());
    assert_eq!(told.matches(&who).count(), 1, "{told}");
    for part in parts {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let words = fs::read_to_string(arguments(daemon)).unwrap();
    assert!(words.ends_with(&format!("{ARCHIVE_USE}\n{archive_use}\n")), "{words}");
    assert!(!daemon.path("ledger/.unsnap-waiting").exists());
}

/// A service that unpacks the full archive slowly while the incremental one is there.
fn at_work_on_what_is_old() -> Daemon {
    let mut daemon = beside_a_validator();
    daemon.configure(&slow(&daemon));
    let [full, incremental] = &genuine_pair()[..] else { unreachable!() };
    daemon.start();
    daemon.drop_in(full);
    until_it_unpacks(&daemon, 39);
    daemon.drop_in(incremental);
    daemon.until("the incremental archive is seen", |daemon| {
        daemon.status()["archives"]["newest"]["slot"] == 47
    });
    daemon
}

#[test]
fn the_start_of_a_validator_waits_for_the_job_and_uses_its_state() {
    let mut daemon = beside_a_validator();
    daemon.configure(&slow(&daemon));
    daemon.start();
    daemon.drop_in(&genuine_pair()[0]);
    until_it_unpacks(&daemon, 39);
    let outcome = run(&mut front_end(&daemon, &[]));
    assert_waited(&daemon, &outcome, &["state of slot 39 is ready: "], "when-newest");
    assert!(!outcome.stderr.contains("unpacked"), "{outcome:#?}");
    assert_loadable(&daemon, 39);
    let log = daemon.log();
    assert_eq!(log.matches("it goes on without its rate limit").count(), 1, "{log}");
    daemon.until_settled("validator", 39);
}

#[test]
fn a_job_whose_state_would_be_too_old_makes_way() {
    let daemon = at_work_on_what_is_old();
    let outcome = run(&mut front_end(&daemon, &[]));
    let parts = ["state of slot 47 is ready: unpacked 48 storages in "];
    assert_waited(&daemon, &outcome, &parts, "when-newest");
    let log = daemon.log();
    assert!(log.contains("a validator's start waits for the target; ending the job"), "{log}");
    assert_loadable(&daemon, 47);
    daemon.until_settled("validator", 47);
}

#[test]
fn a_job_whose_state_is_not_too_old_is_waited_for() {
    let daemon = at_work_on_what_is_old();
    let outcome = run(&mut front_end(&daemon, &["--max-behind", "8"]));
    let parts = ["state of slot 39 is ready: ", "it is 8 slots older than the newest archives"];
    assert_waited(&daemon, &outcome, &parts, "never");
    assert!(!outcome.stderr.contains("unpacked"), "{outcome:#?}");
    assert_loadable(&daemon, 39);
}

#[test]
fn a_ready_state_is_adopted_however_old_unless_it_is_configured() {
    for (limit, is_adopted) in [("", true), ("max-behind = 7\n", false)] {
        let mut daemon = beside_a_validator();
        // The incremental archive has to wait for its turn.
        daemon.configure(&target(&daemon, limit));
        let [full, incremental] = &genuine_pair()[..] else { unreachable!() };
        daemon.start();
        let lock = lock_ledger(&daemon);
        daemon.drop_in(full);
        daemon.until_settled("validator", 39);
        daemon.drop_in(incremental);
        daemon.until("the incremental archive is seen", |daemon| {
            daemon.status()["archives"]["newest"]["slot"] == 47
        });
        drop(lock);
        if !is_adopted {
            daemon.edit(limit, "max-behind = 8\n");
            daemon.signal(Signal::HUP);
        }
        daemon.until("it is adopted", |daemon| daemon.path("ledger/snapshots/39").exists());
        daemon.until_settled("validator", 39);
        assert_loadable(&daemon, 39);
    }
}

/// Remembers that validators have ended with the state of a slot, as `validator` does.
fn give_up(daemon: &Daemon, slot: u64) {
    let candidates = Candidates::find(&SearchDirs::new(daemon.path("archives"))).unwrap();
    let pair = candidates.pairs().find(|pair| pair.slot() == slot).unwrap();
    let mut attempts = Attempts::default();
    attempts.suspect(StateName::of(&pair), Some(&pair));
    remember(daemon, &attempts);
}

/// Writes the memory of starts, an hour ago: nothing is adopted right after a start.
fn remember(daemon: &Daemon, attempts: &Attempts) {
    let ledger = daemon.path("ledger");
    attempts.write(&Syscalls::default(), &ledger).unwrap();
    let file = fs::File::options().write(true).open(ledger.join(ATTEMPTS_FILE)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
}

#[test]
fn archives_whose_state_ends_validators_are_not_unpacked_again() {
    let mut daemon = beside_a_validator();
    let pair = genuine_pair();
    let archives: Vec<_> = pair.iter().map(|archive| daemon.drop_in(archive)).collect();
    give_up(&daemon, 47);
    daemon.start();
    daemon.until_settled("validator", 39);
    assert_loadable(&daemon, 39);
    let why = "validators have ended early with the state of slot 47";
    let detail = daemon.target("validator")["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with(why) && detail.contains("`validator --replace`"), "{detail}");
    assert!(daemon.log().contains(why), "{}", daemon.log());

    let answer = daemon.ask(&json!({"request": "prepare"})).unwrap();
    assert_eq!(
        answer["jobs"],
        json!([{"target": "validator", "slot": 39, "job": null}]),
        "the next best archives: {answer}"
    );
    let submit = json!({"request": "submit", "archive": archives[0], "incremental": archives[1]});
    let refused = daemon.ask(&submit).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
    assert_eq!(refused["kind"], "bad-archive");

    // The operator tells `validator` to forget it.
    remember(&daemon, &Attempts::default());
    daemon.until_settled("validator", 47);
    assert!(daemon.target("validator")["detail"].is_null());
    assert_loadable(&daemon, 47);
}

#[test]
fn a_ready_state_that_ends_validators_is_not_adopted() {
    let mut daemon = beside_a_validator();
    daemon.configure(&target(&daemon, ANY_SLOT));
    daemon.start();
    let lock = lock_ledger(&daemon);
    daemon.drop_in(&genuine_pair()[0]);
    daemon.until_settled("validator", 39);
    give_up(&daemon, 39);
    daemon.until("it is known", |daemon| {
        daemon.log().contains("validators have ended early with the state of slot 39")
    });
    drop(lock);
    // Newer archives are another matter.
    daemon.drop_in(&genuine_pair()[1]);
    daemon.until("it is adopted", |daemon| daemon.path("ledger/snapshots/47").exists());
    daemon.until_settled("validator", 47);
    assert_loadable(&daemon, 47);
    let log = daemon.log();
    let adopted: Vec<&str> =
        log.lines().filter(|line| line.contains("ready state adopted")).collect();
    assert!(adopted.len() == 1 && adopted[0].contains("slot=47"), "{adopted:?}");
}
