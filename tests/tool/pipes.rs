//! Whoever reads the output may have had enough at any time: that is a quiet success.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use unsnap_test_support::{Site, daemon::Daemon, finish, genuine, genuine_full, run};

use crate::programs::{PROGRAMS, commands, program};

/// An account of every ledger.
const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";

/// A pipe that nobody reads any more.
fn broken_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Runs it for somebody who does not read: its exit code, and not a word.
#[track_caller]
fn assert_quiet(mut command: Command, code: i32) {
    let child = command.stdout(broken_pipe()).stderr(Stdio::piped()).spawn().unwrap();
    let outcome = finish(child);
    assert_eq!(outcome.stderr, "", "{command:?}");
    assert_eq!(outcome.status.code(), Some(code), "{command:?}");
}

/// A command of ledger-tool.
fn tool(words: &[&str]) -> Command {
    let mut command = program("ledger-tool");
    command.args(words);
    command
}

#[test]
fn help_and_version_are_quiet() {
    for words in PROGRAMS.into_iter().flat_map(commands) {
        for flag in ["--help", "-h", "--version"] {
            let mut command = program(&words[0]);
            command.args(&words[1..]).arg(flag);
            assert_quiet(command, 0);
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        assert_quiet(tool(&["completions", shell]), 0);
    }
    assert_quiet(tool(&["man"]), 0);
    assert_quiet(tool(&["man", "unpack"]), 0);
}

#[test]
fn reports_and_listings_are_quiet() {
    let site = Site::new();
    let full = site.path(genuine_full().file_name().unwrap().to_str().unwrap());
    fs::copy(genuine_full(), &full).unwrap();
    let archive = full.to_str().unwrap();
    let fresh = |name: &str| site.place().join(name).to_str().unwrap().to_owned();
    // A tree, for `create`; and its report, for nobody.
    let tree = fresh("tree");
    for format in ["text", "json"] {
        let output = if format == "text" { tree.clone() } else { fresh("tree-json") };
        assert_quiet(tool(&["unpack", archive, "--output", &output, "--format", format]), 0);
        assert!(Path::new(&output).join("version").exists(), "what was asked for is there");
        let with = |words: &[&str]| tool(&[words, &["--format", format]].concat());
        let made = fresh(&format!("made-{format}"));
        fs::create_dir(&made).unwrap();
        assert_quiet(with(&["inspect", archive]), 0);
        assert_quiet(with(&["index", archive]), 0);
        assert_quiet(with(&["list", archive]), 0);
        assert_quiet(with(&["list", archive, "--no-index"]), 0);
        assert_quiet(
            with(&[
                "extract",
                archive,
                "--entry",
                "version",
                "--output",
                &fresh(&format!("x-{format}")),
            ]),
            0,
        );
        assert_quiet(with(&["extract", archive, "--account", CLOCK]), 0);
        assert_quiet(with(&["verify", archive]), 0);
        assert_quiet(with(&["repack", archive, "--output", &made]), 0);
        assert_quiet(with(&["create", &tree, "--output", &made, "--force"]), 0);
        assert_quiet(with(&["diff", archive, archive]), 0);
    }
    for format in ["csv", "json-lines"] {
        assert_quiet(tool(&["accounts", archive, "--newest", "--format", format]), 0);
    }
    let other = genuine().into_iter().find(|path| path.extension().unwrap() == "lz4").unwrap();
    assert_quiet(tool(&["diff", archive, other.to_str().unwrap(), "--format", "json-lines"]), 0);
    assert_quiet(tool(&["extract", archive, "--entry", "version", "--output", "-"]), 0);
    assert_quiet(tool(&["extract", archive, "--account", CLOCK, "--format", "raw"]), 0);
}

#[test]
fn states_and_measurements_are_quiet() {
    let site = Site::new();
    let [ledger, accounts, place] = ["ledger", "accounts", "bench"].map(|name| {
        fs::create_dir(site.path(name)).unwrap();
        site.path(name).to_str().unwrap().to_owned()
    });
    fs::copy(genuine_full(), site.path("ledger").join(genuine_full().file_name().unwrap()))
        .unwrap();
    let places = ["--ledger", &ledger, "--accounts", &accounts];
    for format in ["text", "json"] {
        for action in ["prepare", "status", "repair", "withdraw"] {
            let words = [&["fastboot", action, "--format", format], &places[..]].concat();
            assert_quiet(tool(&words), 0);
        }
        let mut validator = program("unsnap-validator");
        validator.args(["-q", "--prepare-only", "--format", format]).args(places);
        assert_quiet(validator, 0);
        // Whatever is wrong with this machine.
        let doctor = ["doctor", "--format", format, &place];
        let told = run(&mut tool(&doctor)).status.code().unwrap();
        assert_verdict(tool(&doctor), told);
        let size = ["--size", "1MiB", "--rounds", "1", "--no-progress"];
        let words = [&["bench", "--output", &place, "--format", format], &size[..]].concat();
        assert_quiet(tool(&words), 0);
    }
}

#[test]
fn answers_of_the_service_are_quiet() {
    let mut daemon = Daemon::new();
    for flag in ["--check-config", "--print-config"] {
        let mut unpackd = daemon.command();
        unpackd.arg(flag);
        assert_quiet(unpackd, 0);
    }
    daemon.start();
    let socket = daemon.path("socket");
    let archive = genuine_full();
    for format in ["text", "json", "json-lines"] {
        for words in [
            &["status"][..],
            &["pause"],
            &["submit", archive.to_str().unwrap()],
            &["resume"],
            &["reload"],
            &["metrics"],
            // It ends with the first line that it cannot tell.
            &["watch"],
        ] {
            let mut command = tool(&["service"]);
            command.args(words).args(["--format", format, "--socket"]).arg(&socket);
            assert_quiet(command, 0);
        }
    }
}

#[test]
fn a_verdict_is_not_lost_with_the_reader() {
    let site = Site::new();
    let full = genuine_full();
    let name = full.file_name().unwrap().to_str().unwrap();
    let wrong = site.path(&name.replace("snapshot-39", "snapshot-40"));
    fs::copy(&full, &wrong).unwrap();
    let (full, wrong) = (full.to_str().unwrap(), wrong.to_str().unwrap());
    let other = genuine().into_iter().find(|path| path.extension().unwrap() == "lz4").unwrap();
    let absent = "So11111111111111111111111111111111111111113";
    for format in ["text", "json"] {
        let with = |words: &[&str]| tool(&[words, &["--format", format]].concat());
        assert_verdict(with(&["inspect", wrong]), 1);
        assert_verdict(with(&["extract", full, "--account", absent]), 1);
        assert_quiet(with(&["diff", "--exit-code", full, other.to_str().unwrap()]), 1);
    }
}

/// The exit code is as if somebody had read the output, and standard error tells nothing but an error.
#[track_caller]
fn assert_verdict(mut command: Command, code: i32) {
    let child = command.stdout(broken_pipe()).stderr(Stdio::piped()).spawn().unwrap();
    let outcome = finish(child);
    assert_eq!(outcome.status.code(), Some(code), "{command:?}: {outcome:?}");
    let is_told = |line: &str| line.starts_with("error: ") || line.starts_with("hint: ");
    assert!(outcome.stderr.lines().all(is_told), "{command:?}: {outcome:?}");
}
