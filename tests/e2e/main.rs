//! End-to-end tests: what must hold of unsnap as a whole.
//!
//! | module | proves |
//! |---|---|
//! | [`identity`] | what comes out is what went in, whatever the engine, the shape and the sizes |
//! | [`report`] | what is told, on which stream, with which exit code |
//! | [`refusals`] | a bad archive is refused with entry and position, and leaves no trace |
//! | [`hostile`] | every construct that has broken a reader of archives is met as it must be |
//! | [`destinations`] | where files may go, and what keeps two runs apart |
//! | [`fastboot`] | a validator finds a state that is whole, or none; whatever was there, whatever fails |
//! | [`faults`] | full disks, failing disks, signals, cancellation: the destination is as it was |
//! | [`full_disk`] | what a resumable run has completed when the disk is full is used by the next one |
//! | [`neighbour`] | a run leaves to others what it was told to, and stands still when it is paused |
//! | [`nth`] | every system call fails in turn, and the destination is as it was |
//! | [`resume`] | what an interrupted run has made durable is used, exactly, or not at all |
//! | [`space`] | what cannot fit is refused before anything is written, and a disk is not filled up |
//! | [`memory`] | memory stays within the budget, whatever the archive's size |
//! | [`verify`] | what an archive holds is what its name says, or it is refused |
//! | [`verdicts`] | what unsnap and four other readers say of the corpora is in a table |
//! | [`repository`] | what the documents and files of the repository say about each other is true |
//! | [`sandbox`] | a parser that is taken over reaches nothing but the destinations |
//! | [`validator`] | whatever becomes of preparing, the validator starts, and as if it had been started alone |
//!
//! The library is used in this process wherever isolation is not needed; the rest runs the program,
//! which [`unsnap_test_support`] has cargo build once. References are made by testkit, which shares no code with
//! the unpacker. Some tests need root, a tool or a kernel feature. Without it they
//! are reported as skipped, which `UNSNAP_TEST_STRICT=1` makes a failure.
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed
#![allow(clippy::disallowed_methods, reason = "tests look at files by themselves")]

mod destinations;
mod fastboot;
mod faults;
mod full_disk;
mod hostile;
mod identity;
mod memory;
mod neighbour;
mod nth;
mod refusals;
mod report;
mod repository;
mod resume;
mod sandbox;
mod space;
mod validator;
mod verdicts;
mod verify;
