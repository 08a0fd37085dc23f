//! `diff`: differences are those that a plain scan finds.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use unsnap_test_support::{
    Outcome, Site, finish, genuine, genuine_full, genuine_pairs, ledger_tool, run,
};
use unsnap_testkit::{compress, tar::snapshot_tar, tree::reference_entries_of_file};

use crate::scan::{Scanned, newest, scan, storage_of};

fn diff(before: &Path, after: &Path, more: &[&str]) -> Outcome {
    run(ledger_tool().arg("diff").arg(before).arg(after).args(more))
}

/// What a plain scan finds to be different, in the form of the program's lines and without an
/// order.
fn differences(before: &[&Path], after: &[&Path]) -> Vec<String> {
    let storages = |archives: &[&Path]| -> BTreeMap<u64, (u32, Vec<u8>)> {
        let entries =
            archives.iter().flat_map(|archive| reference_entries_of_file(archive).unwrap());
        let storages = entries.filter_map(|entry| {
            let (slot, id) = entry.path.strip_prefix("accounts/")?.split_once('.')?;
            Some((slot.parse().unwrap(), (id.parse().unwrap(), entry.bytes)))
        });
        storages.collect()
    };
    let storage = |(id, bytes): &(u32, Vec<u8>)| json!({ "id": id, "bytes": bytes.len() });
    let mut lines = compared(
        &storages(before),
        &storages(after),
        |one, other| one.1 == other.1,
        storage,
        |slot| ("storage", "slot", json!(slot)),
    );
    let account = |account: &Scanned| {
        json!({
            "slot": account.slot, "lamports": account.lamports, "data_bytes": account.data.len(),
        })
    };
    let same = |one: &Scanned, other: &Scanned| {
        (one.lamports, &one.owner, one.executable, &one.data)
            == (other.lamports, &other.owner, other.executable, &other.data)
    };
    lines.extend(compared(
        &newest(&scan_all(before)),
        &newest(&scan_all(after)),
        same,
        account,
        |pubkey| ("account", "pubkey", json!(pubkey)),
    ));
    lines.sort();
    lines
}

fn scan_all(archives: &[&Path]) -> Vec<Scanned> {
    archives.iter().flat_map(|archive| scan(archive)).collect()
}

