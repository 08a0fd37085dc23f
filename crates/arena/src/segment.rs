//! Segments: parts of the decoded stream at addresses that direct I/O can write from.
//!
//! ```text
//! lent block:  | headroom (for the carry)   | decoded bytes ............ |
//!              ^ page                       ^ address ≡ raw_offset (mod 4096)
//! ```
//!
//! * The address of every byte is congruent to its offset in the decoded stream modulo 4096. Tar
//!   places payloads at multiples of 512 in the stream, so they are 512-aligned in memory, which is
//!   all that `O_DIRECT` requires on ordinary devices.
//! * The headroom takes the end of the previous segment that was less than a whole file block, the
//!   *carry*, so that every write is one contiguous span (see [`Segment::prepend`]).

use std::{ops::Range, time::Duration};

use crate::{Block, PAGE_BYTES, Pool, PoolClosed, Slice};

/// Maximum length of a carry in bytes. Less than one file block is ever left over.
pub const CARRY_BYTES_MAX: usize = PAGE_BYTES;

/// Room for the carry plus the padding that makes addresses congruent, in bytes.
const HEADROOM_BYTES: usize = CARRY_BYTES_MAX + PAGE_BYTES;

/// A segment that a decoder is filling.
#[derive(Debug)]
pub struct OpenSegment {
    raw_offset: u64,
    headroom: Block,
    body: Block,
    filled: usize,
}

impl OpenSegment {
    /// Returns the most pool bytes that a segment of `capacity` decoded bytes can occupy.
    pub fn footprint(capacity: usize) -> usize {
        (HEADROOM_BYTES + capacity).next_multiple_of(PAGE_BYTES)
    }

    /// Borrows memory for `capacity` decoded bytes that begin at `raw_offset` in the stream,
    /// waiting until the pool has enough. Also returns the time spent waiting.
    pub fn allocate(
        pool: &Pool,
        raw_offset: u64,
        capacity: usize,
    ) -> Result<(Self, Duration), PoolClosed> {
        let (block, waited) = pool.allocate(Self::footprint(capacity))?;
        Ok((Self::within(block, raw_offset, capacity), waited))
    }

    fn within(mut block: Block, raw_offset: u64, capacity: usize) -> Self {
        let congruence = usize::try_from(raw_offset % PAGE_BYTES as u64).unwrap_or(0);
        let headroom = block.split_to(CARRY_BYTES_MAX + congruence);
        block.truncate(capacity);
        Self { raw_offset, headroom, body: block, filled: 0 }
    }

    /// Returns the offset of the segment in the decoded stream.
    pub fn raw_offset(&self) -> u64 {
        self.raw_offset
    }

    /// Returns the number of bytes decoded so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the number of bytes that can still be decoded into the segment.
    pub fn spare(&self) -> usize {
        self.body.len() - self.filled
    }

    /// Returns the part that is still to be filled.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.body[self.filled..]
    }

    /// Returns all of it: the decoded bytes, which serve as the window of a decoder, then the spare
    /// part.
    pub fn window_mut(&mut self) -> &mut [u8] {
        &mut self.body
    }

    /// Marks the first `count` bytes of the spare part as decoded.
    ///
    /// # Panics
    /// If the spare part has fewer than `count` bytes.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.spare(), "advanced past the segment's end");
        self.filled += count;
    }

    /// Ends filling: the decoded bytes become shareable.
    pub fn seal(mut self) -> Segment {
        self.body.truncate(self.filled);
        Segment { raw_offset: self.raw_offset, headroom: self.headroom, body: self.body.freeze() }
    }
}

/// A part of the decoded stream, ready for the tar walk and for writing.
#[derive(Debug)]
pub struct Segment {
    raw_offset: u64,
    headroom: Block,
    body: Slice,
}

impl Segment {
    /// Returns the offset of the segment in the decoded stream.
    pub fn raw_offset(&self) -> u64 {
        self.raw_offset
    }

