//! Reports of `unpack` and `verify`.

use std::path::{Path, PathBuf};

use serde_json::Value;
use unsnap_test_support::{Outcome, Site, genuine, genuine_full, ledger_tool, run};
use unsnap_testkit::spec::ArchiveSpec;
use unsnap_unpack::{Resumed, TeeReport};

use crate::schema::Schema;

fn report() -> Schema {
    Schema::of("unpack-report.v1.json", &[])
}

fn incremental() -> PathBuf {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    genuine().into_iter().find(|path| name(path).starts_with("incremental-snapshot-39-")).unwrap()
}

#[track_caller]
fn json(outcome: Outcome) -> Value {
    outcome.assert_code(0).json()
}

#[test]
fn reports_of_unpacking() {
    let (schema, site) = (report(), Site::new());
    let unpack = |flags: &[&str]| {
        site.reset(false);
        let mut tool = ledger_tool();
        tool.args(["unpack", "--format", "json"]).args(flags).arg("--output").arg(site.output());
        tool
    };
    let mut one = json(run(unpack(&["--digest", "xxh3"]).arg(genuine_full())));
    schema.hold(&one);
    assert!(one["digest"].is_string() && one["preflight"]["file_systems"][0].is_object());
    // A run that was interrupted has one thing more to tell.
    let resumed = Resumed { files: 3, bytes: 4096, from_byte: 512 };
    one["resumed"] = serde_json::to_value(resumed).unwrap();
    let tee =
        |kept, reason| TeeReport { path: "/a".to_owned(), bytes: 3, reused_bytes: 0, kept, reason };
    let tees = [tee(true, None), tee(false, Some("its disk is full".to_owned()))];
    one["tee"] = serde_json::to_value(tees).unwrap();
    schema.hold(&one);

    let limits = ["--rate-limit=1GB", "--nice=19", "--io-class=idle", "--cpus=0"];
    let full = genuine_full();
    let pair = json(run(unpack(&[&limits[..], &["--dry-run"]].concat())
        .arg(&full)
        .arg("--incremental")
        .arg(incremental())));
    schema.hold(&pair);
    assert!(pair["incremental"].is_object() && pair["limits"]["nice"] == 19, "{pair:#}");

    let other = json(run(unpack(&["--layout=any", "--no-preflight"]).arg(&full)));
    schema.hold(&other);
    assert_eq!(
        (&other["kind"], other["preflight"]["skipped"].is_string()),
        (&"other".into(), true)
    );

    let frames = site.archive(&ArchiveSpec { total_bytes: 300_000, ..ArchiveSpec::default() });
    schema.hold(&json(run(unpack(&["--io-engine=threads"]).arg(&frames))));
    schema.hold(&json(run(unpack(&["--dry-run"]).arg(&frames))));
}

#[test]
fn reports_of_verifying() {
    let schema = report();
    let verify = |flags: &[&str]| {
        let mut tool = ledger_tool();
        tool.args(["verify", "--format", "json"]).args(flags).arg(genuine_full());
        tool
    };
    let one = json(run(&mut verify(&[])));
    schema.hold(&one);
    let pair = json(run(verify(&[]).arg("--incremental").arg(incremental())));
    schema.hold(&pair);
    for verified in [&one, &pair] {
        assert!(verified["accounts"]["accounts"].as_u64() > Some(0), "{verified:#}");
        assert!(verified["bank"].is_object(), "{verified:#}");
    }
    assert_eq!(pair["accounts"]["archives"].as_array().unwrap().len(), 2);
}

#[test]
fn reports_of_exporting() {
    let schema = Schema::of("export-report.v1.json", &[]);
    let site = Site::new();
    let export = |output: &str, flags: &[&str]| {
        let mut tool = ledger_tool();
        tool.args(["export", "--report", "json"]).args(flags).arg(genuine_full());
        tool.arg("--output").arg(site.path(output));
        json(run(&mut tool))
    };
    let one = export("one", &["--check"]);
    schema.hold(&one);
    assert!(one["manifest"]["tables"][0]["files"][0].is_object());
    let more = ["--newest", "--data-prefix", "8", "--data-size", "1.."];
    let incremental = incremental();
    let pair =
        export("pair", &[&more[..], &["--incremental", incremental.to_str().unwrap()]].concat());
    schema.hold(&pair);
    assert_eq!(pair["manifest"]["archives"].as_array().unwrap().len(), 2);

    let schema = Schema::of("export-check.v1.json", &[]);
    let whole = export("whole", &["--newest"]);
    for (name, report, archive) in [("one", &one, None), ("whole", &whole, Some(genuine_full()))] {
        let mut tool = ledger_tool();
        tool.args(["check-export", "--report", "json"]).arg(site.path(name));
        tool.args(archive.iter().flat_map(|path| [Path::new("--archive"), path]));
        let checked = json(run(&mut tool));
        schema.hold(&checked);
        assert_eq!(checked["manifest"], report["manifest"]);
        assert_eq!(checked["accounts_hash"].is_string(), name == "whole", "{checked:#}");
    }
}
