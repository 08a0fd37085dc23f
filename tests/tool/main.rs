//! What `ledger-tool` does besides unpacking: looking things up in archives.
//!
//! | module | proves |
//! |---|---|
//! | [`lookup`] | entries are the same bytes with an index and without, for archives of every shape; stale, damaged and lying indexes |
//! | [`accounts`] | the newest versions of accounts are those that a plain scan finds |
//! | [`inspect`] | what archives are said to be |
//! | [`bad_input`] | what is refused: by a clear error and the right exit code, with nothing under a final name |
//!
//! Expected values come from the `tar` and `zstd` crates and from plain loops over their bytes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod accounts;
mod bad_input;
mod inspect;
mod lookup;
/// What end-to-end tests share; not all of it is needed here.
#[path = "../e2e/support.rs"]
#[allow(dead_code)]
mod support;
