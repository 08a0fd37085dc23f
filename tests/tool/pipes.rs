//! Standard output that takes no more: a reader that closed the pipe is a quiet success; a full
//! device is an error that tells a lost report from a lost result.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use unsnap_test_support::{Outcome, Site, daemon::Daemon, finish, genuine, genuine_full, run};

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

/// The exit code is as if somebody had read the output, and standard error tells nothing but an
/// error.
#[track_caller]
fn assert_verdict(mut command: Command, code: i32) {
    let child = command.stdout(broken_pipe()).stderr(Stdio::piped()).spawn().unwrap();
    let outcome = finish(child);
    assert_eq!(outcome.status.code(), Some(code), "{command:?}: {outcome:?}");
    let is_told = |line: &str| line.starts_with("error: ") || line.starts_with("hint: ");
    assert!(outcome.stderr.lines().all(is_told), "{command:?}: {outcome:?}");
}

/// Runs it with a standard output that takes nothing.
fn into_full_device(mut command: Command) -> Outcome {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    finish(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn a_lost_report_is_told_from_a_lost_result() {
    let site = Site::new();
    let full = site.path(genuine_full().file_name().unwrap().to_str().unwrap());
    fs::copy(genuine_full(), &full).unwrap();
    let archive = full.to_str().unwrap();
    for format in ["text", "json"] {
        let place = |name: &str| {
            let path = site.place().join(format!("{format}-{name}"));
            fs::create_dir(&path).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let [tree, one, ledger, accounts, repacked, created] =
            ["tree", "one", "ledger", "accounts", "repacked", "created"].map(place);
        fs::copy(&full, Path::new(&ledger).join(full.file_name().unwrap())).unwrap();
        let states = ["--ledger", &ledger, "--accounts", &accounts];
        let prepare = [&["fastboot", "prepare"], &states[..]].concat();
        let withdraw = [&["fastboot", "withdraw"], &states[..]].concat();
        let done: [(&[&str], &str); 9] = [
            (&["unpack", archive, "--output", &tree], &format!("unpacked to {tree} and durable")),
            (&["unpack", archive, "--dry-run"], "the archive is whole"),
            (&["verify", archive], "the archive passed all checks"),
            (&["index", archive], ".unsnap-index and durable"),
            (&["extract", archive, "--entry", "version", "--output", &one], "extracted to "),
            (&["repack", archive, "--output", &repacked], "repacked to "),
            (&["create", &tree, "--output", &created], "made "),
            (&prepare, "the state of slot 39 is ready"),
            (&withdraw, "the state of slot 39 is withdrawn"),
        ];
        for (words, what) in done {
            let outcome = into_full_device(tool(&[words, &["--format", format]].concat()));
            let lost = "; only the report could not be printed: No space left";
            let parts = [what, lost, "[output-failed]", "hint: standard output goes to"];
            let outcome = outcome.assert_code(5).assert_error(&parts);
            assert!(!outcome.stderr.contains("destination"), "{words:?}: {outcome:#?}");
        }
        assert!(Path::new(&tree).join("version").exists(), "what was asked for is there");
    }
    // Where the output is the result, it is lost.
    for words in [
        &["list", archive][..],
        &["list", archive, "--format", "json"],
        &["inspect", archive],
        &["accounts", archive],
        &["accounts", archive, "--format", "csv"],
        &["diff", archive, archive],
        &["extract", archive, "--entry", "version", "--output", "-"],
        &["extract", archive, "--account", CLOCK],
        &["extract", archive, "--account", CLOCK, "--format", "raw"],
    ] {
        let outcome = into_full_device(tool(words)).assert_code(3);
        let outcome = outcome.assert_error(&["No space left", "[output-failed]", "hint: standard"]);
        assert!(!outcome.stderr.contains("destination"), "{words:?}: {outcome:#?}");
    }
}
