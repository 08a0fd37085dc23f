//! States that a validator starts from: what [`prepare`](unsnap_fastboot::prepare) makes is compared
//! byte for byte with what is made here of the same archives, and read by [`ground::look`], which
//! shares nothing with unsnap.

mod bad_input;
pub mod ground;
mod identity;
mod looking_after;
mod sink;
mod spread;

use std::path::{Path, PathBuf};

use unsnap_fastboot::{Outcome, Places, Prepared, Request, prepare};
use unsnap_unpack::{CancelToken, Error, FastbootFormat, IoEngine, Progress, Syscalls};

use self::ground::Ledger;
use crate::support::{self, ledger_tool, run, small, within};

/// What the library is asked for, with little memory.
pub fn request(ledger: &Ledger) -> Request {
    let mut places = Places::new(&ledger.root);
    places.accounts.clone_from(&ledger.accounts);
    for path in [&mut places.snapshots, &mut places.full_archives, &mut places.incremental_archives]
    {
        path.clone_from(&ledger.snapshots);
    }
    let mut config = small(Path::new(""), Path::new(""));
    config.memory_budget = None;
    config.io_engine = IoEngine::Threads;
    Request {
        places,
        config,
        format: FastbootFormat::V3,
        shadow: true,
        replace: false,
        pair: None,
        known_bad: Vec::new(),
    }
}

/// Prepares by the library, and panics if that hangs.
#[track_caller]
pub fn prepare_by(request: &Request, calls: &Syscalls) -> Result<Outcome, Error> {
    let (request, calls) = (request.clone(), calls.clone());
    within(move || prepare(&request, &calls, &Progress::default(), &CancelToken::default()))
}

#[track_caller]
pub fn prepared(outcome: Result<Outcome, Error>) -> Prepared {
    match outcome {
        Ok(Outcome::Prepared(prepared)) => *prepared,
        other => panic!("{other:?}"),
    }
}

/// Runs `ledger-tool fastboot <action>`.
#[track_caller]
pub fn fastboot(action: &str, ledger: &Ledger, flags: &[&str]) -> support::Outcome {
    run(ledger_tool().args(["fastboot", action]).args(ledger.arguments()).args(flags))
}

/// The genuine pairs in tests/data: full and incremental.
pub fn genuine_pairs() -> [(PathBuf, PathBuf); 2] {
    let archives = support::genuine();
    let of = |folder: &str| {
        let mut found = archives
            .iter()
            .filter(|path| path.parent().unwrap().file_name().unwrap().to_str().unwrap() == folder);
        let first = found.next().unwrap().clone();
        // The incremental one is the first in the alphabet.
        (found.next().unwrap().clone(), first)
    };
    [of("agave-tiny"), of("agave-tiny-lz4")]
}
