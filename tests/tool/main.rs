//! What `ledger-tool` does besides unpacking.
//!
//! | module | proves |
//! |---|---|
//! | [`doctor`] | what makes unsnap slow or unsafe is told, with the right exit code, and nothing is left behind |
//! | [`bench`] | what is measured is told in every form, and everything that was made is removed |
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod bench;
mod doctor;
/// What end-to-end tests share; not all of it is needed here.
#[path = "../e2e/support.rs"]
#[allow(dead_code)]
mod support;
