//! Work on a target and its products.

use std::{collections::BTreeMap, num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use unsnap_fastboot::{KnownBad, Pair};
use unsnap_layout::ArchiveHash;
use unsnap_pass::{CancelToken, Progress};
use unsnap_unpack::Report;

use crate::config::{Target, Unpacking};

/// A job as a worker carries it out.
#[derive(Clone, Debug)]
pub struct Work {
    /// Target of the job.
    pub target: Target,
    /// Archives to unpack.
    pub pair: Pair,
    /// Options for unpacking.
    pub unpacking: Arc<Unpacking>,
    /// Archives known to be bad.
    pub known_bad: Vec<KnownBad>,
    /// Most files of older states removed per second meanwhile.
    pub removal_files_per_second: NonZeroU32,
    /// Whether a client submitted exactly this pair, so that it replaces even a newer result.
    pub submitted: bool,
    /// Hashes in the names of the archives that existing results were made from, by path.
    pub made_from: BTreeMap<PathBuf, ArchiveHash>,
    /// Progress of the job.
    pub progress: Progress,
    /// Token that cancels the job.
    pub cancel: CancelToken,
}

/// A result of a job.
#[derive(Debug)]
pub struct Product {
    /// Directory of the result.
    pub path: PathBuf,
    /// Report of unpacking; `None` if the result existed before.
    pub report: Option<Box<Report>>,
    /// File name of the archive that it was made from; the newest one of a state made from two.
    pub archive: Option<String>,
    /// How it came to its place, if it was adopted.
    pub adopted: Option<Adopted>,
}

/// A ready state that was moved to where the validator looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Slot.
    pub slot: u64,
    /// Directory of the state before.
    pub from: PathBuf,
    /// Directory of the state now.
    pub to: PathBuf,
    /// Duration of examining and moving it.
    pub took: Duration,
    /// Time for which the ledger was locked.
    pub ledger_locked: Duration,
}
