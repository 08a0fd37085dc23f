//! A validator's machine over a long time: the real front end `validator` around the stand-in
//! validator (`tests/stand-in`), the real `unpackd` beside it, and events chosen at random.
//!
//! | module | does |
//! |---|---|
//! | [`stand_in`] | proves that the stand-in behaves as Agave is known to, before anything rests on it |
//! | [`process`] | a start, and the validator that has come up |
//! | [`events`] | what may happen, and how often |
//! | [`driver`] | makes it happen |
//! | [`flips`] | changes bytes on the disk |
//! | [`daemon`] | `unpackd` beside the validator |
//! | [`laws`] | what must hold after every start |
//! | [`space`] | the disk that others fill, and what must hold of `min-free` |
//! | [`quiet`] | the hours between bursts of events, and how much of them a state must be there |
//!
//! | variable | effect |
//! |---|---|
//! | `UNSNAP_SOAK_EVENTS=<n>` | number of events on each file system |
//! | `UNSNAP_SOAK_WITH=<event>,<event>` | events to happen often |
//! | `UNSNAP_TEST_SEED=<seed>` | other events; the seed is printed when the test fails |
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod daemon;
mod driver;
mod events;
mod flips;
mod laws;
mod process;
mod quiet;
mod space;
mod stand_in;

use std::env;

use unsnap_test_support::{
    disk::{self, Disk},
    is_root,
    machine::Machine,
};

use crate::driver::Soak;

/// Events on each file system, unless `UNSNAP_SOAK_EVENTS` says otherwise: half a minute to a minute, and
/// enough quiet times to be judged.
const EVENTS: u32 = 300;

/// The seed in CI.
const SEED: u64 = 15;

/// Makes a machine for the stand-in.
fn machine(disk: Option<Disk>, shape: u32) -> Machine {
    Machine::new(env!("CARGO_BIN_EXE_stand-in-validator").as_ref(), disk, shape)
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn soak(name: &'static str, machine: Machine, salt: u64) {
    let seed = number("UNSNAP_TEST_SEED").unwrap_or(SEED);
    let events = number("UNSNAP_SOAK_EVENTS").map_or(EVENTS, |number| number.try_into().unwrap());
    Soak::new(name, machine, seed, salt).run(events);
}

#[test]
fn on_ext4_a_validator_always_comes_up_and_loses_nothing() {
    if !is_root() {
        // Without a disk of its own: it cannot be filled, all else is the same.
        return soak("directory", machine(None, 0), 0);
    }
    if disk::can_lose_power()
        && let Some(disk) = Disk::new(disk::Kind::Ext4, &disk::Options::default())
    {
        soak("ext4", machine(Some(disk), 0), 0);
    }
}

#[test]
fn on_xfs_a_validator_always_comes_up_and_loses_nothing() {
    if disk::can_lose_power()
        && let Some(disk) = Disk::new(disk::Kind::Xfs, &disk::Options::default())
    {
        soak("xfs", machine(Some(disk), 1), 1);
    }
}
