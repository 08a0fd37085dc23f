//! What is typed: what is prepared for which command line, and what is executed.

use std::{
    ffi::OsString,
    fs,
    io::Read,
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    path::Path,
    process::{Command, Stdio},
};

use unsnap_test_support::{
    Outcome, cleaned, ledger_tool, run, run as run_tool, validator_path, wait,
};
use unsnap_testkit::tree::read_tree;

use super::{
    FULL, INCREMENTAL, LAST_START,
    fake::{Ledger, STARTED, archive},
};

#[test]
fn a_program_that_cannot_be_executed_is_told_as_by_a_shell() {
    let ledger = Ledger::empty();
    let execute = |program: &Path| {
        let mut command = cleaned(Command::new(validator_path()));
        run(command.arg("--ledger").arg(ledger.path()).arg("--").arg(program))
    };
    let missing = execute(&ledger.site.path("missing")).assert_code(127);
    assert!(missing.stderr.contains("No such file"), "{missing:#?}");
    execute(Path::new("no-such-program-anywhere")).assert_code(127);
    let closed = ledger.site.write("closed", b"#!/bin/sh\n");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o644)).unwrap();
    execute(&closed).assert_code(126).assert_error(&["cannot execute", "Permission denied"]);
    execute(&ledger.path()).assert_code(126);
}

#[test]
fn a_program_is_looked_for_like_any_other() {
    let ledger = Ledger::with(&[FULL]);
    let mut command = cleaned(Command::new(validator_path()));
    let path = std::env::var("PATH").unwrap();
    let directory = ledger.fake().parent().unwrap().display().to_string();
    command
        .env("PATH", format!("{directory}:{path}"))
        .env("UNSNAP_TEST_OUT", ledger.site.path("out"));
    command.args(["agave-validator", "-l"]).arg(ledger.path());
    let outcome = run(&mut command);
    ledger.assert_ready(&outcome, 39);
}

#[test]
fn what_is_typed_wrong_starts_the_validator_where_it_is_clear_which() {
    let ledger = Ledger::with(&[FULL]);
    let fake = ledger.fake();
    let run = |words: &[&str]| {
        let mut command = cleaned(Command::new(validator_path()));
        command.args(words).env("UNSNAP_TEST_OUT", ledger.site.path("out"));
        ledger.run(&mut command)
    };
    let outcome = run(&["--typo", "--", fake.to_str().unwrap(), "--x"]);
    assert!(outcome.stderr.contains("--typo"), "{outcome:#?}");
    assert_eq!((outcome.status.code(), ledger.was_started()), (Some(STARTED), true));
    assert_eq!(ledger.arguments(), ["--x"]);
    for words in [&["--typo", fake.to_str().unwrap()][..], &[], &["--ledger", "x"], &["--"]] {
        let outcome = run(words);
        assert_eq!((outcome.status.code(), ledger.was_started()), (Some(2), false), "{outcome:#?}");
    }
    // A second validator is worse than none.
    for own in [
        &["--prepare-only", "--deadlin", "10m"][..],
        &["--deadlin", "10m", "--prepare-only"],
        &["--prepare-onl"],
        &["--prepare-only=yes"],
        &["--ledger=--prepare-only"],
    ] {
        let words = [own, &["--", fake.to_str().unwrap(), "--x"]].concat();
        let outcome = run(&words);
        assert_eq!((outcome.status.code(), ledger.was_started()), (Some(2), false), "{outcome:#?}");
    }
    // A file of limits that is not there is a mistake as well.
    let outcome = ledger.start(&["--config", "/no/such/file"], &[]);
    ledger.assert_as_it_is(&outcome, &[], "cannot read /no/such/file");
    assert_eq!(run(&["--version"]).status.code(), Some(0));
}

