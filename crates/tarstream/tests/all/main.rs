//! Tests of the walker by values: archives in, events out.
//!
//! `build` makes archives block by block and `seen` collects the walker's events. Each other module
//! tests one aspect of the walker's contract.

#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod build;
mod corpus;
mod end;
mod members;
mod refusals;
mod seen;
mod splits;
