//! States of a validator: preparing them, what that would do, what there is.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use unsnap_fastboot::{Action, Condition, Repaired, SetAside};
use unsnap_test_support::{
    Outcome, Site,
    ledger::{Ledger, names, small_archive, small_pair},
    ledger_tool, run,
};

use crate::schema::Schema;

fn prepared() -> Schema {
    Schema::of("fastboot-prepare.v1.json", &[])
}

fn planned() -> Schema {
    Schema::of("fastboot-dry-run.v1.json", &["/cleared/*/slot", "/kept/*/slot"])
}

fn surveyed() -> Schema {
    Schema::of("fastboot-status.v1.json", &["/ready", "/unlisted", "/states/*/incomplete"])
}

fn fastboot(action: &str, ledger: &Ledger, flags: &[&str]) -> Outcome {
    let mut tool = ledger_tool();
    tool.args(["fastboot", action]).args(ledger.arguments()).args(flags).arg("--format=json");
    if action == "prepare" {
        tool.arg("--min-free=0");
    }
    run(&mut tool)
}

#[track_caller]
fn prepare(ledger: &Ledger, flags: &[&str]) -> Value {
    fastboot("prepare", ledger, flags).assert_code(0).json()
}

fn ledger(site: &Site) -> Ledger {
    let ledger = Ledger::new(&site.place(), 1);
    small_pair(&ledger.snapshots);
    ledger
}

#[test]
fn states_are_prepared_found_and_adopted() {
    let (site, schema) = (Site::new(), prepared());
    let ledger = ledger(&site);
    // The newest archive proves bad, and is renamed.
    let bad = small_archive(&ledger.snapshots, 120, Some(100), &[(115, 700)]);
    let bytes = fs::read(&bad).unwrap();
    fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
    let first = prepare(&ledger, &[]);
    schema.hold(&first);
    assert_eq!((&first["outcome"], &first["slot"]), (&"prepared".into(), &110.into()));
    assert_eq!(first["set_aside"].as_array().unwrap().len(), 1, "{first:#}");
    assert_eq!(first["report"]["accounts_paths"].as_array().unwrap().len(), 1);

    let mut ready = prepare(&ledger, &[]);
    schema.hold(&ready);
    assert_eq!(ready["state"]["outcome"], "was-whole");
    let lost = ledger.run(0).join(names(&ledger.run(0)).pop().unwrap());
    fs::remove_file(lost).unwrap();
    let relinked = prepare(&ledger, &[]);
    schema.hold(&relinked);
    assert_eq!(relinked["state"]["outcome"], "relinked");
    for repaired in every_repair() {
        ready["state"] = serde_json::to_value(repaired).unwrap();
        schema.hold(&ready);
    }

    small_archive(&ledger.snapshots, 130, Some(100), &[(125, 700)]);
    prepare(&ledger, &["--beside"]);
    let adopted = prepare(&ledger, &[]);
    schema.hold(&adopted);
    assert_eq!((&adopted["outcome"], &adopted["slot"]), (&"adopted".into(), &130.into()));
}

/// Each result of a repair. One that is added must be added here, too.
fn every_repair() -> Vec<Repaired> {
    let reason = || "its form".to_owned();
    let all = [
        Repaired::NoState,
        Repaired::WasWhole { slot: 1 },
        Repaired::Relinked { slot: 1, storages: 2 },
        Repaired::Withdrawn { slot: 1 },
        Repaired::LeftAlone { slot: 1, reason: reason() },
    ];
    for one in &all {
        match one {
            Repaired::NoState
            | Repaired::WasWhole { .. }
            | Repaired::Relinked { .. }
            | Repaired::Withdrawn { .. }
            | Repaired::LeftAlone { .. } => {}
        }
    }
    all.to_vec()
}

