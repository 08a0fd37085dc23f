//! Facts about an archive's storages, from their names and sizes.

use serde::Serialize;
use unsnap_index::{Entry, EntryName};

/// Number of size classes. Class n holds sizes from 2^(n-1) to 2^n - 1 bytes.
const CLASSES: usize = 65;

/// Facts about an archive's storages.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StorageFacts {
    /// Number of storages.
    pub count: u64,
    /// Total size in bytes.
    pub bytes: u64,
    /// Size of the smallest storage in bytes.
    pub smallest: u64,
    /// Size of the largest storage in bytes.
    pub largest: u64,
    /// Lowest slot.
    pub lowest_slot: u64,
    /// Highest slot.
    pub highest_slot: u64,
    /// Histogram of sizes, smallest first, without empty classes at the ends.
    pub sizes: Vec<Histogram>,
}

/// A class of storages of about the same size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Histogram {
    /// Smallest size of the class in bytes.
    pub from_bytes: u64,
    /// First size beyond the class.
    pub to_bytes: u64,
    /// Number of storages.
    pub count: u64,
    /// Total size in bytes.
    pub bytes: u64,
}

/// Counters of storages.
#[derive(Clone, Debug)]
pub(crate) struct StorageTally {
    facts: StorageFacts,
    classes: [(u64, u64); CLASSES],
}

impl Default for StorageTally {
    fn default() -> Self {
        Self { facts: StorageFacts::default(), classes: [(0, 0); CLASSES] }
    }
}

impl StorageTally {
    /// Adds an entry if it is a storage.
    pub fn add(&mut self, entry: &Entry) {
        if let EntryName::Storage { slot, .. } = entry.name {
            self.add_storage(slot, entry.size);
        }
    }

    fn add_storage(&mut self, slot: u64, bytes: u64) {
        let facts = &mut self.facts;
        if facts.count == 0 {
            (facts.smallest, facts.largest) = (bytes, bytes);
            (facts.lowest_slot, facts.highest_slot) = (slot, slot);
        }
        facts.count += 1;
        facts.bytes = facts.bytes.saturating_add(bytes);
        facts.smallest = facts.smallest.min(bytes);
        facts.largest = facts.largest.max(bytes);
        facts.lowest_slot = facts.lowest_slot.min(slot);
        facts.highest_slot = facts.highest_slot.max(slot);
        if let Some(class) = self.classes.get_mut(class_of(bytes)) {
            class.0 += 1;
            class.1 = class.1.saturating_add(bytes);
        }
    }

    /// Returns the facts.
    pub fn facts(mut self) -> StorageFacts {
        let used = |class: &(u64, u64)| class.0 > 0;
        let from = self.classes.iter().position(used).unwrap_or(0);
        let to = self.classes.iter().rposition(used).map_or(0, |last| last + 1);
        let limit = |class: usize| 1_u64.checked_shl(u32::try_from(class).unwrap_or(u32::MAX));
        self.facts.sizes = (from..to)
            .map(|class| Histogram {
                from_bytes: class.checked_sub(1).and_then(limit).unwrap_or(0),
                to_bytes: limit(class).unwrap_or(u64::MAX),
                count: self.classes[class].0,
                bytes: self.classes[class].1,
            })
            .collect();
        self.facts
    }
}

fn class_of(bytes: u64) -> usize {
    usize::try_from(u64::BITS - bytes.leading_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_are_put_into_classes() {
        let mut tally = StorageTally::default();
        for (slot, bytes) in [(7, 1), (3, 1024), (9, 1025), (8, 2047), (4, 2048), (5, u64::MAX)] {
            tally.add_storage(slot, bytes);
        }
        let facts = tally.facts();
        assert_eq!((facts.count, facts.lowest_slot, facts.highest_slot), (6, 3, 9));
        assert_eq!((facts.smallest, facts.largest), (1, u64::MAX));
        let class = |from: u64| facts.sizes.iter().find(|class| class.from_bytes == from).unwrap();
        assert_eq!((class(1024).count, class(1024).to_bytes), (3, 2048));
        assert_eq!((class(1).count, class(2048).count, class(1 << 63).count), (1, 1, 1));
        let count: u64 = facts.sizes.iter().map(|class| class.count).sum();
        assert_eq!(count, facts.count);
        assert!(StorageTally::default().facts().sizes.is_empty());
    }
}
