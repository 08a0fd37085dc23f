//! The index crate through its interface: parts of archives of every shape against plain slices, and
//! side-cars and seek tables that lie.

#![allow(clippy::unwrap_used)] // helpers of tests

mod ranges;
mod seek_tables;
mod side_cars;
mod support;
