//! Crashes and failing machines, on real file systems: what must hold of the program whatever moment
//! it is killed at, whatever moment the power fails at, and whatever the kernel refuses.
//!
//! | module | proves |
//! |---|---|
//! | [`gate`] | the judge of the other modules tells right publishers from wrong ones |
//! | [`loops`] | killed, or without power, at random moments: all or nothing, and all if reported |
//! | [`steps`] | the same at every single step of staging and publishing |
//! | [`images`] | the same of images of the disk, taken while the program runs |
//! | [`limits`] | limits of memory, open files, locked memory |
//! | [`rings`] | rings that cannot be set up |
//!
//! Rounds are few by default; `UNSNAP_CRASH_ROUNDS=<N>` makes more of them, `UNSNAP_TEST_SEED=<N>`
//! repeats one. Everything here needs root and some tools; without them the tests say so and pass.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod disk;
mod gate;
mod images;
mod law;
mod limits;
mod loops;
mod rings;
mod stage;
mod steps;
/// What end-to-end tests share; not all of it is needed here.
#[path = "../e2e/support.rs"]
#[allow(dead_code)]
mod support;
