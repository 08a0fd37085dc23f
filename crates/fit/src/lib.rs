#![forbid(unsafe_code)]
//! Does it fit? Answered before anything is written, and watched while the run goes on.
//!
//! * [`Question`] and [`Preflight`]: a survey of the archives against the free space.
//! * [`Watch`]: ends a run before a disk is full; [`PausedWatch`] does while the run is paused.
//! * [`Shortage`]: which file system lacks what.
//! * [`FileSystem`] and [`Free`]: the free space of destinations.
//!
//! It leaves to others: clearing old files away.

mod error;
mod estimate;
mod needed;
mod paused;
mod preflight;
mod report;
mod shortage;
mod space;
mod survey;
mod watch;

pub use error::FitError;
pub use paused::PausedWatch;
pub use preflight::{Kept, Preflight, PreflightMode, Question, Room};
pub use report::{FileSystemReport, PreflightReport};
pub use shortage::{Resource, Shortage};
pub use space::{FileSystem, Free};
pub use survey::Source;
pub use watch::Watch;
