//! What `ledger-tool` does with archives beside unpacking them, by the program itself, and held to
//! independent code: the crates tar and zstd, plain scans, and the tools of the same names.
//!
//! | module | proves |
//! |---|---|
//! | [`repack`] | the same tar stream in frames that begin with entries, or nothing |
//! | [`create`] | directories become archives that validators would have written |
//! | [`accounts`] | accounts are listed as a plain scan finds them |
//! | [`diff`] | differences are those that a plain scan finds |
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod accounts;
mod create;
mod diff;
mod repack;
mod scan;
/// What end-to-end tests share; not all of it is needed here.
#[path = "../e2e/support.rs"]
#[allow(dead_code)]
mod support;
