//! `ledger-tool service`: the real program against a server in this process, whose answers are made up.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod service;

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use service::{Service, ended, progress};
use unsnap_control::protocol::{Event, Outcome, Request};

/// What the program said, and its exit code.
fn run(command: &mut Command) -> (String, String, Option<i32>) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

fn tool(service: &Service, words: &[&str]) -> Command {
    let mut command = unsnap_test_support::ledger_tool();
    command.env_remove("UNPACKD_CONTROL_SOCKET");
    command.arg("service").args(words).arg("--socket").arg(&service.socket);
    command
}

#[test]
fn status_is_told_to_people_in_columns() {
    let service = Service::start();
    let (out, err, code) = run(&mut tool(&service, &["status"]));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let expected = [
        "unpackd 0.1.0, pid 7, started ",
        "archives: newest slot 47 (base 39), in /mnt/snapshots and /mnt/incremental",
        "validator  fastboot  working",
        "  job 12, slot 47 (base 39): running, attempt 2, unpacking   61%  12.40 GiB of 20.30 GiB read  48.90 GiB written  181,000 files  1.92 GiB/s  ETA 14 seconds; last error: disk full",
        "  job 13, slot 52: queued",
        "  slot 39  102.00 GiB    430,000 files  /mnt/ledger/39  ",
        "tree       tree      failing: \\x1b[2Jodd",
        "disk of /mnt/ledger: 465.66 GiB of 1.82 TiB free; kept: 102.00 GiB of validator (ready state), 2.00 KiB of validator (shadow)",
        "bad archive: /mnt/snapshots/bad: it is cut (found ",
    ];
    for (line, expected) in out.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line}\nis not\n{expected}");
    }
    assert_eq!(out.lines().count(), expected.len(), "{out}");
    assert!(out.lines().last().unwrap().ends_with(" ago)"), "{out}");
    assert!(out.lines().next().unwrap().ends_with(" ago, limited to 20.00 MiB/s"), "{out}");
    // What it says of itself must not move the cursor.
    assert!(!out.contains('\u{1b}'));
}

#[test]
fn answers_are_json_for_programs() {
    let service = Service::start();
    let (out, _, code) = run(&mut tool(&service, &["status", "--format", "json"]));
    assert_eq!(code, Some(0));
    let status: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status["targets"][0]["job"]["id"], 12);
    assert!(out.lines().count() > 20);
    let (out, _, _) = run(&mut tool(&service, &["status", "--format", "json-lines"]));
    assert_eq!(out.lines().count(), 1);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), status);
    let (out, _, code) = run(&mut tool(&service, &["metrics"]));
    assert_eq!((out.as_str(), code), ("unsnap_paused 0\n# EOF\n", Some(0)));
}

const SUBMITTED: &str = "queued job 3 for tree\nqueued job 4 for validator\n\
                         warning: the archive is older than the newest result, of slot 47; its own \
                         result stays until something newer than it is published\n";

#[test]
fn what_is_asked_for_reaches_the_service_and_its_answer_the_user() {
    let service = Service::start();
    let here = std::env::current_dir().unwrap();
    let cases: [(&[&str], Request, &str); 8] = [
        (
            &["submit", "a.tar.zst", "--incremental", "/b.tar.zst", "--target", "tree"],
            Request::Submit {
                target: Some("tree".to_owned()),
                archive: here.join("a.tar.zst"),
                incremental: Some("/b.tar.zst".into()),
            },
            SUBMITTED,
        ),
        (
            &["submit", "/a.tar.zst"],
            Request::Submit { target: None, archive: "/a.tar.zst".into(), incremental: None },
            SUBMITTED,
        ),
        (
            &["cancel", "12"],
            Request::Cancel { job: 12 },
            "job 12, which was running, is ending; `watch` shows its end\n",
        ),
        (
            &["prepare"],
            Request::Prepare { target: None },
            "tree: slot 47 is there, nothing to do\nvalidator: job 12 unpacks slot 47\n",
        ),
        (
            &["prepare", "other"],
            Request::Prepare { target: Some("other".to_owned()) },
            "tree: slot 47 is there, nothing to do\nother: job 12 unpacks slot 47\n",
        ),
        (&["pause"], Request::Pause {}, "paused\n"),
        (&["resume"], Request::Resume {}, "not paused: nothing to resume\n"),
        (
            &["reload"],
            Request::Reload {},
            "reloaded; these keys take effect after a restart: control.socket\n",
        ),
    ];
    for (words, request, said) in cases {
        let (out, err, code) = run(&mut tool(&service, words));
        assert_eq!((out.as_str(), err.as_str(), code), (said, "", Some(0)), "{words:?}");
        assert_eq!(service.asked().last(), Some(&request));
        let (out, _, code) = run(tool(&service, words).arg("--quiet"));
        assert_eq!((out.as_str(), code), ("", Some(0)), "{words:?}");
    }
}