#[test]
fn a_start_that_is_asked_for_wrongly_leaves_a_record() {
    let ledger = Ledger::with(&[FULL]);
    let path = ledger.path().join(LAST_START);
    let recorded = |outcome: &Outcome, part: &str| {
        assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
        let report =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {outcome:#?}"));
        assert!(report.contains("\"result\":\"given-up\""), "{report}");
        assert!(report.contains("\"code\":\"request\"") && report.contains(part), "{report}");
        fs::remove_file(&path).unwrap();
    };
    let missing = ledger.site.path("acounts").display().to_string();
    let textfile = ledger.site.path("unsnap.prom");
    let own = ["--textfile", textfile.to_str().unwrap()];
    let outcome = ledger.start(&own, &["--accounts", &missing]);
    recorded(&outcome, "acounts (--accounts) does not exist");
    let metrics = fs::read_to_string(&textfile).unwrap();
    assert!(metrics.contains("unsnap_starts_total{result=\"given-up\"} 1"), "{metrics}");
    recorded(&ledger.start(&["--config", "/no/such/file"], &[]), "cannot read /no/such/file");
    // Not even an option of ours is known, but the validator's directories are.
    let mut command = cleaned(Command::new(validator_path()));
    command.args(["--typo", "--"]).arg(ledger.fake()).arg("--ledger").arg(ledger.path());
    let outcome = ledger.run(command.env("UNSNAP_TEST_OUT", ledger.site.path("out")));
    recorded(&outcome, "'--typo'");
    // They contradict each other: nothing is written where a guess would lead.
    let other = ledger.site.path("").display().to_string();
    ledger.start(&["--ledger", &other], &[]);
    assert!(!path.exists());
    ledger.start(&["--prepare-only", "--config", "/no/such/file"], &[]);
    assert!(!path.exists(), "nothing was started");
}

#[test]
fn preparing_alone_is_reported() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let report = |own: &[&str]| -> Outcome {
        let own: Vec<&str> = ["--prepare-only"].iter().chain(own).copied().collect();
        let outcome = ledger.start(&own, &[]).assert_code(0);
        assert!(!ledger.was_started());
        outcome
    };
    let json = report(&["--format", "json"]).json();
    assert_eq!((&json["outcome"], &json["slot"]), (&"prepared".into(), &47.into()), "{json:#}");
    assert_eq!(json["report"]["files"], 48 + 3, "{json:#}");
    let json = report(&["--format=json"]).json();
    assert_eq!((&json["outcome"], &json["slot"]), (&"ready".into(), &47.into()), "{json:#}");
    assert_eq!(report(&[]).stdout, "");
    assert_eq!(report(&["-q"]).stderr, "");
    let json = report(&["--replace", "--fastboot-format", "5", "--format=json"]).json();
    assert_eq!(json["outcome"], "prepared", "{json:#}");
    let mark = fs::read_to_string(ledger.state(47).join("fastboot_version")).unwrap();
    assert_eq!(mark, "5.0.0");
}

#[test]
fn arguments_that_are_no_text_arrive_as_they_are() {
    let ledger = Ledger::with(&[FULL]);
    let odd = [b"--odd=\xff\xfe".to_vec(), Vec::new(), b"two\nlines".to_vec(), b"-".to_vec()];
    let odd: Vec<_> = odd.into_iter().map(OsString::from_vec).collect();
    let outcome = ledger.run(ledger.command(&[], &["--"]).args(&odd));
    assert_eq!(outcome.status.code(), Some(STARTED), "{outcome:#?}");
    let arguments = ledger.arguments();
    let flag = "--use-snapshot-archives-at-startup";
    assert_eq!(arguments[2..5], [flag, "when-newest", "--"]);
    assert_eq!(arguments[5..], odd);
}

#[test]
fn what_the_validator_would_not_look_at_is_not_prepared() {
    for (arguments, told) in [
        (&["exit", "--force"][..], ""),
        (&["--help"], ""),
        (&["--version"], ""),
        (&["monitor"], ""),
        (&["--use-snapshot-archives-at-startup", "always"], "preparing nothing"),
        (&["--use-snapshot-archives-at-startup=always"], "preparing nothing"),
    ] {
        let ledger = Ledger::with(&[FULL]);
        let before = read_tree(&ledger.path()).unwrap();
        let outcome = ledger.start(&[], arguments);
        ledger.assert_as_it_is(&outcome, arguments, told);
        let mut after = read_tree(&ledger.path()).unwrap();
        if !told.is_empty() {
            // The start of a validator is remembered all the same, so that others keep away.
            assert!(after.remove(".unsnap-attempts").is_some(), "{arguments:?}");
        }
        assert!(after == before, "{arguments:?}");
    }
    // What it would look at whatever else there is.
    let ledger = Ledger::with(&[FULL]);
    let arguments = ["--use-snapshot-archives-at-startup", "never"];
    for _ in 0..2 {
        let outcome = ledger.start(&[], &arguments);
        assert!(outcome.stderr.contains("state of slot 39 is ready"), "{outcome:#?}");
        assert_eq!(ledger.arguments()[2..], arguments);
        let name = archive(INCREMENTAL);
        fs::copy(&name, ledger.path().join(name.file_name().unwrap())).unwrap();
    }
}

