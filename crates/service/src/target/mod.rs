//! Targets on disk: listing, making and removing results.

mod fastboot;
mod remover;
mod results;
mod tree;

pub use fastboot::is_adoptable;
pub use remover::Remover;
pub use results::{Found, results};
pub use tree::destination;

use std::{collections::BTreeSet, num::NonZeroU32, path::PathBuf, sync::Arc};

use unsnap_fastboot::{FastbootError, KnownBad, Pair};
use unsnap_pass::{CancelToken, Progress};
use unsnap_unpack::Report;

use crate::config::{Target, TargetKind, Unpacking};

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

/// A sweep: cleaning up a target between jobs.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Target to sweep.
    pub target: Target,
    /// Its results.
    pub results: Vec<Found>,
    /// Queued pairs, whose interrupted runs will be resumed.
    pub spare: Vec<Pair>,
}

impl Sweep {
    /// Moves outdated results and useless staging directories aside. Returns all paths to remove.
    /// Fastboot targets are cleaned up by the next preparation instead.
    pub fn carry_out(&self) -> Result<Vec<PathBuf>, FastbootError> {
        let TargetKind::Tree { directory } = &self.target.kind else { return Ok(Vec::new()) };
        let spare = self.spare.iter().flat_map(Pair::archives);
        let spare: BTreeSet<String> = spare.map(|archive| destination(&archive.name)).collect();
        let mut outdated = tree::outdated(&self.results, self.target.keep);
        outdated.retain(|path| {
            // The full archive of a queued pair may be older than a pair on disk.
            path.file_name().is_none_or(|name| !spare.contains(&*name.to_string_lossy()))
        });
        tree::sweep(directory, &spare, &outdated)
    }
}

/// Carries out a job. After an error, `products` holds the results completed before it.
pub fn carry_out(work: &Work, products: &mut Vec<Product>) -> Result<(), FastbootError> {
    match &work.target.kind {
        TargetKind::Tree { directory } => tree::unpack(work, directory, products),
        TargetKind::Fastboot { places, format, shadow, beside } => {
            let request = fastboot::request(work, places, *format, *shadow);
            fastboot::prepare(&request, work, *beside, products)
        }
    }
}
