//! Accounts by the program that owns them.

use std::collections::HashMap;

use serde::Serialize;
use unsnap_layout::append_vec::RecordHeader;
use unsnap_verify::{Record, RecordSink};

/// Programs that are told apart; what belongs to others is added up. A bound on memory (100 MB): whoever
/// makes an archive can give each account another owner.
const OWNERS_MAX: usize = 1_000_000;

/// What belongs to one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnerTotals {
    /// The program's address in base58; `None` for all that were too many to be told apart.
    pub owner: Option<String>,
    /// Records in storages: of an account that occurs in several storages each counts.
    pub records: u64,
    /// Bytes of their data.
    pub data_bytes: u64,
    /// Their lamports, which are too many by those of older versions.
    pub lamports: u128,
}

/// Adds accounts up.
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

    /// The programs with the most data, at most `count`, and whatever was not told apart.
    pub fn largest(self, count: usize) -> Vec<OwnerTotals> {
        let mut all: Vec<([u8; 32], OwnerTotals)> = self.totals.into_iter().collect();
        // In one order, whatever that of the map.
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
