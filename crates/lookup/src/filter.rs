//! Selection of accounts by what their records hold.

use std::{collections::HashSet, ops::RangeInclusive};

use unsnap_layout::append_vec::RecordHeader;

/// A selection of records: those that meet every condition.
#[derive(Clone, Debug)]
pub struct AccountFilter {
    /// Owners of the accounts; empty for all.
    pub owners: Vec<[u8; 32]>,
    /// Addresses of the accounts; `None` for all.
    pub pubkeys: Option<HashSet<[u8; 32]>>,
    /// Size of the accounts' data in bytes.
    pub data_len: RangeInclusive<u64>,
    /// Bytes that the data must hold.
    pub memcmp: Vec<Memcmp>,
    /// Slots of the storages; empty for all.
    pub slots: Vec<RangeInclusive<u64>>,
}

/// Bytes at an offset of the data, as in the validator's RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memcmp {
    /// Offset in the data.
    pub offset: usize,
    /// Bytes there.
    pub bytes: Vec<u8>,
}

impl Default for AccountFilter {
    /// Selects all records.
    fn default() -> Self {
        Self {
            owners: Vec::new(),
            pubkeys: None,
            data_len: 0..=u64::MAX,
            memcmp: Vec::new(),
            slots: Vec::new(),
        }
    }
}

impl AccountFilter {
    /// Returns whether records of storages of this slot can be selected.
    pub fn includes_slot(&self, slot: u64) -> bool {
        self.slots.is_empty() || self.slots.iter().any(|slots| slots.contains(&slot))
    }

    /// Returns whether a record is selected, if its slot is.
    pub fn includes(&self, header: &RecordHeader, data: &[u8]) -> bool {
        (self.owners.is_empty() || self.owners.contains(&header.owner))
            && self.data_len.contains(&header.data_len)
            && self.pubkeys.as_ref().is_none_or(|pubkeys| pubkeys.contains(&header.pubkey))
            && self.memcmp.iter().all(|memcmp| memcmp.matches(data))
    }

    /// Returns whether every record is selected.
    pub fn is_all(&self) -> bool {
        self.owners.is_empty()
            && self.pubkeys.is_none()
            && self.data_len == (0..=u64::MAX)
            && self.memcmp.is_empty()
            && self.slots.is_empty()
    }
}

impl Memcmp {
    /// Data that ends before the bytes does not match.
    fn matches(&self, data: &[u8]) -> bool {
        data.get(self.offset..).is_some_and(|data| data.starts_with(&self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &[u8] = &[1, 2, 3, 4];

    fn header() -> RecordHeader {
        RecordHeader {
            data_len: 4,
            pubkey: [7; 32],
            lamports: 1,
            rent_epoch: 0,
            owner: [9; 32],
            executable: 0,
        }
    }

    fn includes(filter: &AccountFilter) -> bool {
        assert!(!filter.is_all());
        filter.includes(&header(), DATA)
    }

    #[test]
    fn every_condition_must_be_met() {
        let all = AccountFilter::default;
        assert!(all().is_all() && all().includes(&header(), DATA) && all().includes_slot(3));
        assert!(includes(&AccountFilter { owners: vec![[8; 32], [9; 32]], ..all() }));
        assert!(!includes(&AccountFilter { owners: vec![[8; 32]], ..all() }));
        assert!(includes(&AccountFilter { pubkeys: Some([[7; 32]].into()), ..all() }));
        assert!(!includes(&AccountFilter { pubkeys: Some(HashSet::new()), ..all() }));
        assert!(includes(&AccountFilter { data_len: 4..=4, ..all() }));
        assert!(!includes(&AccountFilter { data_len: 5..=u64::MAX, ..all() }));
        let both = AccountFilter { data_len: 4..=4, owners: vec![[8; 32]], ..all() };
        assert!(!includes(&both), "one of two");
        let slots = AccountFilter { slots: vec![1..=2, 5..=5], ..all() };
        let included: Vec<u64> = (0..8).filter(|slot| slots.includes_slot(*slot)).collect();
        assert_eq!(included, [1, 2, 5]);
        assert!(!slots.is_all());
    }

    #[test]
    fn bytes_are_compared_where_they_are() {
        let at = |offset, bytes: &[u8]| {
            let memcmp = vec![Memcmp { offset, bytes: bytes.to_vec() }];
            includes(&AccountFilter { memcmp, ..AccountFilter::default() })
        };
        assert!(at(0, &[1, 2]) && at(2, &[3, 4]) && at(4, &[]));
        assert!(!at(1, &[1]) && !at(3, &[4, 5]) && !at(5, &[]) && !at(usize::MAX, &[1]));
    }
}