#[test]
fn what_would_be_done_is_told() {
    let (site, schema) = (Site::new(), planned());
    let ledger = ledger(&site);
    let plan = |flags: &[&str], action: Action| {
        let plan = prepare(&ledger, &[flags, &["--dry-run"]].concat());
        schema.hold(&plan);
        assert_eq!(plan["action"], serde_json::to_value(action).unwrap());
        plan
    };
    plan(&[], Action::Prepare);
    prepare(&ledger, &[]);
    plan(&[], Action::Nothing);
    small_archive(&ledger.snapshots, 130, Some(100), &[(125, 700)]);
    let replacing = plan(&[], Action::Prepare);
    let cleared = |key: &str| -> Vec<Value> {
        replacing["cleared"].as_array().unwrap().iter().map(|files| files[key].clone()).collect()
    };
    assert_eq!(cleared("what")[0], "state", "{replacing:#}");
    assert_eq!(cleared("slot")[0], 110, "{replacing:#}");
    // A shadow that keeps something, beside a validator that runs.
    fs::remove_file(ledger.run(0).join(names(&ledger.run(0)).pop().unwrap())).unwrap();
    let lock = File::create(ledger.root.join("ledger.lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    plan(&["--beside"], Action::Prepare);
    prepare(&ledger, &["--beside"]);
    drop(lock);
    plan(&[], Action::Adopt);

    // Everything that files and space can be.
    let mut all = plan(&[], Action::Adopt);
    for what in ["state", "storages", "shadow", "ready", "leftover"] {
        all["kept"] = json!([{"what": what, "path": "/l", "bytes": 1}]);
        schema.accept(&all);
    }
    all["set_aside"] = json!(["/l/bad"]);
    for unknown in ["free_bytes", "written_bytes", "free_after_bytes"] {
        all["space"][0][unknown] = Value::Null;
    }
    schema.hold(&all);
}

#[test]
fn what_there_is_is_told() {
    let (site, schema) = (Site::new(), surveyed());
    let ledger = ledger(&site);
    let status = |code: i32| {
        let status = fastboot("status", &ledger, &[]).assert_code(code).json();
        schema.accept(&status);
        status
    };
    assert_eq!(status(0), json!({"states": []}));
    prepare(&ledger, &[]);
    let mut whole = status(0);
    schema.hold(&whole);
    assert_eq!(whole["states"][0]["condition"]["is"], "whole");
    for condition in every_condition() {
        whole["states"][0]["condition"] = serde_json::to_value(condition).unwrap();
        schema.hold(&whole);
    }

    small_archive(&ledger.snapshots, 130, Some(100), &[(125, 700)]);
    prepare(&ledger, &["--beside"]);
    fs::create_dir(ledger.state(200)).unwrap();
    fs::remove_file(ledger.run(0).join(&names(&ledger.run(0))[1])).unwrap();
    fs::write(ledger.run(0).join("7.1"), "stray").unwrap();
    let all = status(1);
    schema.hold(&all);
    assert_eq!(all["states"][0]["incomplete"], true, "{all:#}");
    assert_eq!(all["states"][1]["condition"]["is"], "damaged", "{all:#}");
    assert!(all["ready"].is_object() && all["unlisted"]["files"] == 1, "{all:#}");
}

/// Each condition. One that is added must be added here, too.
fn every_condition() -> Vec<Condition> {
    let reason = || "its form".to_owned();
    let all = [
        Condition::Whole { storages: 1 },
        Condition::Damaged { lost: 1, storages: 2, repairable: true },
        Condition::NotLoadable { reason: reason() },
        Condition::Unknown { reason: reason() },
    ];
    for one in &all {
        match one {
            Condition::Whole { .. }
            | Condition::Damaged { .. }
            | Condition::NotLoadable { .. }
            | Condition::Unknown { .. } => {}
        }
    }
    all.to_vec()
}

#[test]
fn an_archive_that_was_renamed_has_both_names() {
    let set_aside = SetAside {
        path: PathBuf::from("/l/snapshot"),
        now: PathBuf::from("/l/snapshot.unsnap-bad"),
        reason: "it is cut".to_owned(),
    };
    let outcome = json!({
        "outcome": "ready", "slot": 1, "state": {"outcome": "no-state"}, "behind": 0,
        "set_aside": [set_aside],
    });
    prepared().hold(&outcome);
}
