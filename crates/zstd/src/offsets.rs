//! Repeat offsets, which sequences hand on from block to block.
//!
//! A chunk of blocks is decoded before those in front of it are, so it begins with three unknown
//! values. They are represented by values above all offsets. The rules of the format only move them
//! around and subtract one, and the values are so far apart that this cannot confuse them: a chunk
//! has far fewer sequences. When the chunk is executed, its first offsets are known, and the unknown
//! values, one in a thousand, are replaced.

/// Largest offset. libzstd's largest window, too.
pub(crate) const OFFSET_MAX: u32 = 1 << 31;

/// Distance of two unknown values.
const APART: u32 = 1 << 29;

/// The three offsets that a sequence can repeat, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offsets(pub [u32; 3]);

impl Offsets {
    /// Those at the start of a frame.
    pub const START: Self = Self([1, 4, 8]);

    /// Those at the start of a chunk that is decoded before the chunk in front of it.
    pub const UNKNOWN: Self = {
        let first = OFFSET_MAX + APART / 2;
        Self([first, first + APART, first + 2 * APART])
    };

    /// Replaces an unknown value, if `offset` is one, by what these offsets make it. The result is 0
    /// if it is no valid offset.
    #[inline]
    pub fn resolve(self, offset: u32) -> u32 {
        if offset <= OFFSET_MAX { offset } else { self.resolve_unknown(offset) }
    }

    #[cold]
    fn resolve_unknown(self, offset: u32) -> u32 {
        let index = ((offset - OFFSET_MAX) / APART) as usize;
        match (self.0.get(index), Self::UNKNOWN.0.get(index)) {
            (Some(known), Some(unknown)) => {
                let less = unknown.saturating_sub(offset);
                known.saturating_sub(less)
            }
            _ => 0,
        }
    }

    /// Returns the offsets after a chunk that began with these and ended with `unresolved`.
    pub fn after(self, unresolved: Self) -> Self {
        Self(unresolved.0.map(|offset| self.resolve(offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_offsets_become_those_of_the_chunk_in_front() {
        let before = Offsets([100, 200, 300]);
        let [first, second, third] = Offsets::UNKNOWN.0;
        assert_eq!(before.after(Offsets([second, first - 3, 7])), Offsets([200, 97, 7]));
        assert_eq!(before.resolve(third), 300);
        assert_eq!(before.resolve(OFFSET_MAX), OFFSET_MAX);
        assert_eq!((before.resolve(first - 100), before.resolve(first - 101)), (0, 0));
        assert_eq!(before.resolve(u32::MAX), 0);
    }

    #[test]
    fn a_chunk_cannot_subtract_one_value_from_another() {
        // One subtraction a sequence, in all blocks of a chunk.
        let most = u32::try_from(crate::slot::SEQUENCES_MAX).unwrap();
        assert!(most < APART / 2);
    }
}
