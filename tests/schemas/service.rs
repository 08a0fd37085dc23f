//! Status and events of unpackd.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use unsnap_control::protocol::{
    Event, EventLine, JobState, JobStatus, Kept, Origin, Outcome, TargetKind, TargetState,
};
use unsnap_test_support::{
    daemon::{Daemon, SLOW, full},
    genuine, ledger_tool, run, wait,
};

use crate::schema::{Schema, read};

fn status() -> Schema {
    Schema::of("service-status.v1.json", &[])
}

fn watch() -> Schema {
    Schema::of("service-watch.v1.json", &[])
}

fn targets(daemon: &Daemon, rest: &str) -> String {
    let ledger = daemon.path("ledger").display().to_string();
    let tree = daemon.tree_target("tree", "trees", 1);
    format!(
        "{tree}[[target]]\nname = \"validator\"\nkind = \"fastboot\"\nledger = \"{ledger}\"\n\
         [cadence]\nmin-slots = 0\n{rest}"
    )
}

fn ask(daemon: &Daemon, request: &str) {
    daemon.ask(&json!({"request": request})).unwrap();
}

#[test]
fn a_service_at_work() {
    let mut daemon = Daemon::new();
    fs::create_dir(daemon.path("ledger")).unwrap();
    daemon.configure(&targets(&daemon, SLOW));
    daemon.start();
    let events = File::create(daemon.path("events")).unwrap();
    let mut tool = ledger_tool();
    tool.args(["service", "watch", "--format=json", "--socket"]).arg(daemon.path("socket"));
    let mut watcher = tool.stdout(events).stderr(Stdio::null()).spawn().unwrap();
    let seen = |daemon: &Daemon| {
        let text = fs::read_to_string(daemon.path("events")).unwrap();
        // The last line may still be being written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole).to_owned();
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let until = |daemon: &Daemon, event: &str| {
        let comes = |daemon: &Daemon| seen(daemon).iter().any(|line| line["event"] == event);
        daemon.until(&format!("{event} is told"), comes);
    };
    let asked = |daemon: &Daemon| {
        let status_as = |format: &str| {
            let mut tool = ledger_tool();
            tool.args(["service", "status", "--format", format, "--socket"]);
            run(tool.arg(daemon.path("socket"))).assert_code(0)
        };
        let one_line = status_as("json-lines");
        assert_eq!(one_line.stdout.lines().count(), 1);
        status().accept(&one_line.json());
        let told = status_as("json").json();
        status().hold(&told);
        told
    };
    daemon.until("watching has begun", |daemon| !seen(daemon).is_empty());
    asked(&daemon);

    // Two jobs so slow that one can look at them.
    daemon.drop_in(&daemon.make(&full(20, 1)));
    until(&daemon, "progress");
    daemon.until("a job works", |daemon| !daemon.target("tree")["job"]["progress"].is_null());
    let working = asked(&daemon);
    assert!(working["targets"][0]["job"]["progress"].is_object(), "{working:#}");
    assert!(working["rate_limit"].is_u64() && working["disks"][0].is_object(), "{working:#}");
    ask(&daemon, "pause");
    assert_eq!(asked(&daemon)["paused"], true);
    ask(&daemon, "resume");
    let job = daemon.target("tree")["job"]["id"].clone();
    daemon.ask(&json!({"request": "cancel", "job": job})).unwrap();
    until(&daemon, "job-ended");

    // Then as fast as they can: an archive that is cut, a pair, and what that replaces.
    daemon.configure(&targets(&daemon, ""));
    ask(&daemon, "reload");
    until(&daemon, "reloaded");
    daemon.drop_in(&daemon.make(&full(25, 3)));
    for target in ["tree", "validator"] {
        daemon.until_settled(target, 25);
    }
    let good = fs::read(daemon.make(&full(30, 2))).unwrap();
    fs::write(daemon.path("cut"), &good[..good.len() / 2]).unwrap();
    let name = daemon.make(&full(30, 2)).file_name().unwrap().to_owned();
    fs::rename(daemon.path("cut"), daemon.path("archives").join(name)).unwrap();
    daemon.until("it is bad", |daemon| {
        let told = daemon.status();
        let is_bad = told["bad"][0].is_object();
        if is_bad {
            status().hold(&told);
        }
        is_bad
    });
    for part in ["/snapshot-39-", "incremental-snapshot-39-"] {
        let of = |path: &&std::path::PathBuf| path.to_str().unwrap().contains(part);
        daemon.drop_in(genuine().iter().find(of).unwrap());
    }
    for target in ["tree", "validator"] {
        daemon.until_settled(target, 47);
    }
    until(&daemon, "adopted");
    until(&daemon, "results-removed");
    let done = asked(&daemon);
    assert!(done["archives"]["newest"].is_object(), "{done:#}");
    assert_eq!(done["disks"][0]["kept"][0]["what"], "trees", "{done:#}");
    assert!(done["targets"][0]["results"][0].is_object(), "{done:#}");
    assert!(done["recent"].as_array().unwrap().len() > 3, "{done:#}");

    kill_process(Pid::from_child(&watcher), Signal::INT).unwrap();
    wait(&mut watcher);
    let (schema, lines) = (watch(), seen(&daemon));
    assert_eq!(lines[0]["answer"], "status");
    let mut kinds = BTreeSet::new();
    for line in &lines {
        schema.accept(line);
        // One of a kind is enough to hold it to every property.
        if kinds.insert(line["event"].as_str().unwrap_or("status").to_owned()) {
            schema.hold(line);
        }
    }
    for kind in ["status", "job-queued", "job-started", "progress", "job-ended", "adopted"] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    for kind in ["paused", "resumed", "reloaded", "results-removed"] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
}

/// Each event. One that is added must be added here, too.
fn every_event() -> Vec<Event> {
    let job = || -> JobStatus {
        serde_json::from_value(json!({
            "id": 12, "target": "validator", "slot": 47, "base_slot": 39,
            "archives": ["/a/full", "/a/incremental"], "origin": "found", "state": "running",
            "phase": "unpacking", "attempt": 1, "retry_in_ms": 3, "started_unix_ms": 5,
            "last_error": "disk full", "progress": {
                "bytes_total": 100, "bytes_read": 61, "bytes_written": 300, "files": 9,
                "rate_bytes_per_s": 7, "eta_ms": 8,
            },
        }))
        .unwrap()
    };
    let (target, phase) = (|| "validator".to_owned(), Some("syncing".to_owned()));
    let progress = job().progress.unwrap();
    let message = Some("it is cut".to_owned());
    let outcome = Outcome::BadArchive;
    let all = [
        Event::JobQueued { job: job() },
        Event::JobStarted { job: job() },
        Event::Progress { job: 12, target: target(), phase, progress },
        Event::JobEnded { job: job(), outcome, message, elapsed_ms: 1500, exit_code: 1 },
        Event::Adopted { target: target(), slot: 47, path: "/l/47".into() },
        Event::StateGivenUp { target: target(), slot: 47, message: "too often".to_owned() },
        Event::SpaceShort {
            target: target(),
            shadow_removed: true,
            ready_discarded: false,
            message: "5 GiB are free".to_owned(),
        },
        Event::Paused,
        Event::Resumed,
        Event::Reloaded,
        Event::ResultsRemoved { target: target(), paths: vec!["/t/1".into()] },
        Event::Missed { events: 3 },
        Event::Unknown,
    ];
    for event in &all {
        match event {
            Event::JobQueued { .. }
            | Event::JobStarted { .. }
            | Event::Progress { .. }
            | Event::JobEnded { .. }
            | Event::Adopted { .. }
            | Event::StateGivenUp { .. }
            | Event::SpaceShort { .. }
            | Event::Paused
            | Event::Resumed
            | Event::Reloaded
            | Event::ResultsRemoved { .. }
            | Event::Missed { .. }
            | Event::Unknown => {}
        }
    }
    all.to_vec()
}

#[test]
fn every_event_there_is() {
    let schema = watch();
    for event in every_event() {
        schema.hold(&serde_json::to_value(EventLine { unix_ms: 9, event }).unwrap());
    }
}

/// The words that a type can be, as its own error lists them.
fn words<T: DeserializeOwned>() -> BTreeSet<String> {
    let error = serde_json::from_value::<T>("no such word".into()).err().unwrap().to_string();
    let (_, expected) = error.split_once("expected ").unwrap();
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_word_there_is() {
    let schema = read("service-watch.v1.json");
    let ended = schema["$defs"]["event"]["oneOf"].as_array().unwrap();
    let ended = ended.iter().find(|event| event["properties"]["outcome"].is_object()).unwrap();
    let of = |definition: &str, property: &str| {
        schema["$defs"][definition]["properties"][property]["enum"].clone()
    };
    for (told, words) in [
        (ended["properties"]["outcome"]["enum"].clone(), words::<Outcome>()),
        (of("job", "state"), words::<JobState>()),
        (of("job", "origin"), words::<Origin>()),
        (of("kept", "what"), words::<Kept>()),
        (of("target", "kind"), words::<TargetKind>()),
        (of("target", "state"), words::<TargetState>()),
    ] {
        let told: Vec<String> = serde_json::from_value(told).unwrap();
        assert_eq!(told.into_iter().collect::<BTreeSet<_>>(), words);
    }
}
