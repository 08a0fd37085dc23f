#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests look at files by themselves"))]
//! States from which a validator starts without unpacking an archive.
//!
//! Agave calls this fastboot. A state is a directory `<snapshots>/snapshots/<slot>` with six small
//! files, and the storages in `<accounts path>/run`. A validator writes a state when it is told to
//! exit. At its next start it loads the state instead of the archive, if the state is as new as the
//! newest archive. This crate makes such states from archives, for an unmodified validator of Agave
//! 4.2 and later.
//!
//! * [`Places`]: the directories of a validator, by the validator's own rules and settings.
//! * [`prepare`]: makes a state from the newest pair of archives, unless one exists already.
//! * [`prepare_beside`]: makes a state beside the validator's directories, whether it is running or
//!   not. This ready state stays until its successor is complete.
//! * [`adopt_ready`]: moves the ready state into the validator's directories when the ledger is
//!   free. [`prepare`] does so as well.
//! * [`dry_run`]: tells what these would do.
//! * [`Survey`]: lists the existing states and their conditions.
//! * [`repair`]: restores a state from which a validator has removed storages.
//! * [`withdraw_wrong`]: verifies a state with which a validator has ended early, by its accounts.
//! * [`Attempts`]: remembers starts, so that one that fails does not recur for ever.
//! * [`WaitingNotice`], [`Situation`]: how the start of a validator waits for another process.
//! * [`check_newest`]: checks the archives that a validator is to unpack by itself.
//! * [`withdraw`]: removes a state, so that the validator unpacks the archives; [`withdraw_beside`]
//!   removes only the ready state.
//! * [`prune_leftovers`], [`prune_shadows`], [`prune_bad_archives`]: removal of what nobody needs any
//!   more. [`measure`] and [`give_back_shadow`], [`give_back_ready`]: giving space back to a running
//!   validator.
//!
//! A state must never look loadable without being so: a validator that fails to load a state does
//! not fall back to the archives, but fails again at every start. Therefore the mark of a state,
//! `fastboot_version`, is the last file to appear and the first to be removed, durably each time.

mod adopt;
mod adopt_ready;
mod attempts;
mod bad_archives;
mod base;
mod beside;
mod candidates;
mod check;
mod clear;
mod cluster;
mod dry_run;
mod error;
mod files;
mod in_place;
mod lock;
mod open_files;
mod outcome;
mod own_lock;
mod places;
mod prepare;
mod proof;
mod pruning;
mod quarters;
mod removal;
mod repair;
mod request;
mod returned_space;
mod space;
mod starting;
mod states;
mod stray_files;
mod survey;
mod waiting;
mod warm;
mod withdraw;

pub use adopt_ready::adopt_ready;
pub use attempts::{AttemptRules, Attempts, Failed, Killed, StartCounts, StateName, write_durably};
pub use beside::prepare_beside;
pub use candidates::{Candidate, Candidates, FileIdentity, Pair, SearchDirs, blamed};
pub use check::check_newest;
pub use cluster::ExpectedCluster;
pub use dry_run::{Action, DryRun, Files, Space, What, dry_run};
pub use error::FastbootError;
pub use in_place::prepare;
pub use lock::LedgerLock;
pub use outcome::{Outcome, Prepared, SetAside};
pub use places::Places;
pub use proof::withdraw_wrong;
pub use pruning::{
    PrunedArchive, UNFINISHED_AGE_MAX, Unfinished, prune_bad_archives, prune_leftovers,
    prune_shadows,
};
pub use removal::{Leisure, REMOVED_PREFIX, Removal, move_aside};
pub use repair::{Repaired, repair};
pub use request::{KnownBad, Offered, REMOVAL_FILES_PER_SECOND, Request};
pub use space::{
    Returnable, SystemSpace, give_back_ready, give_back_shadow, kept, measure, returnable,
};
pub use starting::{ATTEMPTS_FILE, is_starting};
pub use states::{Condition, marked_states};
pub use stray_files::StrayFiles;
pub use survey::{StateSurvey, Survey};
pub use waiting::{Situation, WAITING_FILE, WaitingNotice, WaitingStart};
pub use warm::{Warmed, warm};
pub use withdraw::{withdraw, withdraw_beside};
