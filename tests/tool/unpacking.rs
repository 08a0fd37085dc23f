//! What `unpack`, `verify` and `fastboot status` print and refuse: manifests, dry runs, pairs.

use std::{fs, path::Path};

use unsnap_test_support::{Outcome, Site, genuine_full, genuine_pairs, ledger_tool, run};
use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs, available},
    spec::ArchiveSpec,
};

fn tool(words: &[&str]) -> Outcome {
    run(ledger_tool().args(words).arg("--no-progress"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_existing_manifest_is_replaced_only_by_force() {
    let site = Site::new();
    let archive = genuine_full();
    let manifest = site.write("manifest", b"mine");
    let output = site.output();
    let words =
        ["unpack", text(&archive), "--output", text(&output), "--manifest", text(&manifest)];
    tool(&words).assert_code(4).assert_error(&["manifest exists", "[not-clean]", "--force"]);
    assert_eq!(fs::read(&manifest).unwrap(), b"mine");
    assert!(!output.exists());
    tool(&[&words[..], &["--resume"]].concat()).assert_code(4);
    tool(&[&words[..], &["--force"]].concat()).assert_code(0);
    let written = fs::read_to_string(&manifest).unwrap();
    assert!(written.lines().last().unwrap().starts_with("{\"files\":43,"), "{written}");
    // A complete manifest is somebody's, even where it is resumed; an empty file is nobody's.
    fs::remove_dir_all(&output).unwrap();
    tool(&[&words[..], &["--resume"]].concat()).assert_code(4);
    fs::write(&manifest, "").unwrap();
    tool(&words).assert_code(0);
    assert_eq!(fs::read_to_string(&manifest).unwrap(), written);
    tool(&["unpack", text(&archive), "--dry-run", "--force"]).assert_code(2);
}

#[test]
fn a_manifest_goes_to_standard_output() {
    let site = Site::new();
    let archive = genuine_full();
    let (manifest, output) = (site.path("manifest"), site.output());
    let dry = ["unpack", text(&archive), "--dry-run", "--manifest"];
    tool(&[&dry[..], &[text(&manifest)]].concat()).assert_code(0);
    let written = fs::read_to_string(&manifest).unwrap();
    let words = ["unpack", text(&archive), "--output", text(&output), "--manifest", "-"];
    let outcome = tool(&words).assert_code(0);
    assert_eq!(outcome.stdout, written);
    assert!(outcome.stderr.starts_with("unpacked full snapshot of slot 39: "), "{outcome:?}");
    assert!(output.join("version").exists() && !Path::new("-").exists());
    let quiet = tool(&[&dry[..], &["-", "--quiet"]].concat()).assert_code(0);
    assert_eq!((quiet.stdout, quiet.stderr.as_str()), (written, ""));
    let both = tool(&[&dry[..], &["-", "--format", "json"]].concat()).assert_code(2);
    assert_eq!(both.assert_error(&["both want standard output"]).stdout, "");
    let bytes = fs::read(&archive).unwrap();
    let cut = site.write("cut", &bytes[..bytes.len() / 2]);
    let failed = tool(&["unpack", text(&cut), "--dry-run", "--manifest", "-"]).assert_code(1);
    assert_eq!(failed.stdout, "", "of a failed run there is no manifest");
}

#[test]
fn a_dry_run_judges_its_destination() {
    let site = Site::new();
    let archive = genuine_full();
    let (output, accounts) = (site.output(), site.place().join("accounts"));
    let file = site.place().join("neighbour");
    let taken = site.place().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("file"), "somebody's").unwrap();
    let before = site.state();
    for (to, code, error) in [
        (&taken, 4, "is not empty"),
        (&file, 4, "is not a directory"),
        (&site.place().join("no/such"), 2, "does not exist"),
    ] {
        for flag in ["--output", "--accounts"] {
            let other = if flag == "--output" { "--accounts" } else { "--output" };
            let words = ["unpack", text(&archive), flag, text(to), other, text(&output)];
            let real = tool(&words).assert_code(code).assert_error(&[error]);
            let dry = tool(&[&words[..], &["--dry-run"]].concat()).assert_code(code);
            assert_eq!(dry.stderr, real.stderr);
            site.assert_untouched(&before, error);
        }
    }
    let words = ["unpack", text(&archive), "--output", text(&output), "--accounts"];
    let words = [&words[..], &[text(&accounts), "--format", "json"]].concat();
    let dry = tool(&[&words[..], &["--dry-run"]].concat()).assert_code(0).json();
    site.assert_untouched(&before, "a dry run");
    let real = tool(&words).assert_code(0).json();
    for key in ["basis", "bytes_needed", "inodes_needed", "tar_bytes"] {
        assert_eq!(dry["preflight"][key], real["preflight"][key], "{key}");
    }
    let [destinations, others] = [&dry, &real].map(|it| it["preflight"]["file_systems"][0].clone());
    assert_eq!(destinations["destinations"], others["destinations"]);
    assert_eq!(dry["dry_run"], true);
    // Without a destination there is nothing to be compared.
    let nowhere = ["unpack", text(&archive), "--dry-run", "--format", "json"];
    assert!(tool(&nowhere).assert_code(0).json()["preflight"].is_null());
}

#[test]
fn a_dry_run_refuses_what_does_not_fit() {
    let site = Site::new();
    let archive = site.archive(&ArchiveSpec { total_bytes: 9_000_000, ..ArchiveSpec::default() });
    let options = Tmpfs { size_bytes: 4 << 20, inodes: None };
    let Some(disk) = available(ScratchFs::tmpfs(&options)) else { return };
    let output = disk.path().join("output");
    let words = ["unpack", text(&archive), "--dry-run", "--output", text(&output)];
    tool(&words).assert_code(3).assert_error(&["does not fit", "[no-space]"]);
    tool(&[&words[..], &["--no-preflight"]].concat()).assert_code(0);
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
}

#[test]
fn both_archives_of_a_pair_are_told_apart() {
    for (full, incremental) in genuine_pairs() {
        let (full, upon) = (text(&full), text(&incremental));
        let json = tool(&["verify", full, "--incremental", upon, "--format", "json"]);
        let json = json.assert_code(0).json();
        let shown = tool(&["verify", full, "--incremental", upon]).assert_code(0).stdout;
        let word = |value: &serde_json::Value| value.to_string().trim_matches('"').to_owned();
        let (slot, last) = (word(&json["slot"]), word(&json["incremental"]["slot"]));
        let first = format!(
            "checked full snapshot of slot {slot} with incremental snapshot of slot {last}: "
        );
        assert!(shown.starts_with(&first), "{shown}");
        let digest = word(&json["digest"]);
        let other = word(&json["incremental"]["digest"]);
        assert!(shown.contains(&format!("  digest of the full archive: {digest}\n")), "{shown}");
        assert!(shown.contains(&format!("  digest of the incremental archive: {other}\n")));
        // All terms of the sum are there, and it is right.
        let sum = shown.lines().find(|line| line.starts_with("  records: ")).unwrap();
        let numbers = sum.split(' ').filter_map(|word| word.replace(',', "").parse::<u64>().ok());
        let numbers: Vec<u64> = numbers.collect();
        assert_eq!(numbers[0], numbers[1..].iter().sum::<u64>(), "{sum}");
        assert_eq!(numbers.len(), 4, "{sum}");
        assert!(sum.contains("closed accounts (no lamports)"), "{sum}");
        assert_eq!(word(&json["accounts"]["records"]), numbers[0].to_string());
        let one = tool(&["verify", full]).assert_code(0).stdout;
        assert!(one.contains("  digest of the archive: "), "{one}");
    }
}

#[test]
fn a_pair_is_checked_by_a_dry_run_and_becomes_no_tree() {
    let site = Site::new();
    let before = site.state();
    let [(full, incremental), (_, foreign)] = genuine_pairs();
    let pair = ["unpack", text(&full), "--incremental", text(&incremental)];
    let dry = tool(&[&pair[..], &["--dry-run"]].concat()).assert_code(0);
    let both = "with incremental snapshot of slot ";
    assert!(dry.stdout.contains(both), "{dry:?}");
    let output = site.output();
    let tree = tool(&[&pair[..], &["--output", text(&output)]].concat()).assert_code(2);
    tree.assert_error(&["not into a tree", "ledger-tool fastboot prepare", "--dry-run"]);
    let words = ["unpack", text(&full), "--incremental", text(&foreign), "--dry-run"];
    tool(&words).assert_code(2).assert_error(&["builds on slot"]);
    site.assert_untouched(&before, "a pair");
}

#[test]
fn a_state_that_lies_ready_is_no_contradiction() {
    let site = Site::new();
    let [ledger, accounts] = ["ledger", "accounts"].map(|name| site.path(name));
    fs::create_dir(&ledger).unwrap();
    fs::create_dir(&accounts).unwrap();
    let places = ["--ledger", text(&ledger), "--accounts", text(&accounts)];
    let fastboot = |words: &[&str]| tool(&[&["fastboot"], words, &places[..]].concat());
    let none = fastboot(&["status"]).assert_code(0).stdout;
    assert_eq!(none, "no state: a validator unpacks its archives\n");
    let full = genuine_full();
    fs::copy(&full, ledger.join(full.file_name().unwrap())).unwrap();
    fastboot(&["prepare", "--beside", "--min-free=0"]).assert_code(0);
    let shown = fastboot(&["status"]).assert_code(0).stdout;
    let [place, ready] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
    assert!(place.starts_with("no state in place: "), "{shown}");
    assert!(ready.starts_with("ready beside: slot 39: whole"), "{shown}");
    let absent = site.path("absent");
    for action in ["prepare", "status", "repair", "withdraw"] {
        let words = ["fastboot", action, "--ledger", text(&absent)];
        tool(&words).assert_code(3).assert_error(&["absent", "[not-found]", "hint: "]);
    }
    assert!(!absent.exists());
}
