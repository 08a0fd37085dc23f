//! File name of a specified archive, and the totals in it.

use crate::bank;
use crate::lattice::{self, Totals};
use crate::spec::{ArchiveSpec, Error, LatticeHash};

impl ArchiveSpec {
    /// Returns the canonical file name: `snapshot-<slot>-<hash>.tar.zst`, or
    /// `incremental-snapshot-<base>-<slot>-<hash>.tar.zst`.
    ///
    /// # Panics
    ///
    /// If the name depends on all accounts and the specification is impossible.
    pub fn name(&self) -> String {
        let slot = self.slot;
        let totals = self.totals().expect("a possible archive");
        let hash = bank::name_hash(&totals.lattice_hash);
        let extension = self.compression.extension();
        match self.base_slot {
            None => format!("snapshot-{slot}-{hash}.{extension}"),
            Some(base) => format!("incremental-snapshot-{base}-{slot}-{hash}.{extension}"),
        }
    }

    /// Returns the totals of all accounts for the bank file.
    pub(crate) fn totals(&self) -> Result<Totals, Error> {
        match &self.lattice_hash {
            LatticeHash::Random => Ok(Totals {
                lattice_hash: Box::new(bank::lattice_hash(self.seed)),
                capitalization: bank::CAPITALIZATION,
            }),
            LatticeHash::OfAccounts => lattice::totals_of_specs(&[self]),
            LatticeHash::OfAccountsUpon(base) => lattice::totals_of_specs(&[base, self]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_genuine() {
        let full = ArchiveSpec { slot: 5, ..ArchiveSpec::default() };
        let incremental = ArchiveSpec { base_slot: Some(3), ..full.clone() };
        let hash = bank::name_hash(&bank::lattice_hash(0));
        assert_eq!(full.name(), format!("snapshot-5-{hash}.tar.zst"));
        assert_eq!(incremental.name(), format!("incremental-snapshot-3-5-{hash}.tar.zst"));
    }
}
