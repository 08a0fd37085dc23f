//! `stand-in-validator`: behaves toward the file system as agave-validator 4.2 does, at its start,
//! while it runs and at its end, and does nothing else. Tests run unsnap around it where the real
//! program would be too large. It shares no code with unsnap: archives are read by the crates tar and
//! zstd, and what it writes is made by testkit.
//!
//! | module | does what Agave does |
//! |---|---|
//! | [`places`] | directories from the command line, made and emptied; the ledger's lock |
//! | [`states`] | states: which are complete, which one is loaded, what is removed meanwhile |
//! | [`archives`] | archives: which pair is chosen, unpacked, and which are removed as old |
//! | [`start`] | the choice between state and archives, and the load |
//! | [`running`] | new snapshots, storages that are shrunk and deleted, the state at the end |
//! | [`control`] | the log, commands, signals |
//!
//! What Agave does is in `solana-runtime` 4.2.2 (`snapshot_utils.rs`, `snapshot_bank_utils.rs`),
//! `solana-ledger` (`bank_forks_utils.rs`), `agave-snapshots` and `solana-accounts-db` (`utils.rs`).
//!
//! | variable | effect |
//! |---|---|
//! | `STAND_IN_LOG` | a line of JSON is appended to this file for each event |
//! | `STAND_IN_CONTROL` | when it is up it connects to this socket, says so, and takes commands |
//! | `STAND_IN_FAIL` | it panics when it has loaded, as by a bug of its own |
//! | `STAND_IN_WHAT_IF` | it changes nothing, and prints what a start would come to |
//!
//! Exit codes: 0 after `exit` or SIGTERM, with a state written; 1 refused; 101 panicked.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "shares no code with the data path")]

mod archives;
mod control;
mod places;
mod running;
mod start;
mod states;

use std::{
    env,
    io::{self, Write},
    process::ExitCode,
};

use serde_json::json;

use crate::{archives::Pair, control::Control, places::Places, start::Start};

/// Exit code of a panic.
const PANICKED: u8 = 101;

/// The reason why it does not come up.
#[derive(Debug)]
pub enum Failure {
    /// It ends with a message.
    Refused(String),
    /// It panics.
    Panicked(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Panicked(error.to_string())
    }
}

fn main() -> ExitCode {
    let result = Places::of(env::args_os().skip(1)).map_err(Failure::Refused);
    let result = match result {
        Ok(places) if env::var_os("STAND_IN_WHAT_IF").is_some() => Ok(what_if(&places)),
        Ok(places) => {
            Control::new().map_err(Failure::from).and_then(|control| run(places, control))
        }
        Err(failure) => Err(failure),
    };
    match result {
        Ok(code) => code,
        Err(Failure::Refused(reason)) => {
            let _ = writeln!(io::stderr(), "stand-in: {reason}");
            ExitCode::FAILURE
        }
        Err(Failure::Panicked(reason)) => {
            let _ = writeln!(io::stderr(), "stand-in: panicked: {reason}");
            ExitCode::from(PANICKED)
        }
    }
}

fn run(places: Places, mut control: Control) -> Result<ExitCode, Failure> {
    let _lock = places.lock()?;
    places.make()?;
    let start = Start::choose(&places)?;
    control.log(&json!({"event": "loading", "source": start.source(), "slot": start.slot()}));
    let mut validator = start.load(places)?;
    if env::var_os("STAND_IN_FAIL").is_some() {
        return Err(Failure::Panicked("told to fail".to_owned()));
    }
    control.up(&json!({"event": "up", "source": start.source(), "slot": start.slot()}))?;
    control.serve(&mut validator)
}

/// Says what would become of a start, as far as files decide it.
fn what_if(places: &Places) -> ExitCode {
    let chosen = Start::choose(places);
    let reason = match &chosen {
        Ok(start) => start.look(places).err(),
        Err(failure) => Some(format!("{failure:?}")),
    };
    let (source, slot) = chosen.map_or(("none", 0), |start| (start.source(), start.slot()));
    let archives = Pair::newest(places).ok().flatten().map_or(0, |pair| pair.slot());
    let told = json!({
        "source": source,
        "slot": slot,
        "archives": archives,
        "up": reason.is_none(),
        "reason": reason,
    });
    let printed = writeln!(io::stdout(), "{told}");
    if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