    /// Returns the number of decoded bytes.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Returns whether nothing was decoded into the segment.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Returns the decoded bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// Returns a counted reference to the decoded bytes. It serves as the window of a decoder that
    /// continues in another segment.
    pub fn share(&self) -> Slice {
        self.body.clone()
    }

    /// Copies `carry`, the end of the previous segment, directly in front of the decoded bytes and
    /// ends exclusive access to the headroom.
    ///
    /// # Panics
    /// If `carry` is longer than [`CARRY_BYTES_MAX`].
    pub fn prepend(mut self, carry: &[u8]) -> SegmentView {
        assert!(carry.len() <= CARRY_BYTES_MAX, "a carry of {} bytes", carry.len());
        let unused = self.headroom.len() - carry.len();
        drop(self.headroom.split_to(unused));
        self.headroom.copy_from_slice(carry);
        let whole = self.headroom.freeze().join(self.body);
        let whole = whole.unwrap_or_else(|_| unreachable!("headroom and body are adjacent"));
        SegmentView { front: carry.len(), whole }
    }
}

/// A segment with its carry in front. Writes are slices of it.
#[derive(Clone, Debug)]
pub struct SegmentView {
    front: usize,
    whole: Slice,
}

impl SegmentView {
    /// Returns the decoded bytes, without the carry.
    pub fn bytes(&self) -> &[u8] {
        &self.whole[self.front..]
    }

    /// Returns a counted reference to `range` of the decoded bytes, extended to the front by the
    /// last `carried` bytes of the carry.
    ///
    /// # Panics
    /// If the range lies outside the segment and its carry.
    pub fn slice(&self, carried: usize, range: Range<usize>) -> Slice {
        self.whole.slice(self.front + range.start - carried..self.front + range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;

    fn pool(bytes: usize) -> Pool {
        Arena::builder().bytes(bytes).populate(false).build().unwrap().pool(bytes).unwrap()
    }

    #[test]
    fn addresses_are_congruent_to_stream_offsets() {
        let pool = pool(1 << 20);
        for raw_offset in [0, 1, 511, 512, 4095, 4096, 5000, 123_456_789_012] {
            let (mut open, _) = OpenSegment::allocate(&pool, raw_offset, 3000).unwrap();
            assert_eq!(open.spare_mut().len(), 3000);
            let address = open.spare_mut().as_ptr().addr() as u64;
            assert_eq!(address % 4096, raw_offset % 4096);
        }
    }

    #[test]
    fn a_carry_and_the_decoded_bytes_make_one_contiguous_span() {
        let pool = pool(1 << 20);
        let (mut open, _) = OpenSegment::allocate(&pool, 4096 * 5 + 700, 1000).unwrap();
        open.spare_mut()[..900].fill(2);
        open.advance(900);
        assert_eq!(open.spare_mut().len(), 100);
        assert_eq!((open.window_mut().len(), open.window_mut()[899]), (1000, 2));
        let segment = open.seal();
        assert_eq!((segment.len(), segment.bytes()[899]), (900, 2));
        let view = segment.prepend(&[1; 700]);
        let write = view.slice(700, 0..900);
        assert_eq!(write.as_ptr().addr() % 4096, 0);
        assert_eq!((write[699], write[700], write.len()), (1, 2, 1600));
    }

    #[test]
    fn the_largest_carry_fits_at_every_congruence() {
        let pool = pool(1 << 20);
        for raw_offset in 0..PAGE_BYTES as u64 {
            let (open, _) = OpenSegment::allocate(&pool, raw_offset, 10).unwrap();
            let _ = open.seal().prepend(&[0; CARRY_BYTES_MAX]);
        }
    }

    #[test]
    fn the_footprint_is_enough_at_every_congruence() {
        for capacity in [1, 511, 4095, 4096, 4097] {
            let pool = pool(OpenSegment::footprint(capacity));
            for raw_offset in [0, 1, 4095] {
                let (open, _) = OpenSegment::allocate(&pool, raw_offset, capacity).unwrap();
                assert_eq!(open.body.len(), capacity);
            }
        }
    }
}
