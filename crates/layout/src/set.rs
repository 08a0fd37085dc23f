//! A set of numbers that takes eight bytes per number.

use std::collections::HashSet;
use std::ops::Range;

/// A growing set of `u64`.
///
/// It finds duplicates among millions of entries of an untrusted archive, so its memory use
/// matters: 8 bytes per number, a quarter of a byte for the index, and about 2 MiB in all for the
/// rest. No large table is ever doubled. The 5,000,000 entries of the largest archive take 43 MB.
/// (Growing needs no copy on Linux: allocators remap vectors of this size.)
///
/// ```text
///   recent    hash set of at most 65,536 numbers
///   settled   sorted vector, grown to the exact size
///   index     start in `settled` of each of many equal ranges of numbers
/// ```
///
/// When `recent` is full it is sorted and merged into `settled` in place, from the back. This moves
/// `settled` once for every 65,536 insertions: 6 times for a mainnet archive of 430,000 storages,
/// 76 times for the largest archive. Storages come in scrambled order, so the set does not exploit
/// any order of its input.
///
/// The index saves most of a binary search, each step of which would miss the cache: slots lie
/// close together and hashes are spread evenly, so a range holds some 32 to 64 numbers. Numbers
/// chosen to share one range cost a binary search, no more.
#[derive(Debug, Default)]
pub struct U64Set {
    settled: Vec<u64>,
    index: Index,
    recent: HashSet<u64>,
}

/// Index of a sorted vector: narrows the search for a number to one range.
#[derive(Debug, Default)]
struct Index {
    /// The smallest number of the vector.
    base: u64,
    /// Numbers are in the same range if they agree in `(number - base) >> shift`.
    shift: u32,
    /// Position in the vector of the first number of each range, followed by the vector's length.
    starts: Vec<usize>,
}

impl U64Set {
    /// Creates an empty set. It allocates nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number. Returns whether it was new.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.is_settled(number) || !self.recent.insert(number) {
            return false;
        }
        if self.recent.len() >= RECENT_MAX {
            self.settle();
        }
        true
    }

    /// Returns whether a number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.recent.contains(&number) || self.is_settled(number)
    }

    /// Returns how many numbers the set holds.
    pub fn len(&self) -> usize {
        self.settled.len() + self.recent.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.settled.is_empty() && self.recent.is_empty()
    }

    fn is_settled(&self, number: u64) -> bool {
        self.settled[self.index.range_of(number)].binary_search(&number).is_ok()
    }

    /// Merges `recent` into `settled`. The two have no number in common.
    fn settle(&mut self) {
        let mut arrived: Vec<u64> = self.recent.drain().collect();
        arrived.sort_unstable();

        let mut unmoved = self.settled.len();
        self.settled.reserve_exact(arrived.len());
        self.settled.resize(unmoved + arrived.len(), 0);
        // From the back: the largest numbers move to unused places. `target` stays ahead of
        // `unmoved` by the number of arrivals that remain.
        while let Some(&largest) = arrived.last() {
            let target = unmoved + arrived.len() - 1;
            if unmoved > 0 && self.settled[unmoved - 1] > largest {
                self.settled[target] = self.settled[unmoved - 1];
                unmoved -= 1;
            } else {
                self.settled[target] = largest;
                arrived.pop();
            }
        }
        self.index.rebuild(&self.settled);
    }
}

impl Index {
    /// Returns the positions among which a number lies, if it is in the vector at all.
    fn range_of(&self, number: u64) -> Range<usize> {
        let Some(distance) = number.checked_sub(self.base) else { return 0..0 };
        let range = usize::try_from(distance >> self.shift).unwrap_or(usize::MAX);
        // Numbers beyond the last range are not in the vector. `starts` has one more element than
        // there are ranges.
        match self.starts.get(range..).unwrap_or_default() {
            &[start, end, ..] => start..end,
            _ => 0..0,
        }
    }

