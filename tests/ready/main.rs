//! States that are prepared beside a running validator, and adopted when the ledger is free.
//!
//! | module | proves |
//! |---|---|
//! | [`beside`] | a validator is not disturbed, and what is adopted is what would have been prepared |
//! | [`dry_run`] | what preparing would do is told, and nothing is changed by that |
//! | [`steps`] | killed, or without power, at every step of adopting: the whole new state, the whole old one, or none |
//!
//! That any call may fail is in `e2e::nth::states`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod beside;
mod dry_run;
mod steps;

use unsnap_test_support::{Outcome, ledger::Ledger, ledger_tool, run};

/// Runs `ledger-tool fastboot <action>`. Unless the flags say otherwise, nothing of the disk is left
/// to other programs: it may have less than the default.
#[track_caller]
fn fastboot(action: &str, ledger: &Ledger, flags: &[&str]) -> Outcome {
    let mut tool = ledger_tool();
    tool.args(["fastboot", action]).args(ledger.arguments()).args(flags);
    if action == "prepare" && !flags.iter().any(|flag| flag.starts_with("--min-free")) {
        tool.arg("--min-free=0");
    }
    run(&mut tool)
}