fn compared<K: Ord, V>(
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
    show: impl Fn(&V) -> Value,
    name: impl Fn(&K) -> (&'static str, &'static str, Value),
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |key, change, sides: &[(&str, &V)]| {
        let (kind, name, key) = name(key);
        let mut object = json!({ "kind": kind, "change": change, name: key });
        for (side, value) in sides {
            object[*side] = show(value);
        }
        lines.push(object.to_string());
    };
    for (key, old) in before {
        match after.get(key) {
            None => line(key, "removed", &[("before", old)]),
            Some(new) if !same(old, new) => {
                line(key, "changed", &[("before", old), ("after", new)]);
            }
            Some(_) => {}
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(key)) {
        line(key, "added", &[("after", new)]);
    }
    lines
}

#[test]
fn differences_are_those_of_a_plain_scan() {
    let site = Site::new();
    let write = |name: &str, storages: &[(u64, u32, Vec<u8>)]| {
        let tar = snapshot_tar(100, storages);
        site.write(name, &compress::zstd_frames(&tar, 700, 1))
    };
    let before = write(
        "before",
        &[
            (10, 1, storage_of(&[(1, 5, b"same"), (2, 5, b"goes"), (3, 5, b"is given lamports")])),
            (20, 2, storage_of(&[(4, 5, b"old"), (5, 7, &[9; 3000])])),
            (30, 3, storage_of(&[(4, 5, b"newer"), (6, 1, b"is closed")])),
            (40, 4, storage_of(&[(7, 1, b"moves to another slot")])),
        ],
    );
    let after = write(
        "after",
        &[
            (10, 9, storage_of(&[(1, 5, b"same"), (2, 5, b"goes"), (3, 5, b"is given lamports")])),
            (20, 2, storage_of(&[(4, 5, b"old"), (5, 7, &[8; 3000])])),
            (
                50,
                7,
                storage_of(&[
                    (2, 0, b""),
                    (3, 6, b"is given lamports"),
                    (6, 0, b""),
                    (8, 1, b"new"),
                ]),
            ),
            (60, 8, storage_of(&[(7, 1, b"moves to another slot")])),
        ],
    );
    for (before, after) in [(&before, &after), (&after, &before)] {
        for memory in ["1GiB", "4MiB"] {
            let more = ["--format", "json-lines", "--memory", memory];
            let found = diff(before, after, &more).assert_code(0).stdout;
            assert_eq!(sorted(&found), differences(&[before], &[after]));
        }
    }
    let counts = diff(&before, &after, &["--format", "json"]).assert_code(0).json();
    // Slot 20 has changed, 10 has not: its number is the node's own.
    let storages = json!({ "added": 2, "removed": 2, "changed": 1, "unchanged": 1 });
    assert_eq!(counts["storages"], storages);
    let accounts = json!({ "added": 1, "removed": 2, "changed": 3, "unchanged": 2 });
    assert_eq!(counts["accounts"], accounts);
}

fn sorted(lines: &str) -> Vec<String> {
    let reparsed = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut lines: Vec<_> = reparsed.map(|value| value.to_string()).collect();
    lines.sort();
    lines
}

#[test]
fn genuine_archives_differ_as_a_plain_scan_says() {
    let archives = genuine();
    let (before, after) = (&archives[0], &archives[archives.len() - 1]);
    let found = diff(before, after, &["--format", "json-lines"]).assert_code(0).stdout;
    assert!(sorted(&found) == differences(&[before], &[after]));
    diff(before, after, &["--exit-code", "--quiet"]).assert_code(1);
}

#[test]
fn pairs_are_compared_as_one_snapshot() {
    for (full, incremental) in genuine_pairs() {
        let upon = incremental.to_str().unwrap();
        let more = ["--format", "json-lines", "--after-incremental", upon];
        let found = diff(&full, &full, &more).assert_code(0);
        assert_eq!(found.stderr, "", "nothing to warn of");
        assert!(sorted(&found.stdout) == differences(&[&full], &[&full, &incremental]));
        let more = ["--format", "json", "--before-incremental", upon];
        let back = diff(&full, &full, &more).assert_code(0).json();
        assert_eq!(back["before_incremental"], upon);
        assert_eq!(back["after_incremental"], Value::Null);
        assert!(back["before_slot"].as_u64() > back["after_slot"].as_u64());
        let more = ["--exit-code", "--before-incremental", upon, "--after-incremental", upon];
        diff(&full, &full, &more).assert_code(0);
    }
    let [(full, _), (_, foreign)] = genuine_pairs();
    diff(&full, &full, &["--after-incremental", foreign.to_str().unwrap()])
        .assert_code(2)
        .assert_error(&["builds on slot"]);
}

#[test]
fn an_incremental_archive_against_its_base_is_warned_of() {
    let [(full, incremental), (other, _)] = genuine_pairs();
    for (before, after) in [(&full, &incremental), (&incremental, &full)] {
        let outcome = diff(before, after, &[]).assert_code(0);
        let warned = outcome.stderr.contains("warning: ");
        assert!(warned && outcome.stderr.contains("--after-incremental"), "{outcome:?}");
        assert_eq!(diff(before, after, &["-qq"]).assert_code(0).stderr, "");
    }
    assert!(!diff(&full, &other, &["--no-progress"]).stderr.contains("warning"));
}

#[test]
fn a_repacked_archive_is_the_same() {
    let site = Site::new();
    let mut command = ledger_tool();
    command.arg("repack").arg(genuine_full()).arg("--output").arg(site.place()).arg("--quiet");
    run(&mut command).assert_code(0);
    let repacked = site.place().join(genuine_full().file_name().unwrap());
    let outcome = diff(&genuine_full(), &repacked, &["--exit-code"]).assert_code(0);
    assert!(outcome.stdout.contains("accounts: 0 added, 0 removed, 0 changed"), "{outcome:?}");
}

#[test]
fn bad_input_is_told() {
    let site = Site::new();
    let twice = storage_of(&[(1, 5, b"one"), (1, 6, b"other")]);
    let twice =
        site.write("twice", &compress::zstd_frames(&snapshot_tar(100, &[(10, 1, twice)]), 700, 1));
    diff(&twice, &genuine_full(), &[]).assert_code(1).assert_error(&["twice in slot 10", "/twice"]);
    diff(&genuine_full(), &twice, &[]).assert_code(1).assert_error(&["twice in slot 10", "/twice"]);
    let cut = fs::read(genuine_full()).unwrap();
    let cut = site.write("cut", &cut[..cut.len() / 2]);
    let outcome = diff(&genuine_full(), &cut, &["--format", "json-lines"]).assert_code(1);
    assert_eq!(outcome.stdout, "", "nothing is told of archives that are not whole");
    diff(Path::new("-"), Path::new("-"), &[]).assert_code(2).assert_error(&["not both"]);
    diff(&site.path("missing"), &cut, &[]).assert_code(3).assert_error(&[]);
}

#[test]
fn an_exit_code_tells_a_difference_from_trouble() {
    let site = Site::new();
    let (full, flag) = (genuine_full(), ["--exit-code"]);
    let bytes = fs::read(&full).unwrap();
    let cut = site.write("cut", &bytes[..bytes.len() / 2]);
    diff(&full, &full, &flag).assert_code(0);
    diff(&full, &genuine()[0], &["--exit-code", "--quiet"]).assert_code(1);
    diff(&full, &cut, &flag).assert_code(2).assert_error(&["[archive-cut]"]);
    diff(&full, &site.path("missing"), &flag).assert_code(2).assert_error(&["[not-found]"]);
    diff(Path::new("-"), Path::new("-"), &flag).assert_code(2).assert_error(&["[request]"]);
    let mut command = ledger_tool();
    command.arg("diff").args([&full, &full]).args(flag);
    let device = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = command.stdout(device).stderr(std::process::Stdio::piped()).spawn().unwrap();
    finish(child).assert_code(2).assert_error(&["[output-failed]"]);
}
