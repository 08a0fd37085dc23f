//! What is refused, and how.

use std::fs;

use unsnap_test_support::{Site, genuine_full, ledger_tool, run};
use unsnap_testkit::{compress, tar::TarBuilder};

use crate::lookup::{index, tool};

#[test]
fn requests_that_make_no_sense_are_usage_errors() {
    let archive = genuine_full();
    let cases: [&[&str]; 9] = [
        &["extract"],
        &["extract", "--output", "x"],
        &["extract", "--entry", "version"],
        &["extract", "--entry", "[", "--output", "x"],
        &["extract", "--slot", "9-3", "--output", "x"],
        &["extract", "--account", "not-base58"],
        &["extract", "--account", "11111111111111111111111111111111", "--output", "x"],
        &["extract", "--entry", "accounts/*", "--output", "-"],
        &["inspect", "--owners", "0"],
    ];
    for words in cases {
        let outcome = tool(words, &archive).assert_code(2);
        assert!(outcome.stderr.contains("error: "), "{words:?}: {outcome:?}");
    }
    for command in ["index", "inspect"] {
        let outcome = run(ledger_tool().args([command, "-", "--no-progress"]));
        outcome.assert_code(2).assert_error(&["stream"]);
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let site = Site::new();
    let archive = site.write("a.tar.zst", &fs::read(genuine_full()).unwrap());
    let before = site.state();
    for _ in 0..2 {
        let output = site.output();
        let words = ["extract", "--entry", "accounts/1.99", "--output", output.to_str().unwrap()];
        tool(&words, &archive).assert_code(1).assert_error(&["no entry matches \"accounts/1.99\""]);
        site.assert_untouched(&before, "nothing found");
        // The second time by the index.
        index(&archive);
    }
}

#[test]
fn an_absent_path_is_not_found_whatever_reads_it() {
    let site = Site::new();
    let before = site.state();
    let full = genuine_full();
    let full = full.to_str().unwrap();
    let output = site.output();
    let output = output.to_str().unwrap();
    // One whose name promises nothing, and one whose name does.
    for name in ["missing", "incremental-snapshot-39-47-11111111111111111111111111111111.tar.zst"] {
        let missing = site.path(name);
        let missing = missing.to_str().unwrap();
        let cases: [&[&str]; 17] = [
            &["unpack", missing, "--output", output],
            &["unpack", missing, "--output", output, "--verify", "accounts"],
            &["unpack", missing, "--dry-run"],
            &["verify", missing],
            &["verify", full, "--incremental", missing],
            &["list", missing],
            &["inspect", missing],
            &["index", missing],
            &["extract", missing, "--entry", "version", "--output", output],
            &["extract", missing, "--account", "11111111111111111111111111111111"],
            &["repack", missing, "--output", output],
            &["create", missing, "--output", output],
            &["accounts", missing],
            &["accounts", missing, "--newest"],
            &["diff", missing, full],
            &["diff", full, missing],
            &["diff", missing, missing],
        ];
        for words in cases {
            let outcome = run(ledger_tool().args(words).arg("--no-progress")).assert_code(3);
            let parts =
                ["No such file", name, "[not-found]", "hint: check the spelling of the path"];
            let outcome = outcome.assert_error(&parts);
            assert_eq!(
                (outcome.stdout.as_str(), outcome.stderr.lines().count()),
                ("", 2),
                "{words:?}"
            );
            site.assert_untouched(&before, words[0]);
        }
    }
}

#[test]
fn damaged_archives_leave_nothing_behind() {
    let site = Site::new();
    let mut bytes = fs::read(genuine_full()).unwrap();
    let good = site.write("good.tar.zst", &bytes);
    let side_car = fs::read(index(&good)).unwrap();
    let middle = bytes.len() / 2;
    // More than a block: without checksums it is headers that damage shows in.
    bytes[middle..middle + 200_000].fill(0xff);
    let archive = site.write("bad.tar.zst", &bytes);
    let cut = site.write("cut.tar.zst", &bytes[..middle]);
    let garbage = site.write("garbage.tar.zst", b"this is no archive, whatever its name says");
    let before = site.state();
    for archive in [&archive, &cut, &garbage] {
        let output = site.output();
        let words = ["extract", "--entry", "**", "--output", output.to_str().unwrap()];
        tool(&words, archive).assert_code(1);
        site.assert_untouched(&before, archive.display());
        tool(&["index"], archive).assert_code(1);
        let mut path = archive.clone().into_os_string();
        path.push(".unsnap-index");
        assert!(!fs::exists(&path).unwrap(), "no index of a bad archive");
    }
    tool(&["inspect"], &garbage).assert_code(1);
    // An index of what the archive was does not hide the damage.
    fs::write(site.path("bad.tar.zst.unsnap-index"), side_car).unwrap();
    let output = site.output();
    let words = ["extract", "--entry", "**", "--output", output.to_str().unwrap()];
    tool(&words, &archive).assert_code(1);
    site.assert_untouched(&before, "a stale index");
}

#[test]
fn names_are_hostile() {
    let site = Site::new();
    let hostile = TarBuilder::new().file("../outside", b"x").file("fine", b"y").finish();
    let link = TarBuilder::new().symlink("fine", "/etc/passwd").finish();
    let before = site.state();
    for (name, tar) in [("dots", hostile), ("link", link)] {
        let archive = site.write(name, &compress::zstd_frames(&tar, 600, 1));
        for _ in 0..2 {
            let output = site.output();
            let output = output.to_str().unwrap();
            let words = ["extract", "--layout", "any", "--entry", "**", "--output", output];
            tool(&words, &archive).assert_code(1);
            site.assert_untouched(&before, name);
            index(&archive);
        }
    }
}

#[test]
fn destinations_must_be_clean() {
    let site = Site::new();
    let archive = genuine_full();
    fs::create_dir(site.output()).unwrap();
    fs::write(site.output().join("mine"), "precious").unwrap();
    let before = site.state();
    let output = site.output();
    let words = ["extract", "--entry", "version", "--output", output.to_str().unwrap()];
    tool(&words, &archive).assert_code(4);
    site.assert_untouched(&before, "not clean");
}
