//! Support for the end-to-end tests: everything that more than one of the test programs in `tests/`
//! needs.
//!
//! | module | gives |
//! |---|---|
//! | [`skip`], [`is_root`], [`has_tool`], ... | requirements of a test, and the report that one is not met |
//! | [`Site`] | a directory for one test, which notices every change beside the destination |
//! | [`genuine`], [`shapes`], ... | archives |
//! | [`expected_tree`], [`assert_holds`], ... | comparison with a reference extraction |
//! | [`small`], [`unpack`], [`within`], [`until`], [`seed`] | the library in this process |
//! | [`ledger_tool`], [`run`], [`Outcome`], [`HalfWay`], ... | the programs, built by cargo, in processes |
//! | [`daemon`] | a running `unpackd` with its directories |
//! | [`disk`] | file systems that can lose power |
//! | [`ledger`] | ledgers, and a reader of a validator's states that shares nothing with unsnap |
//! | [`machine`], [`stand_in`] | a validator's directories, and the stand-in validator that is up in them |
//!
//! References are made by testkit, which shares no code with the unpacker. Everything here panics
//! when a test cannot go on, and within a bounded time.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::return_self_not_must_use, reason = "assertions return what they have checked")]
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod archives;
pub mod daemon;
pub mod disk;
pub mod ledger;
mod library;
pub mod machine;
mod programs;
mod requirements;
mod setup;
mod site;
pub mod stand_in;
mod trees;

pub use unsnap_testkit::{
    scratch::available,
    skip::{skip, skip_unsupported},
};

pub use self::{
    archives::{data, genuine, genuine_full, genuine_pairs, shapes, snapshot_shapes},
    library::{seed, small, small_any, unpack, until, within},
    programs::{
        HalfWay, Outcome, cleaned, finish, ledger_tool, ledger_tool_after, ledger_tool_path, run,
        staged_storages, unpackd_path, validator_path, wait,
    },
    requirements::{Bound, has_tool, has_uring, is_ignored, is_root},
    setup::Setup,
    site::{Site, scratch_directory},
    trees::{assert_holds, assert_same_tree, expected_tree, expected_tree_of},
};

use std::time::Duration;

/// No step of any test takes this long; a step that does has hung.
const HANG: Duration = Duration::from_secs(90);
