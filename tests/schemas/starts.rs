//! What the front end leaves of each start.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::Value;
use unsnap_test_support::{
    Site, cleaned,
    ledger::{Ledger, small_archive, small_pair},
    ledger_tool, run, validator_path,
};

use crate::schema::Schema;

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn records_of_starts() {
    let schema = Schema::of("validator-start.v1.json", &["/code"]);
    let site = Site::new();
    let ledger = Ledger::new(&site.place(), 1);
    fs::create_dir(&ledger.accounts[0]).unwrap();
    let (validator, hook, got) =
        (site.path("agave-validator"), site.path("hook"), site.path("got"));
    executable(&validator, "#!/bin/sh\nexit 42\n");
    executable(&hook, &format!("#!/bin/sh\ncat > '{}'\n", got.display()));
    let start = |own: &[&str], result: &str| {
        let mut command = cleaned(Command::new(validator_path()));
        command.args(["--on-event".as_ref(), hook.as_os_str()]).args(own);
        command.arg(&validator).args(ledger.arguments());
        run(&mut command).assert_code(42);
        let left = fs::read_to_string(ledger.snapshots.join(".unsnap-last-start.json")).unwrap();
        assert_eq!(fs::read_to_string(&got).unwrap(), left);
        let record: Value = serde_json::from_str(&left).unwrap();
        schema.hold(&record);
        assert_eq!(record["result"], result, "{record:#}");
        record
    };
    let given_up = start(&[], "given-up");
    assert!(given_up["code"].is_string(), "{given_up:#}");
    small_pair(&ledger.snapshots);
    start(&["--attempts=1"], "unpacked");
    // The validator has ended early with it.
    let again = start(&["--attempts=1"], "unpacked");
    assert_eq!(again["withdrawn"], serde_json::json!([110]), "{again:#}");
    start(&["--attempts=0"], "ready");
    small_archive(&ledger.snapshots, 130, Some(100), &[(125, 700)]);
    let mut beside = ledger_tool();
    beside.args(["fastboot", "prepare", "--beside", "--min-free=0"]).args(ledger.arguments());
    run(&mut beside).assert_code(0);
    start(&["--attempts=0"], "adopted");
    // Without a start, the report is that of `fastboot prepare`.
    let mut only = cleaned(Command::new(validator_path()));
    only.args(["--prepare-only", "--format=json"]).args(ledger.arguments());
    let report = run(&mut only).assert_code(0).json();
    Schema::of("fastboot-prepare.v1.json", &[]).hold(&report);
    assert_eq!(report["slot"], 130, "{report:#}");

    // A start without a state has no slot, and one with a state no reason.
    let mut wrong = given_up.clone();
    wrong["slot"] = 7.into();
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| schema.accept(&wrong)));
    assert!(refused.is_err());
    let page = fs::read_to_string(crate::schema::root().join("docs/troubleshooting.md")).unwrap();
    let code = given_up["code"].as_str().unwrap();
    assert!(page.contains(&format!("\n### {code}\n")), "{code}");
}
