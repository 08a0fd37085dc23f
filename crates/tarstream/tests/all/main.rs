//! Archives in, events out: the walker tested by values.
//!
//! `build` makes archives block by block, `seen` collects what the walker says about them. Each
//! other module tests one side of its promise.

#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod build;
mod corpus;
mod end;
mod members;
mod refusals;
mod seen;
mod splits;
