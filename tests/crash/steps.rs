//! Crashes at every single step of staging and publishing, in order, until there is no further one.
//!
//! strace stops the program at the n-th of the system calls that change names or make things
//! durable. Those of files in staging are many and alike, and covered by the random moments.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use unsnap_test_support::{
    Outcome,
    disk::{KINDS, can_lose_power},
    finish, has_tool, ledger_tool_path, skip_unsupported, until,
};

use crate::{
    law::{Found, SHAPES, Shape},
    stage::{Stage, Subject, is_long, tell},
};

/// Calls that change names or make things durable. strace counts each by itself.
const CALLS: [&str; 8] =
    ["mkdirat", "unlinkat", "flock", "fchmod", "syncfs", "renameat", "renameat2", "fsync"];

/// More calls of a kind no run makes: a loop that goes on is broken.
const STEPS_MAX: usize = 50;

/// The program under strace, which does something at its n-th call of a kind.
fn traced(stage: &Stage<'_>, call: &str, inject: &str, trace: &Path) -> Child {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(trace);
    strace.args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:{inject}")]);
    strace.arg(ledger_tool_path());
    stage.arguments(&mut strace, &["-q"]);
    strace.env_remove("RUST_LOG").env_remove("UNSNAP_CONFIG");
    strace.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    strace.spawn().unwrap()
}

/// Whether strace works here; told if not.
fn can_trace(subject: &Subject) -> bool {
    if !has_tool("strace", "--version") {
        return false;
    }
    let trace = subject.path("trace");
    let traced = Command::new("strace")
        .args(["-f", "-e", "trace=fsync", "-o"])
        .arg(trace)
        .arg("true")
        .output()
        .unwrap();
    if !traced.status.success() {
        let said = String::from_utf8_lossy(&traced.stderr).into_owned();
        // A container without ptrace.
        skip_unsupported(format_args!("strace cannot trace: {said}"));
    }
    traced.status.success()
}

/// What the program does at its n-th step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It is killed right before it.
    Killed,
    /// The power fails for it and the disks right after it.
    Cut,
    /// The disks fail right after it; it goes on, and has to notice.
    CutAlive,
}

/// One crash; `None` if the program makes no n-th call of this kind.
fn crash(
    stage: &Stage<'_>,
    way: Way,
    (call, step): (&str, usize),
    trace: &Path,
) -> Option<Outcome> {
    if way == Way::Killed {
        let inject = format!("signal=SIGKILL:when={step}");
        let outcome = finish(traced(stage, call, &inject, trace));
        return (outcome.status.code().is_none()).then_some(outcome);
    }
    // The signal is delivered when the call has been carried out.
    let inject = format!("signal=SIGSTOP:when={step}");
    let mut strace = traced(stage, call, &inject, trace);
    let stopped = || {
        let text = fs::read_to_string(trace).unwrap_or_default();
        let line = text.lines().find(|line| line.contains("--- stopped by SIGSTOP"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok())
    };
    until("it stops or ends", || stopped().is_some() || strace.try_wait().unwrap().is_some());
    let Some(thread) = stopped() else {
        return Some(finish(strace)).filter(|outcome| outcome.status.code() != Some(0));
    };
    stage.cut_power();
    let signal = if way == Way::Cut { Signal::KILL } else { Signal::CONT };
    kill_process(Pid::from_raw(thread).unwrap(), signal).unwrap();
    Some(finish(strace))
}

fn crash_at_every_step(stage: &mut Stage<'_>, shape: Shape, way: Way, trace: &Path) {
    let kind = stage.disk.kind;
    let mut seen: Vec<(&str, Found)> = Vec::new();
    for call in CALLS {
        for step in 1.. {
            assert!(step < STEPS_MAX, "{kind:?}, {shape:?}, {way:?}: no end of {call}");
            stage.set(shape);
            let _ = fs::remove_file(trace);
            let what = format!("{kind:?}, {shape:?}, {way:?}, {call} {step}");
            let Some(outcome) = crash(stage, way, (call, step), trace) else { break };
            let reported = outcome.status.success();
            let code = outcome.status.code();
            let expected = matches!((way, code), (_, None) | (Way::CutAlive, Some(0 | 3)));
            assert!(expected, "{what}: {outcome:#?}");
            if code == Some(3) {
                outcome.assert_error(&["error: cannot ", "Input/output error", "hint: "]);
            }
            stage.remount();
            let found = stage.judge(reported).unwrap_or_else(|broken| panic!("{what}: {broken}"));
            stage.assert_next_run_succeeds(found, false, &what);
            seen.push((call, found));
        }
    }
    for needed in ["mkdirat", "syncfs", "rename", "fsync"] {
        let reached = seen.iter().any(|(call, _)| call.starts_with(needed));
        assert!(reached, "{kind:?}, {shape:?}, {way:?}: no {needed} in {seen:?}");
    }
    let count = |found| seen.iter().filter(|(_, seen)| *seen == found).count();
    tell(format_args!(
        "{kind:?}, {shape:?}, {way:?}: {} steps, found {} untouched, {} complete, {} half published",
        seen.len(),
        count(Found::Untouched),
        count(Found::Complete),
        count(Found::AccountsOnly) + count(Found::PartlyMoved),
    ));
}

#[test]
fn a_crash_at_every_step_of_publishing_leaves_all_or_nothing() {
    let subject = Subject::new();
    if !can_lose_power() || !can_trace(&subject) {
        return;
    }
    let trace: PathBuf = subject.path("trace");
    for (index, kind) in KINDS.into_iter().enumerate() {
        let Some(mut stage) = Stage::new(&subject, kind) else { return };
        for (number, shape) in SHAPES.into_iter().enumerate() {
            for (turn, way) in [Way::Killed, Way::Cut, Way::CutAlive].into_iter().enumerate() {
                // In short runs a third of the combinations, but each value of each.
                if !is_long() && (index + number + turn) % 3 != 0 {
                    continue;
                }
                crash_at_every_step(&mut stage, shape, way, &trace);
            }
        }
    }
}
