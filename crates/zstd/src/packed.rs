//! Sequences, packed into words.
//!
//! Offsets take 32 bits, so that windows of 2 GiB are possible, and leave 16 for each of the lengths. A
//! longer run of literals, or a longer match, becomes several sequences. A block has room for two at
//! most.

/// Literals to take, then bytes to copy from `offset` before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence(pub u64);

impl Sequence {
    /// Longest run of literals, and longest match.
    pub const LENGTH_MAX: u32 = 0xffff;

    #[inline]
    pub fn new(literals: u32, copied: u32, offset: u32) -> Self {
        Self(u64::from(offset) << 32 | u64::from(copied) << 16 | u64::from(literals))
    }

    #[inline]
    pub fn literals(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    #[inline]
    pub fn copied(self) -> usize {
        (self.0 >> 16 & 0xffff) as usize
    }

    #[inline]
    pub fn offset(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_keeps_its_parts() {
        for (literals, copied, offset) in [(0, 3, 1), (65_535, 65_535, u32::MAX), (7, 0, 0)] {
            let sequence = Sequence::new(literals, copied, offset);
            assert_eq!(sequence.literals(), literals as usize);
            assert_eq!((sequence.copied(), sequence.offset()), (copied as usize, offset));
        }
    }
}
