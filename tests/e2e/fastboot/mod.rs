//! States that a validator starts from: what [`prepare`](unsnap_fastboot::prepare) makes is compared
//! byte for byte with what is made here of the same archives, and read by [`look`](unsnap_test_support::ledger::look), which
//! shares nothing with unsnap.

mod bad_input;
mod identity;
mod looking_after;
mod resume;
mod sink;
mod spread;

use std::path::Path;

use unsnap_fastboot::FastbootError;
use unsnap_fastboot::{Outcome, Places, Prepared, Request, prepare};
use unsnap_pass::{CancelToken, Progress};
use unsnap_ring::Syscalls;
use unsnap_test_support::{Setup, ledger::Ledger, ledger_tool, run, small, within};

/// What the library is asked for, with little memory.
pub fn request(ledger: &Ledger) -> Request {
    let mut places = Places::new(&ledger.root);
    places.accounts.clone_from(&ledger.accounts);
    for path in [&mut places.snapshots, &mut places.full_archives, &mut places.incremental_archives]
    {
        path.clone_from(&ledger.snapshots);
    }
    let Setup { verify, preflight, min_free, mut pass, .. } = small(Path::new(""), Path::new(""));
    pass.resources.memory_budget = None;
    Request { verify, preflight, min_free, pass, ..Request::new(places) }
}

/// Prepares by the library, and panics if that hangs.
#[track_caller]
pub fn prepare_by(request: &Request, calls: &Syscalls) -> Result<Outcome, FastbootError> {
    let (request, calls) = (request.clone(), calls.clone());
    within(move || prepare(&request, &calls, &Progress::default(), &CancelToken::default()))
}

#[track_caller]
pub fn prepared(outcome: Result<Outcome, FastbootError>) -> Prepared {
    match outcome {
        Ok(Outcome::Prepared(prepared)) => *prepared,
        other => panic!("{other:?}"),
    }
}

/// Runs `ledger-tool fastboot <action>`.
#[track_caller]
pub fn fastboot(action: &str, ledger: &Ledger, flags: &[&str]) -> unsnap_test_support::Outcome {
    run(ledger_tool().args(["fastboot", action]).args(ledger.arguments()).args(flags))
}
