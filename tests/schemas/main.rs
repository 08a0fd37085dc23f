//! The schemas in `docs/schemas` describe what the programs print: real output of real runs is valid,
//! and is not any more with one property more or less.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod files;
mod reports;
mod schema;
mod servers;
mod service;
mod starts;
mod states;
