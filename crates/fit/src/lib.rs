#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! Checks that archives fit into their destinations: before anything is written, and during the
//! run.
//!
//! * [`Question`] and [`Preflight`] compare a survey of the archives with the free space.
//! * [`BesideWalk`] completes the survey while the run is under way.
//! * [`Watch`] ends a run before a disk is full; [`PausedWatch`] does so while the run is paused.
//! * [`Shortage`] describes a file system that has too little space.
//! * [`FileSystem`] and [`Free`] measure the free space of destinations. A [`Reserve`] stays free for
//!   other processes.
//!
//! Other crates remove old files to make room.

mod announced;
mod beside;
mod error;
mod estimate;
mod min_free;
mod needed;
mod paused;
mod preflight;
mod question;
mod report;
mod shortage;
mod space;
mod survey;
mod watch;

pub use beside::BesideWalk;
pub use error::FitError;
pub use min_free::MinFree;
pub use needed::Kept;
pub use paused::PausedWatch;
pub use preflight::{Preflight, Room};
pub use question::{PreflightMode, Question};
pub use report::{FileSystemReport, PreflightReport};
pub use shortage::{Resource, Shortage};
pub use space::{FileSystem, Free};
pub use survey::{Announced, Source};
pub use unsnap_settings::Reserve;
pub use watch::Watch;
