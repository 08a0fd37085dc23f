//! Work on a target and its products.

use std::{num::NonZeroU32, path::PathBuf, sync::Arc};

use unsnap_fastboot::{KnownBad, Pair};
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
}
