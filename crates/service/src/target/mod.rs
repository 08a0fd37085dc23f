//! Targets on disk: listing, making and removing results.

mod claim;
mod fastboot;
mod leftovers;
mod remover;
mod results;
mod tree;
mod work;

pub use claim::claim;
pub use fastboot::{Adoption, AdoptionEnd, is_adoptable};
pub use remover::Remover;
pub use results::{Found, result_directories, results};
pub use tree::destination;
pub use work::{Adopted, Product, Work};

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

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
    /// Results that stay although newer ones exist.
    pub kept: BTreeSet<PathBuf>,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Results that were moved aside.
    pub outdated: Vec<PathBuf>,
    /// Directories to remove, and the bytes that this frees.
    pub leftovers: BTreeMap<PathBuf, u64>,
}

impl Sweep {
    /// Moves outdated results and useless staging directories aside. Returns all paths to remove.
    /// Of a fastboot target these are only what earlier runs moved aside and did not remove.
    pub fn carry_out(&self) -> Result<Swept, FastbootError> {
        let (outdated, paths) = match &self.target.kind {
            TargetKind::Tree { directory } => {
                let outdated = self.outdated();
                let paths = tree::sweep(directory, &self.spared(), &outdated)?;
                (outdated, paths)
            }
            TargetKind::Fastboot { places, .. } => {
                let paths =
                    leftovers::of_states(places).map_err(|error| FastbootError::Search {
                        path: places.snapshots.clone(),
                        errno: rustix::io::Errno::from_io_error(&error)
                            .unwrap_or(rustix::io::Errno::IO),
                    })?;
                (Vec::new(), paths)
            }
        };
        let measured = |path: PathBuf| {
            let bytes = leftovers::size(&path);
            (path, bytes)
        };
        Ok(Swept { outdated, leftovers: paths.into_iter().map(measured).collect() })
    }

    /// Returns the names of the trees that queued jobs make.
    fn spared(&self) -> BTreeSet<String> {
        let archives = self.spare.iter().flat_map(Pair::archives);
        archives.map(|archive| destination(&archive.name)).collect()
    }

    fn outdated(&self) -> Vec<PathBuf> {
        let spared = self.spared();
        let mut outdated = tree::outdated(&self.results, self.target.keep);
        outdated.retain(|path| {
            // The full archive of a queued pair may be older than a pair on disk.
            let is_spared =
                path.file_name().is_some_and(|name| spared.contains(&*name.to_string_lossy()));
            !is_spared && !self.kept.contains(path)
        });
        outdated
    }
}

/// Carries out a job. After an error, `products` holds the results completed before it.
pub fn carry_out(work: &Work, products: &mut Vec<Product>) -> Result<(), FastbootError> {
    match &work.target.kind {
        TargetKind::Tree { directory } => tree::unpack(work, directory, products),
        TargetKind::Fastboot { places, beside, .. } => {
            fastboot::prepare(work, places, *beside, products)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing;

    #[test]
    fn a_submitted_result_stays_although_it_is_old_and_only_one_is_kept() {
        let scratch = tempfile::tempdir().unwrap();
        for slot in ["39", "47"] {
            fs::create_dir(scratch.path().join(slot)).unwrap();
            fs::write(scratch.path().join(slot).join("version"), "1.2.0").unwrap();
        }
        let directory = scratch.path().to_owned();
        let target = Target { kind: TargetKind::Tree { directory }, ..testing::target() };
        let results = results(&target).unwrap();
        let kept = BTreeSet::from([scratch.path().join("39")]);
        let mut sweep = Sweep { target, results, spare: Vec::new(), kept };
        assert_eq!(sweep.carry_out().unwrap(), Swept::default());
        sweep.kept.clear();
        let swept = sweep.carry_out().unwrap();
        assert_eq!(swept.outdated, [scratch.path().join("39")]);
        assert_eq!(swept.leftovers.len(), 1);
        assert!(!scratch.path().join("39").exists() && scratch.path().join("47").is_dir());
    }
}
