//! States that are prepared beside a running validator, and adopted when the ledger is free.
//!
//! | module | proves |
//! |---|---|
//! | [`beside`] | a validator is not disturbed, and what is adopted is what would have been prepared |
//! | [`dry_run`] | what preparing would do is told, and nothing is changed by that |
//! | [`steps`] | killed, or without power, at every step of adopting: the whole new state, the whole old one, or none |
//! | [`neighbours`] | what others use is left alone |
//! | [`steps`] | killed, or without power, at every step of preparing, of taking the place of a ready state, and of adopting: the whole new state, the whole old one, or none |
//!
//! That any call may fail is in `e2e::nth::states`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod beside;
mod dry_run;
mod neighbours;
mod steps;

use unsnap_fastboot::{Places, Request};
use unsnap_pass::IoEngine;
use unsnap_test_support::{Outcome, ledger::Ledger, ledger_tool, run};

/// What the library is asked for, with little memory.
fn request(ledger: &Ledger) -> Request {
    let mut places = Places::new(&ledger.root);
    places.accounts.clone_from(&ledger.accounts);
    for path in [&mut places.snapshots, &mut places.full_archives, &mut places.incremental_archives]
    {
        path.clone_from(&ledger.snapshots);
    }
    let mut pass = unsnap_pass::Options::default();
    pass.io.engine = IoEngine::Threads;
    pass.resources.memory_budget = Some(16 << 20);
    Request { pass, ..Request::new(places) }
}

/// Runs `ledger-tool fastboot <action>`. Unless the flags say otherwise, nothing of the disk is left
/// to other programs: it may have less than the default.
#[track_caller]
fn fastboot(action: &str, ledger: &Ledger, flags: &[&str]) -> Outcome {
    let mut tool = ledger_tool();
    tool.args(["fastboot", action]).args(ledger.arguments()).args(flags);
    if action == "prepare" && !flags.iter().any(|flag| flag.starts_with("--min-free")) {
        tool.arg("--min-free=0");
    }
    let mut outcome = run(&mut tool);
    for _ in 0..100 {
        if !is_held_by_a_fork(&outcome) {
            break;
        }
        outcome = run(&mut tool);
    }
    outcome
}

/// Whether files are in use by a process that another test is about to run a program in. Until it
/// does, it has all open files of this process, and the name of that test.
fn is_held_by_a_fork(outcome: &Outcome) -> bool {
    let by_test = |line: &str| line.contains(" is in use by process ") && line.contains("::");
    outcome.status.code() == Some(4) && outcome.stderr.lines().any(by_test)
}
