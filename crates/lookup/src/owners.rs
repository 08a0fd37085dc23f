//! Totals of accounts by owner.

use std::collections::HashMap;

use serde::Serialize;
use unsnap_layout::append_vec::RecordHeader;
use unsnap_verify::{Record, RecordSink};

/// Number of owners that are counted separately; accounts of other owners are added up. Bounds the
/// memory (100 MB), since an archive may give each account another owner.
const OWNERS_MAX: usize = 1_000_000;

/// Totals of the accounts of one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnerTotals {
    /// Address of the owning program in base58; `None` for all owners beyond the bound.
    pub owner: Option<String>,
    /// Number of records. An account in several storages counts several times.
    pub records: u64,
    /// Total size of their data in bytes.
    pub data_bytes: u64,
    /// Their lamports, including those of older versions.
    pub lamports: u128,
}

/// Totals by owner, while records are added.
#[derive(Default)]
pub(crate) struct Owners {
    totals: HashMap<[u8; 32], OwnerTotals>,
    others: OwnerTotals,
}

impl Owners {
    fn add(&mut self, header: &RecordHeader) {
        let known = self.totals.len() < OWNERS_MAX || self.totals.contains_key(&header.owner);
        let totals =
            if known { self.totals.entry(header.owner).or_default() } else { &mut self.others };
        totals.records += 1;
        totals.data_bytes = totals.data_bytes.saturating_add(header.data_len);
        totals.lamports = totals.lamports.saturating_add(u128::from(header.lamports));
    }

    /// Returns the `count` owners with the most data, and the total of all owners that were not
    /// counted separately.
    pub fn largest(self, count: usize) -> Vec<OwnerTotals> {
        let mut all: Vec<([u8; 32], OwnerTotals)> = self.totals.into_iter().collect();
        // A definite order, unlike the map's.
        all.sort_by_key(|(owner, totals)| {
            (std::cmp::Reverse((totals.data_bytes, totals.records)), *owner)
        });
        let named = all.into_iter().take(count).map(|(owner, totals)| OwnerTotals {
            owner: Some(bs58::encode(owner).into_string()),
            ..totals
        });
        let others = (self.others.records > 0).then_some(self.others);
        named.chain(others).collect()
    }
}

impl RecordSink for Owners {
    fn whole(&mut self, record: &Record<'_>) {
        self.add(record.header);
    }

    fn begins(&mut self, _: u64, header: &RecordHeader) {
        self.add(header);
    }

    fn part(&mut self, _: &[u8]) {}

    fn ends(&mut self) {}
}
