//! Targets on disk: listing, making and removing results.

mod fastboot;
mod remover;
mod results;
mod tree;
mod work;

pub use fastboot::is_adoptable;
pub use remover::Remover;
pub use results::{Found, results};
pub use tree::destination;
pub use work::{Product, Work};

use std::{collections::BTreeSet, path::PathBuf};

use unsnap_fastboot::{FastbootError, Pair};

use crate::config::{Target, TargetKind};

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
