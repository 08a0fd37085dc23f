#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! The state that a validator starts from without unpacking anything.
//!
//! Agave calls it fastboot: a directory `<snapshots>/snapshots/<slot>` with six small files, and the
//! storages in `<accounts path>/run`. A validator writes it when it is told to exit, and at its next
//! start, if it is as new as the newest archive, loads it instead of the archive. This crate makes the
//! same of archives, for an unmodified validator of Agave 4.2 and later.
//!
//! * [`Places`]: where a validator keeps what; by its own rules, from its own settings.
//! * [`prepare`]: the newest pair of archives becomes a state; or it is found that there is one.
//! * [`prepare_beside`]: the same while a validator is running. The state lies ready until [`prepare`]
//!   adopts it.
//! * [`Survey`]: what states there are, and whether they are whole.
//! * [`repair`]: makes a state whole again from which a validator has removed storages.
//! * [`withdraw`]: takes a state back, so that the validator goes to the archives; [`withdraw_beside`]
//!   only what lies ready.
//!
//! What must never be is a state that looks loadable and is not: a validator that fails to load one
//! does not go back to the archives, but fails again at every start. So the mark of a state,
//! `fastboot_version`, is the last thing that appears and the first that goes, each time durably.

mod adopt;
mod beside;
mod candidates;
mod clear;
mod error;
mod files;
mod in_place;
mod lock;
mod places;
mod prepare;
mod ready;
mod removal;
mod repair;
mod survey;
mod unlisted;
mod withdraw;

pub use beside::prepare_beside;
pub use candidates::{Candidate, Candidates, FileIdentity, Pair, SearchDirs};
pub use error::FastbootError;
pub use in_place::prepare;
pub use lock::LedgerLock;
pub use places::Places;
pub use prepare::{KnownBad, Outcome, Prepared, REMOVAL_FILES_PER_SECOND, Request, SetAside};
pub use removal::{Leisure, REMOVED_PREFIX, Removal, move_aside};
pub use repair::{Repaired, repair};
pub use survey::{Condition, StateSurvey, Survey, marked_states};
pub use unlisted::Unlisted;
pub use withdraw::{withdraw, withdraw_beside};