/// A script that starts the validator in directories that only it knows.
fn script(ledger: &Ledger) -> String {
    let script = ledger.site.path("start.sh");
    let text = format!("#!/bin/sh\nexec {} \"$@\"\n", ledger.fake().display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script.to_str().unwrap().to_owned()
}

#[test]
fn nothing_is_guessed_for_a_script() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let (script, path) = (script(&ledger), ledger.path().display().to_string());
    let accounts = ledger.site.path("accounts").display().to_string();
    fs::create_dir(&accounts).unwrap();
    let run = |words: &[&str]| {
        let mut command = cleaned(Command::new(validator_path()));
        command.args(words).env("UNSNAP_TEST_OUT", ledger.site.path("out"));
        ledger.run(&mut command)
    };
    let before = read_tree(&ledger.path()).unwrap();
    for (own, missing) in [
        (&["--ledger", &path, "--snapshots", &path][..], "give --accounts, or"),
        (&["--ledger", &path, "--accounts", &accounts], "give --snapshots, or"),
        (&["--snapshots", &path, "--accounts", &accounts], "give --ledger, or"),
    ] {
        let words = [own, &["--", &script, "--accounts", &accounts]].concat();
        let outcome = run(&words);
        assert_eq!((outcome.status.code(), ledger.was_started()), (Some(STARTED), true));
        assert!(outcome.stderr.contains("start.sh is not agave-validator"), "{outcome:#?}");
        assert!(outcome.stderr.contains(missing), "{outcome:#?}");
        assert_eq!(ledger.arguments(), ["--accounts", &*accounts]);
        let outcome = run(&[&["--prepare-only"], &*words].concat()).assert_code(2);
        assert!(!ledger.was_started(), "{outcome:#?}");
        assert!(read_tree(&ledger.path()).unwrap() == before);
        assert_eq!(fs::read_dir(&accounts).unwrap().count(), 0);
    }
    // Everything is given. The script's arguments are passed on unchanged.
    let own = ["--ledger", &path, "--snapshots", &path, "--accounts", &accounts];
    let outcome = run(&[&own[..], &["--", &script, "one"]].concat());
    assert!(outcome.stderr.contains("state of slot 47 is ready"), "{outcome:#?}");
    assert_eq!(ledger.arguments(), ["one"]);
    assert!(ledger.state(47).join("fastboot_version").exists());
}

#[test]
fn the_directories_of_a_running_validator_are_used() {
    let ledger = Ledger::with(&[FULL, INCREMENTAL]);
    let path = ledger.path().display().to_string();
    // A shell under the name of the validator, as the child of a script. `-c` takes a value, and what
    // is behind it are arguments like a validator's.
    let shell = ledger.site.path("bin/agave-validator");
    fs::create_dir(shell.parent().unwrap()).unwrap();
    fs::copy("/bin/sh", &shell).unwrap();
    let mut parent = Command::new("sh");
    parent.args(["-c", "\"$@\"; true", "sh"]).arg(&shell).args(["-c", "echo; read line", "run"]);
    parent.args(["--ledger", "ledger", "--log", "-"]).current_dir(ledger.path().parent().unwrap());
    let mut parent = parent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut started = [0];
    parent.stdout.as_mut().unwrap().read_exact(&mut started).unwrap();
    let process = parent.id().to_string();

    let run = |words: &[&str]| {
        let mut command = cleaned(Command::new(validator_path()));
        ledger.run(command.args(words))
    };
    let outcome =
        run(&["--prepare-only", "--from-pid", &process, "--snapshots", "/"]).assert_code(2);
    let told = format!("--snapshots is given twice and differs: / by unsnap's own flag, {path} by");
    assert!(outcome.stderr.contains(&told), "{outcome:#?}");
    run(&["--prepare-only", "--from-pid", &process, "--ledger", &path]).assert_code(0);
    assert!(ledger.state(47).join("fastboot_version").exists());
    let mut tool = ledger_tool();
    let status =
        run_tool(tool.args(["fastboot", "status", "--format=json", "--from-pid", &process]));
    assert_eq!(status.assert_code(0).json()["states"][0]["slot"], 47);
    let mut tool = ledger_tool();
    tool.args(["fastboot", "status", "--from-pid", &process, "--ledger", "/"]);
    run_tool(&mut tool).assert_code(2).assert_error(&["--ledger is given twice and differs: / by"]);
    drop(parent.stdin.take());
    wait(&mut parent);
    run(&["--prepare-only", "--from-pid", &process]).assert_code(2);
}
