//! Targets on the disk: what is there, what is made, what is removed.

mod fastboot;
mod removing;
mod results;
mod tree;

pub use fastboot::is_adoptable;
pub use removing::Remover;
pub use results::{Found, results};
pub use tree::destination;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use unsnap_fastboot::KnownBad;
use unsnap_unpack::{CancelToken, Error, Pair, Progress, Report};

use crate::config::{Target, TargetKind};

/// What a worker is to do.
#[derive(Clone, Debug)]
pub struct Work {
    /// For what.
    pub target: Target,
    /// What is to be unpacked.
    pub pair: Pair,
    /// How.
    pub config: Arc<unsnap_unpack::Config>,
    /// Archives that are no good.
    pub known_bad: Vec<KnownBad>,
    /// Whether somebody wants exactly this, whatever newer there is.
    pub submitted: bool,
    /// To watch it by.
    pub progress: Progress,
    /// To stop it by.
    pub cancel: CancelToken,
}

/// What came of it.
#[derive(Debug)]
pub struct Product {
    /// Where it is.
    pub path: PathBuf,
    /// What unpacking was like; `None` if it was there already.
    pub report: Option<Box<Report>>,
}

/// Tidying a target up, between jobs.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Which.
    pub target: Target,
    /// What it has.
    pub results: Vec<Found>,
    /// Pairs that are to be gone on with.
    pub spare: Vec<Pair>,
}

impl Sweep {
    /// Moves aside what is of no use any more, and gives all that is to be removed. A validator's places
    /// are tidied by the next preparation.
    pub fn carry_out(&self) -> Result<Vec<PathBuf>, Error> {
        let TargetKind::Tree { directory } = &self.target.kind else { return Ok(Vec::new()) };
        let spare = self.spare.iter().flat_map(Pair::archives);
        let spare: BTreeSet<String> = spare.map(|archive| destination(&archive.name)).collect();
        let mut outdated = tree::outdated(&self.results, self.target.keep);
        outdated.retain(|path| {
            // The first half of a pair may be older than a pair that is there.
            path.file_name().is_none_or(|name| !spare.contains(&*name.to_string_lossy()))
        });
        tree::sweep(directory, &spare, &outdated)
    }
}

/// Does it. What was made before an error stays.
pub fn carry_out(work: &Work, products: &mut Vec<Product>) -> Result<(), Error> {
    match &work.target.kind {
        TargetKind::Tree { directory } => tree::unpack(work, directory, products),
        TargetKind::Fastboot { places, format, shadow, beside } => {
            let request = fastboot::request(work, places, *format, *shadow);
            fastboot::prepare(&request, work, *beside, products)
        }
    }
}
