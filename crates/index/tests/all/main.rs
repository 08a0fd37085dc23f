//! Tests of the index crate's interface: parts of archives of every shape against plain slices, and
//! hostile side-cars and seek tables.

#![allow(clippy::unwrap_used)] // helpers of tests

mod ranges;
mod seek_tables;
mod side_cars;
mod support;
