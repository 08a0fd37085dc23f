//! Readers of bits: forwards for descriptions of tables, backwards for streams.

// Fields of known width, and lengths that are far from the limits.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)]

/// Bytes that must be readable in front of a stream, so that eight bytes can be loaded anywhere in
/// it.
pub(crate) const LEAD_BYTES: usize = 8;

/// Bits that a loaded window holds at least.
pub(crate) const WINDOW_BITS: u32 = 56;

/// Reads bits forwards, the lowest of each byte first. Zeros follow the end.
pub(crate) struct ForwardBits<'a> {
    bytes: &'a [u8],
    /// Bits passed.
    position: usize,
}

impl<'a> ForwardBits<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Returns the next `count` bits, at most 16, without passing them.
    pub fn peek(&self, count: u32) -> u32 {
        let at = self.position / 8;
        let mut group = [0; 4];
        if let Some(bytes) = self.bytes.get(at..at + 4) {
            group.copy_from_slice(bytes);
        } else if let Some(bytes) = self.bytes.get(at..) {
            group[..bytes.len()].copy_from_slice(bytes);
        }
        (u32::from_le_bytes(group) >> (self.position % 8)) & ((1 << count) - 1)
    }

    pub fn skip(&mut self, count: u32) {
        self.position += count as usize;
    }

    pub fn read(&mut self, count: u32) -> u32 {
        let value = self.peek(count);
        self.skip(count);
        value
    }

    /// Returns the number of bytes begun, or `None` if more bits were passed than there are.
    pub fn bytes_passed(&self) -> Option<usize> {
        let bytes = self.position.div_ceil(8);
        (bytes <= self.bytes.len()).then_some(bytes)
    }
}

/// Reads bits backwards from the end of a stream. The highest set bit of the last byte marks where
/// they begin.
#[derive(Clone, Copy)]
pub(crate) struct BackwardBits<'a> {
    /// The stream, with at least [`LEAD_BYTES`] in front of it.
    bytes: &'a [u8],
    /// Index at which the stream begins.
    start: usize,
    /// Bits not yet read; negative if more were read than there are.
    pub left: isize,
}

impl<'a> BackwardBits<'a> {
    /// Begins with the stream `bytes[start..end]`. Returns `None` if it is empty or its last byte
    /// has no mark.
    pub fn new(bytes: &'a [u8], start: usize, end: usize) -> Option<Self> {
        debug_assert!(start >= LEAD_BYTES);
        let bytes = bytes.get(..end)?;
        let last = bytes.get(start..)?.last()?;
        let mark = last.checked_ilog2()?;
        let left = (end - start - 1) * 8 + mark as usize;
        Some(Self { bytes, start, left: isize::try_from(left).ok()? })
    }

    /// Returns the index at which the stream begins.
    pub fn first_byte(&self) -> usize {
        self.start
    }

    /// Returns the stream with [`LEAD_BYTES`] in front of it.
    pub fn with_lead(&self) -> &'a [u8] {
        &self.bytes[self.start - LEAD_BYTES..]
    }

    /// Returns the next bits, at least [`WINDOW_BITS`], as the highest of a word. If fewer are left,
    /// foreign bits follow them.
    #[inline(always)]
    pub fn window(&self) -> u64 {
        let left = self.left.max(0) as usize;
        let end = self.start + left / 8 + 1;
        word(self.bytes, end - 8) << (8 - left % 8)
    }

    /// Reads `count` bits, at most 32.
    #[inline(always)]
    pub fn read(&mut self, count: u32) -> u32 {
        let value = top(self.window(), count);
        self.left -= count as isize;
        value as u32
    }
}

/// Bits of a stream in a register. Unlike those of [`BackwardBits::window`], they stay where they are,
/// so that taking some does not wait until others are taken.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    word: u64,
    /// Valid bits, the lowest of the word.
    pub valid: u32,
    loaded: u32,
}

impl Window {
    /// Loads at least [`WINDOW_BITS`] bits in front of the last `left` bits of a stream, which is not
    /// negative. `bytes` are the stream with [`LEAD_BYTES`].
    #[inline(always)]
    pub fn load(bytes: &[u8], left: isize) -> Self {
        let left = left as usize;
        let valid = WINDOW_BITS + (left % 8) as u32;
        Self { word: word(bytes, left / 8 + 1), valid, loaded: valid }
    }

    /// Takes `count` bits, at most 32, of which so many are valid.
    #[inline(always)]
    pub fn take(&mut self, count: u8) -> u32 {
        self.valid -= u32::from(count);
        ((self.word >> self.valid) & ((1 << count) - 1)) as u32
    }

    /// Returns what is left of `left` bits at the time of loading.
    #[inline(always)]
    pub fn left(&self, left: isize) -> isize {
        left - (self.loaded - self.valid) as isize
    }

    /// Loads again. If no bits are left, foreign bits follow.
    #[cold]
    pub fn load_again(&mut self, bytes: &[u8], left: &mut isize) {
        *left = self.left(*left);
        *self = Self::load(bytes, (*left).max(0));
    }
}

/// Returns the highest `count` bits of a window, at most 63.
#[inline(always)]
pub(crate) fn top(window: u64, count: u32) -> u64 {
    (window >> 1) >> (63 - count)
}

/// Returns the eight bytes at `at`.
#[inline(always)]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut group = [0; 8];
    group.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards() {
        let mut bits = ForwardBits::new(&[0b1010_0110, 0b1]);
        assert_eq!((bits.read(3), bits.read(2), bits.peek(4)), (0b110, 0, 0b1101));
        bits.skip(4);
        assert_eq!((bits.bytes_passed(), bits.read(16)), (Some(2), 0));
        assert_eq!(bits.bytes_passed(), None);
    }

    #[test]
    fn backwards_over_every_length_and_mark() {
        for len in 1..20 {
            for mark in 0..8_u32 {
                let mut bytes = vec![0xff; LEAD_BYTES];
                bytes.extend((0..len).map(|index| (index as u8).wrapping_mul(37)));
                let last = bytes.last_mut().unwrap();
                *last = *last & ((1 << mark) - 1) | 1 << mark;
                let mut bits = BackwardBits::new(&bytes, LEAD_BYTES, bytes.len()).unwrap();
                assert_eq!(bits.left, (len as isize - 1) * 8 + mark as isize);
                for position in (0..bits.left as usize).rev() {
                    let expected = bytes[LEAD_BYTES + position / 8] >> (position % 8) & 1;
                    assert_eq!(bits.read(1), u32::from(expected), "{len} {mark} {position}");
                }
                assert_eq!(bits.left, 0);
            }
        }
    }

    #[test]
    fn a_stream_needs_a_mark() {
        let bytes = [1, 1, 1, 1, 1, 1, 1, 1, 5, 0];
        assert!(BackwardBits::new(&bytes, 8, 8).is_none(), "empty");
        assert!(BackwardBits::new(&bytes, 8, 10).is_none(), "the last byte is zero");
        assert_eq!(BackwardBits::new(&bytes, 8, 9).map(|bits| bits.left), Some(2));
        assert!(BackwardBits::new(&bytes, 8, 11).is_none(), "beyond the bytes");
    }
}