#[test]
fn what_is_refused_has_an_exit_code_and_a_hint() {
    let service = Service::start();
    let cases: [(&[&str], i32, &str); 6] = [
        (
            &["cancel", "1"],
            2,
            "error: there is no job 1 [service-refused]\nhint: see \\x1bstatus\n",
        ),
        (&["cancel", "2"], 4, "error: the queue is full [service-refused]\n"),
        (&["cancel", "3"], 1, "error: the archive is bad [service-refused]\n"),
        (&["cancel", "4"], 3, "error: you may observe, but not operate [service-refused]\n"),
        (&["cancel", "x"], 2, "invalid digit"),
        (&["dance"], 2, "unrecognized subcommand"),
    ];
    for (words, exit, said) in cases {
        let (out, err, code) = run(&mut tool(&service, words));
        assert_eq!((out.as_str(), code), ("", Some(exit)), "{words:?}: {err}");
        assert!(err.contains(said), "{words:?}: {err}");
    }
    let socket = service.socket.clone();
    drop(service);
    let mut command = unsnap_test_support::ledger_tool();
    let (_, err, code) = run(command.args(["service", "status", "--socket"]).arg(socket));
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("cannot reach unpackd") && err.contains("hint: check that unpackd is running")
    );
}

#[test]
fn every_command_has_help_with_examples() {
    let (out, _, code) = run(unsnap_test_support::ledger_tool().args(["service", "--help"]));
    assert_eq!(code, Some(0));
    for word in
        ["status", "submit", "prepare", "cancel", "pause", "resume", "reload", "watch", "metrics"]
    {
        assert!(out.contains(&format!("\n  {word} ")), "{word}: {out}");
        let (out, _, code) =
            run(unsnap_test_support::ledger_tool().args(["service", word, "--help"]));
        assert_eq!(code, Some(0));
        assert!(out.contains("/run/unpackd/control.sock"), "{out}");
    }
    assert!(out.contains("Examples:") && out.contains("ledger-tool service watch"));
}

