//! States that are prepared beside a running validator, and adopted when the ledger is free.
//!
//! | module | proves |
//! |---|---|
//! | [`beside`] | a validator is not disturbed, and what is adopted is what would have been prepared |
//! | [`steps`] | killed, or without power, at every step of adopting: the whole new state, the whole old one, or none |
//!
//! That any call may fail is in `e2e::nth::states`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod beside;
/// Disks that can lose power.
#[path = "../crash/disk.rs"]
#[allow(dead_code)]
mod disk;
/// Ledgers, and a reader of states that shares nothing with unsnap.
#[path = "../e2e/fastboot/ground.rs"]
#[allow(dead_code)]
mod ground;
mod steps;
/// What end-to-end tests share; not all of it is needed here.
#[path = "../e2e/support.rs"]
#[allow(dead_code)]
mod support;

use self::ground::Ledger;

/// Runs `ledger-tool fastboot <action>`.
#[track_caller]
fn fastboot(action: &str, ledger: &Ledger, flags: &[&str]) -> support::Outcome {
    let mut tool = support::ledger_tool();
    support::run(tool.args(["fastboot", action]).args(ledger.arguments()).args(flags))
}
