//! The state that a validator starts from, by the service.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::DirEntryExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};
use serde_json::json;
use unsnap_test_support::{
    daemon::{Daemon, SLOW},
    genuine,
    ledger::small_archive,
    ledger_tool, run,
};
use unsnap_testkit::tree::read_tree;

/// A service for a validator's ledger.
pub fn beside_a_validator() -> Daemon {
    let daemon = Daemon::new();
    fs::create_dir(daemon.path("ledger")).unwrap();
    daemon.configure(&target(&daemon, ANY_SLOT));
    daemon
}

/// States may follow each other at any distance.
pub const ANY_SLOT: &str = "[cadence]\nmin-slots = 0\n";

pub fn target(daemon: &Daemon, rest: &str) -> String {
    let ledger = daemon.path("ledger").display().to_string();
    format!("[[target]]\nname = \"validator\"\nkind = \"fastboot\"\nledger = \"{ledger}\"\n{rest}")
}

/// The configuration with jobs that take minutes.
pub fn slow(daemon: &Daemon) -> String {
    target(daemon, &[ANY_SLOT, SLOW].concat())
}

/// Takes the lock that a validator holds.
#[track_caller]
pub fn lock_ledger(daemon: &Daemon) -> File {
    let lock = File::create(daemon.path("ledger/ledger.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    lock
}

/// Waits until a job writes files.
pub fn until_it_unpacks(daemon: &Daemon, slot: u64) -> u64 {
    daemon.until("it unpacks", |daemon| {
        let job = &daemon.target("validator")["job"];
        job["slot"] == slot
            && job["phase"] == "unpacking"
            && job["progress"]["bytes_written"].as_u64() > Some(0)
    });
    daemon.target("validator")["job"]["id"].as_u64().unwrap()
}

/// The genuine pair, in the order of their slots, 39 and 47.
pub fn genuine_pair() -> Vec<PathBuf> {
    let is_zstd = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "zst");
    let mut pair: Vec<PathBuf> = genuine().into_iter().filter(is_zstd).collect();
    pair.sort_by_key(|path| path.file_name().unwrap().to_string_lossy().starts_with("incremental"));
    assert_eq!(pair.len(), 2);
    pair
}

pub fn assert_loadable(daemon: &Daemon, slot: u64) {
    assert!(
        daemon.path("ledger/snapshots").join(slot.to_string()).join("fastboot_version").is_file()
    );
    assert!(!read_tree(&daemon.path("ledger/accounts/run")).unwrap().is_empty());
}

#[test]
fn a_validators_state_is_prepared() {
    let mut daemon = beside_a_validator();
    daemon.start();
    for archive in genuine_pair() {
        daemon.drop_in(&archive);
    }
    daemon.until_settled("validator", 47);
    assert_loadable(&daemon, 47);
    assert!(daemon.end(Signal::TERM).success());
    // It is found to be there.
    daemon.start();
    daemon.until_settled("validator", 47);
}

#[test]
fn while_a_validator_runs_it_is_prepared_beside_and_adopted_at_its_end() {
    let mut daemon = beside_a_validator();
    let [full, incremental] = &genuine_pair()[..] else { unreachable!() };
    daemon.start();
    daemon.drop_in(full);
    daemon.until_settled("validator", 39);
    assert_loadable(&daemon, 39);

    let lock = lock_ledger(&daemon);
    let before = read_tree(&daemon.path("ledger/snapshots")).unwrap();
    daemon.drop_in(incremental);
    daemon.until_settled("validator", 47);
    let ready = daemon.target("validator")["results"][0]["path"].as_str().unwrap().to_owned();
    assert!(PathBuf::from(&ready).join("fastboot_version").is_file());
    assert_ne!(PathBuf::from(&ready), daemon.path("ledger/snapshots/47"));
    assert!(
        read_tree(&daemon.path("ledger/snapshots")).unwrap() == before,
        "what the validator uses was touched"
    );

    // A rescan finds that it has ended.
    drop(lock);
    daemon.until("it is where the next validator looks", |daemon| {
        let target = daemon.target("validator");
        target["state"] == "idle"
            && target["results"][0]["path"] == daemon.path("ledger/snapshots/47").to_str().unwrap()
    });
    assert_loadable(&daemon, 47);
    assert!(!PathBuf::from(ready).exists());
    // It has the size that it had where it was made.
    daemon.until("its size is told", |daemon| {
        daemon.target("validator")["results"][0]["bytes"].as_u64() > Some(0)
    });
    let metrics = metrics(&daemon);
    assert!(metrics.contains("unsnap_adopted_total{target=\"validator\"} 2\n"), "{metrics}");
    assert!(!metrics.contains("unsnap_ready_slot{"), "{metrics}");
    let locked = metrics
        .lines()
        .find_map(|line| {
            line.strip_prefix("unsnap_ledger_locked_seconds_total{target=\"validator\"} ")
        })
        .unwrap();
    assert!(locked.parse::<f64>().unwrap() > 0.0, "{locked}");
}

#[test]
fn a_stopped_job_of_a_state_goes_on_at_the_next_start() {
    let mut daemon = beside_a_validator();
    daemon.configure(&slow(&daemon));
    daemon.start();
    let _validator = lock_ledger(&daemon);
    let storages: Vec<_> = (1..=40).map(|slot| (slot, 20_000)).collect();
    daemon.drop_in(&small_archive(&daemon.path("stock"), 40, None, &storages));
    let staged = daemon.path("ledger/accounts/.unsnap-next/.unsnap-staged-run");
    let storages = || fs::read_dir(&staged).map_or(0, Iterator::count);
    daemon.until("some storages are complete", |_| storages() > 8);
    assert!(daemon.end(Signal::TERM).success());
    let inodes = |directory: &Path| {
        let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
        let inode = |entry: fs::DirEntry| (entry.file_name(), entry.ino());
        entries.map(inode).collect::<BTreeMap<_, _>>()
    };
    let kept = inodes(&staged);
    assert!((2..40).contains(&kept.len()), "{kept:?}");

    daemon.configure(&target(&daemon, ANY_SLOT));
    daemon.start();
    daemon.until_settled("validator", 40);
    let now = inodes(&daemon.path("ledger/accounts/.unsnap-ready/run"));
    assert_eq!(now.len(), 40);
    assert!(kept.iter().all(|(name, inode)| now[name] == *inode), "{kept:?}, {now:?}");
    assert!(!staged.exists());
}

fn metrics(daemon: &Daemon) -> String {
    let metrics = daemon.ask(&json!({"request": "metrics"})).unwrap();
    metrics["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_job_never_keeps_a_validator_from_its_ledger() {
    let mut daemon = beside_a_validator();
    daemon.configure(&slow(&daemon));
    daemon.start();
    daemon.drop_in(&genuine_pair()[0]);
    // No validator runs; one could start at any time, also while the service is paused.
    until_it_unpacks(&daemon, 39);
    drop(lock_ledger(&daemon));
    daemon.ask(&json!({"request": "pause"})).unwrap();
    daemon.until("it rests", |daemon| daemon.target("validator")["job"]["state"] == "paused");
    drop(lock_ledger(&daemon));
    daemon.ask(&json!({"request": "resume"})).unwrap();
    let job = until_it_unpacks(&daemon, 39);
    let answer = daemon.ask(&json!({"request": "cancel", "job": job})).unwrap();
    assert_eq!((&answer["was"], &answer["ending"]), (&"running".into(), &true.into()));
    drop(lock_ledger(&daemon));
    daemon.until("it has ended", |daemon| daemon.target("validator")["job"].is_null());

    // It starts in the middle of a job. The state waits for its end.
    daemon.ask(&json!({"request": "prepare"})).unwrap();
    until_it_unpacks(&daemon, 39);
    let lock = lock_ledger(&daemon);
    daemon.configure(&target(&daemon, ANY_SLOT));
    daemon.signal(Signal::HUP);
    daemon.until_settled("validator", 39);
    assert!(!daemon.path("ledger/snapshots/39").exists());
    let text = metrics(&daemon);
    assert!(text.contains("unsnap_ready_slot{target=\"validator\"} 39\n"), "{text}");
    drop(lock);
    daemon.until("it is adopted", |daemon| daemon.path("ledger/snapshots/39").exists());
    daemon.until("it is told", |daemon| {
        let path = daemon.target("validator")["results"][0]["path"].clone();
        path == daemon.path("ledger/snapshots/39").to_str().unwrap()
    });
    assert_loadable(&daemon, 39);
}

#[test]
fn newer_archives_never_end_the_job_of_a_state() {
    let mut daemon = beside_a_validator();
    daemon.configure(&slow(&daemon));
    let [full, incremental] = &genuine_pair()[..] else { unreachable!() };
    daemon.start();
    daemon.drop_in(full);
    let job = until_it_unpacks(&daemon, 39);
    daemon.drop_in(incremental);
    daemon.until("the incremental archive is seen", |daemon| {
        daemon.status()["archives"]["newest"]["slot"] == 47
    });
    let target = daemon.target("validator");
    assert_eq!((&target["job"]["id"], &target["queued"]), (&job.into(), &json!([])));
    daemon.edit(SLOW, "");
    daemon.signal(Signal::HUP);
    daemon.until_settled("validator", 47);
    assert_loadable(&daemon, 47);
    let text = metrics(&daemon);
    for line in [
        "unsnap_jobs_ended_total{target=\"validator\",outcome=\"superseded\"} 0\n",
        "unsnap_jobs_ended_total{target=\"validator\",outcome=\"done\"} 2\n",
        "unsnap_behind_slots{target=\"validator\"} 0\n",
        "unsnap_leftover_bytes{target=\"validator\"} 0\n",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

#[test]
fn a_job_that_a_validators_start_waits_for_has_no_rate_limit() {
    let mut daemon = beside_a_validator();
    daemon.configure(&slow(&daemon));
    daemon.start();
    daemon.drop_in(&genuine_pair()[0]);
    until_it_unpacks(&daemon, 39);
    // As `unsnap-validator` does it.
    let waiting = File::create(daemon.path("ledger/.unsnap-waiting")).unwrap();
    flock(&waiting, FlockOperation::NonBlockingLockExclusive).unwrap();
    daemon.until_settled("validator", 39);
    let log = daemon.log();
    assert_eq!(log.matches("it goes on without its rate limit").count(), 1, "{log}");
    drop(waiting);

    // A paused job makes way, and begins again when nobody waits any more.
    daemon.drop_in(&genuine_pair()[1]);
    until_it_unpacks(&daemon, 47);
    daemon.ask(&json!({"request": "pause"})).unwrap();
    daemon.until("it rests", |daemon| daemon.target("validator")["job"]["state"] == "paused");
    let waiting = File::create(daemon.path("ledger/.unsnap-waiting")).unwrap();
    flock(&waiting, FlockOperation::NonBlockingLockExclusive).unwrap();
    daemon.until("it makes way", |daemon| daemon.target("validator")["job"].is_null());
    daemon.ask(&json!({"request": "resume"})).unwrap();
    daemon.until("it waits", |daemon| {
        let target = daemon.target("validator");
        target["state"] == "waiting" && target["queued"][0]["slot"] == 47
    });
    drop(waiting);
    daemon.edit(SLOW, "");
    daemon.signal(Signal::HUP);
    daemon.until_settled("validator", 47);
}

#[test]
fn states_follow_each_other_by_the_cadence_or_when_somebody_asks() {
    let mut daemon = beside_a_validator();
    daemon.configure(&target(&daemon, ""));
    let [full, incremental] = &genuine_pair()[..] else { unreachable!() };
    daemon.start();
    daemon.drop_in(full);
    daemon.until_settled("validator", 39);
    daemon.drop_in(incremental);
    daemon.until("it is told what is waited for", |daemon| {
        let target = daemon.target("validator");
        let detail = target["detail"].as_str().unwrap_or_default();
        target["state"] == "idle" && detail.contains("slot 25039")
    });
    assert_eq!(daemon.target("validator")["results"][0]["slot"], 39);
    let mut tool = ledger_tool();
    tool.args(["service", "prepare", "validator", "--wait", "--socket"]).arg(daemon.path("socket"));
    let told = run(&mut tool).assert_code(0).stdout;
    assert!(told.contains("done after"), "{told}");
    assert_loadable(&daemon, 47);
    daemon.until_settled("validator", 47);
    let told = run(&mut tool).assert_code(0).stdout;
    assert_eq!(told, "validator: slot 47 is there, nothing to do\n");

    // A job that fails has its exit code, although the service goes on trying.
    let mut other = ledger_tool();
    other.args(["service", "prepare", "nothing", "--socket"]).arg(daemon.path("socket"));
    run(&mut other).assert_code(2);
    fs::remove_file(daemon.path("archives").join(incremental.file_name().unwrap())).unwrap();
    let before = daemon.path("archives").join(full.file_name().unwrap());
    fs::write(&before, &fs::read(full).unwrap()[..20_000]).unwrap();
    fs::remove_dir_all(daemon.path("ledger/snapshots/47")).unwrap();
    daemon.until("it is seen to be bad", |daemon| {
        !daemon.status()["bad"].as_array().unwrap().is_empty()
    });
    run(&mut tool).assert_code(3);
}

#[test]
fn a_state_that_is_withdrawn_is_not_shown_any_more() {
    let mut daemon = beside_a_validator();
    // No rescan comes within the test.
    daemon.edit("rescan = \"2s\"", "rescan = \"1h\"");
    daemon.start();
    daemon.drop_in(&genuine_pair()[0]);
    daemon.until_settled("validator", 39);
    let mut tool = ledger_tool();
    tool.args(["fastboot", "withdraw", "--ledger"]).arg(daemon.path("ledger"));
    run(&mut tool).assert_code(0);
    daemon.until("it is not shown", |daemon| {
        let target = daemon.target("validator");
        target["results"].as_array().unwrap().iter().all(|result| {
            PathBuf::from(result["path"].as_str().unwrap()).join("fastboot_version").is_file()
        })
    });
}