#[test]
fn prepare_waits_for_the_end_of_its_jobs_and_has_their_exit_code() {
    for (outcome, exit) in [(Outcome::Done, 0), (Outcome::BadArchive, 1)] {
        let service = Service::start();
        let mut command = tool(&service, &["prepare", "--wait"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It watches before it asks, so its end cannot be missed.
        Service::wait_for("it has asked", || {
            matches!(service.asked().last(), Some(Request::Prepare { .. }))
        });
        service.events().publish(&progress(5));
        service.events().publish(&ended(outcome));
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(exit), "{out}{err}");
        assert!(out.contains("validator: job 12 unpacks slot 47\n"), "{out}");
        assert_eq!(err.contains("frame 3 is damaged"), exit == 1, "{err}");
        assert_eq!(err.contains("[job-failed]"), exit == 1, "{err}");
    }
}

/// `watch` as it runs, and its lines. Killed if a test fails.
struct Watch {
    child: Child,
    /// `None` when the reading end has been closed.
    lines: Option<BufReader<std::process::ChildStdout>>,
}

impl Watch {
    fn start(service: &Service, words: &[&str]) -> Self {
        let mut command = tool(service, &["watch"]);
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// How it ended, and what it said on standard error.
    fn end(mut self) -> (std::process::ExitStatus, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watch_tells_events_as_lines_of_json() {
    if unsnap_test_support::is_ignored(Signal::INT) {
        return;
    }
    let service = Service::start();
    let mut watch = Watch::start(&service, &["--format", "json-lines"]);
    let status: Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!(status["answer"], "status");
    for event in [Event::Paused, progress(5), ended(Outcome::Done)] {
        service.events().publish(&event);
        let line: Value = serde_json::from_str(&watch.line()).unwrap();
        let told = serde_json::to_value(&event).unwrap();
        assert!(line["unix_ms"].as_u64().is_some());
        assert!(told.as_object().unwrap().iter().all(|(key, value)| line[key] == *value));
    }
    watch.signal(Signal::INT);
    let (status, said) = watch.end();
    assert_eq!((status.signal(), said.as_str()), (Some(2), ""), "130 to a shell, without a word");
}

#[test]
fn watch_tells_people_a_line_an_event() {
    let service = Service::start();
    let mut watch = Watch::start(&service, &[]);
    assert!(watch.line().starts_with("unpackd 0.1.0"));
    while !watch.line().starts_with("bad archive:") {}
    // The second one comes too soon after the first to be shown.
    for event in [progress(5), progress(6), ended(Outcome::BadArchive), Event::Resumed] {
        service.events().publish(&event);
    }
    let mut tell = || {
        let line = watch.line();
        let (time, rest) = line.trim_end().split_once(' ').unwrap();
        assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
        rest.to_owned()
    };
    assert_eq!(
        tell(),
        "validator: job 12: unpacking    5%  5 B of 100 B read  0 B written  0 files"
    );
    assert_eq!(
        tell(),
        "validator: job 12, slot 47 (base 39): bad archive after 1.50 s: frame 3 is damaged"
    );
    assert_eq!(tell(), "resumed");
}

#[test]
fn watch_goes_on_when_the_service_comes_back() {
    if unsnap_test_support::is_ignored(Signal::INT) {
        return;
    }
    let service = Service::start();
    let mut watch = Watch::start(&service, &["--format", "json-lines"]);
    assert!(watch.line().contains("status"));
    let service = Service::start_in(service.stop());
    // The status of the new one, and its events.
    assert!(watch.line().contains("status"));
    service.events().publish(&Event::Resumed);
    assert!(watch.line().contains("resumed"));
    // A signal ends it also while there is nobody to talk to.
    let scratch = service.stop();
    watch.signal(Signal::INT);
    let (status, said) = watch.end();
    drop(scratch);
    assert_eq!(status.signal(), Some(2), "{said}");
    assert!(said.contains("lost the connection to unpackd; waiting"), "{said}");
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let service = Service::start();
    let mut watch = Watch::start(&service, &["--format", "json-lines"]);
    watch.line();
    watch.lines = None;
    // Each event is a write; which of them meets the broken pipe does not matter.
    let since = Instant::now();
    while watch.child.try_wait().unwrap().is_none() {
        assert!(since.elapsed() < Duration::from_mins(2), "it goes on");
        service.events().publish(&Event::Paused);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (status, said) = watch.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn on_a_terminal_there_is_a_live_view_and_it_is_gone_afterwards() {
    if unsnap_test_support::is_ignored(Signal::INT) {
        return;
    }
    let service = Service::start();
    // script(1) of util-linux runs a command on a terminal of its own.
    let typescript = service.scratch().join("typescript");
    let words = ["service", "watch", "--socket", service.socket.to_str().unwrap()];
    let tool = unsnap_test_support::ledger_tool_path().display().to_string();
    // The shell lives on to say how it ended; a terminal that is wide enough is asked for.
    let line = format!("trap : INT; stty cols 160; {tool} {}; echo \"exit $?\"", words.join(" "));
    let mut command = Command::new("script");
    command.args(["--quiet", "--flush", "--command", &line]).arg(&typescript);
    command.env("SHELL", "/bin/sh").env("TERM", "xterm");
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = match piped {
        Ok(child) => child,
        Err(error) => {
            unsnap_test_support::skip(format_args!("script cannot be run: {error}"));
            return;
        }
    };
    let seen = || {
        let mut seen = Vec::new();
        let _ = File::open(&typescript).map(|mut file| file.read_to_end(&mut seen));
        String::from_utf8_lossy(&seen).into_owned()
    };
    Service::wait_for("somebody watches", || service.events().watched());
    let mut percent = 0;
    Service::wait_for("a bar that moves", || {
        percent += 1;
        service.events().publish(&progress(percent.min(99)));
        seen().contains("] ") && seen().contains("job 12, slot 47 (base 39): unpacking")
    });
    service.events().publish(&ended(Outcome::Done));
    Service::wait_for("the end of the job", || seen().contains("slot 47 (base 39) is ready"));
    assert!(seen().contains("job 12, slot 47 (base 39): done after 1.50 s"), "{}", seen());
    // As if somebody had typed it.
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\x03").unwrap();
    Service::wait_for("the shell goes on", || seen().contains("exit 130"));
    drop(child.stdin.take());
    let _ = child.wait();
}
