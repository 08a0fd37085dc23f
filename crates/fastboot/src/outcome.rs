//! Outcomes of preparing a state.

use std::{path::PathBuf, time::Duration};

use serde::Serialize;
use unsnap_unpack::Report;

use crate::Repaired;

/// The state that a validator finds now, or that is ready for it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// A state was prepared.
    Prepared(Box<Prepared>),
    /// A ready state was moved into place: see [`adopt_ready`](crate::adopt_ready).
    Adopted {
        /// Slot of the state.
        slot: u64,
        /// Directory of the state.
        directory: PathBuf,
        /// Number of storages.
        storages: u64,
        /// Milliseconds until the state was durable in its place. Includes the time for checking
        /// it, but not the time for removing the old state.
        elapsed_ms: u64,
        /// Microseconds until then for which the ledger was locked, so that no validator could start.
        ledger_locked_us: u64,
        /// Number of slots by which the state is older than the newest pair of archives: at most
        /// [`Request::max_behind`](crate::Request::max_behind). If it is not 0, a validator loads
        /// the state only if it is told to ignore archives.
        behind: u64,
        /// Archives that proved bad and were renamed.
        set_aside: Vec<SetAside>,
    },
    /// A state existed already that is as new as the newest good pair of archives, or not too far
    /// behind it.
    Ready {
        /// Slot of the state.
        slot: u64,
        /// Result of checking and repairing the state.
        state: Repaired,
        /// Number of slots by which the state is older than that pair, as for
        /// [`Adopted`](Self::Adopted).
        behind: u64,
        /// Archives that proved bad and were renamed.
        set_aside: Vec<SetAside>,
    },
}

/// A state that was prepared.
#[derive(Clone, Debug, Serialize)]
pub struct Prepared {
    /// Slot of the state.
    pub slot: u64,
    /// Directory of the state.
    pub directory: PathBuf,
    /// Report of unpacking.
    pub report: Report,
    /// Archives that proved bad and were renamed.
    pub set_aside: Vec<SetAside>,
}

/// An archive that proved bad and was renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetAside {
    /// Path before.
    pub path: PathBuf,
    /// Path now. Validators do not choose archives with such names.
    pub now: PathBuf,
    /// The reason, in words.
    pub reason: String,
}

/// Returns whole microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