    fn rebuild(&mut self, sorted: &[u64]) {
        let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else { return };
        let ranges_max = (sorted.len() / RANGE_NUMBERS).max(1) as u64;
        self.base = first;
        // The smallest shift that leaves few enough ranges. Between half of the limit and all of it
        // are used.
        self.shift = (0..u64::BITS - 1)
            .find(|shift| (last - first) >> shift < ranges_max)
            .unwrap_or(u64::BITS - 1);
        let range_of = |number| (number - first) >> self.shift;
        self.starts.clear();
        self.starts.reserve_exact(sorted.len() / RANGE_NUMBERS + 2);
        for (position, &number) in sorted.iter().enumerate() {
            while self.starts.len() as u64 <= range_of(number) {
                self.starts.push(position);
            }
        }
        self.starts.push(sorted.len());
    }
}

/// Numbers kept in the hash set. A compromise found by estimate: twice as many would take 1.2 MB
/// more, half as many would move the settled numbers twice as often.
const RECENT_MAX: usize = 1 << 16;

/// The fewest numbers that a range of the index holds on average: four cache lines of them.
const RANGE_NUMBERS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A fixed permutation of 64-bit numbers (splitmix64), so that failures can be repeated.
    fn scrambled(number: u64) -> u64 {
        let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Inserts the numbers here and into std's set and compares every answer. Prints the time per
    /// insertion.
    fn compare(title: &str, numbers: &[u64]) {
        let mut model = HashSet::new();
        let expected: Vec<bool> = numbers.iter().map(|&number| model.insert(number)).collect();

        let mut set = U64Set::new();
        let start = Instant::now();
        let answers: Vec<bool> = numbers.iter().map(|&number| set.insert(number)).collect();
        let insertion = start.elapsed() / u32::try_from(numbers.len()).expect("a small test");
        println!("{title}: {} insertions, {insertion:?} each", numbers.len());

        assert_eq!(answers, expected, "{title}");
        assert_eq!(set.len(), model.len(), "{title}");
        assert!(set.settled.is_sorted(), "{title}");
        for &number in numbers {
            assert!(set.contains(number), "{title}: {number}");
            let other = number.wrapping_add(1);
            assert_eq!(set.contains(other), model.contains(&other), "{title}: {other}");
        }
    }

    #[test]
    fn it_agrees_with_a_hash_set() {
        let count = 430_000;
        let slots = 350_000_000;
        compare("rising", &(slots..slots + count).collect::<Vec<_>>());
        compare("falling", &(slots..slots + count).rev().collect::<Vec<_>>());
        compare("random", &(0..count).map(scrambled).collect::<Vec<_>>());
        // Close together and unordered, like the storages of one archive.
        compare("slots", &(0..count).map(|n| slots + scrambled(n) % 432_000).collect::<Vec<_>>());
        // Both ends of the range and one crowded place, where the index does not help.
        compare(
            "crowded",
            &[0, u64::MAX].into_iter().chain((0..count).map(|n| slots + n)).collect::<Vec<_>>(),
        );
        compare("few", &(0..count).map(|n| scrambled(n) % 1_000).collect::<Vec<_>>());
        compare("ends", &[u64::MAX, 0, u64::MAX, 0, 1, u64::MAX - 1]);
    }

    #[test]
    fn a_duplicate_is_found_at_any_distance() {
        for distance in [0, 1, 65_534, 65_535, 65_536, 65_537, 131_072, 200_000] {
            let mut set = U64Set::new();
            assert!(set.insert(7));
            assert!((0..distance).all(|number| set.insert(scrambled(number))));
            assert!(!set.insert(7), "{distance}");
            assert_eq!(set.len(), 1 + usize::try_from(distance).expect("small"));
        }
    }

    #[test]
    fn memory_is_eight_bytes_a_number() {
        let mut set = U64Set::new();
        assert!((0..1_000_000).all(|number| set.insert(scrambled(number))));
        assert!(set.settled.capacity() <= 1_000_000);
        assert!(set.index.starts.capacity() <= 1_000_000 / RANGE_NUMBERS + 2);
        assert!(set.recent.capacity() <= 2 * RECENT_MAX);
    }

    #[test]
    fn an_empty_set() {
        let mut set = U64Set::new();
        assert!(set.is_empty() && !set.contains(0));
        assert!(set.insert(0));
        assert!(!set.is_empty() && set.len() == 1 && set.contains(0));
    }
}
