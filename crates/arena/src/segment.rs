//! Segments: parts of the decoded stream at addresses that direct I/O can write from.
//!
//! ```text
//! lent block:  | headroom (for the carry)   | decoded bytes ............ | slack |
//!              ^ page                       ^ address ≡ raw_offset (mod 512)
//! ```
//!
//! * The address of every byte is congruent to its offset in the decoded stream modulo 512. Tar places
//!   payloads at multiples of 512 in the stream, so they are 512-aligned in memory, which is all that
//!   `O_DIRECT` requires on ordinary devices.
//! * The headroom takes the end of the previous segment that was less than a whole file block, the
//!   *carry*, so that every write is one contiguous span (see [`Segment::prepend`]).
//! * The slack is for a segment whose offset in the stream is known only after it has been filled: its
//!   bytes are moved towards the slack if their addresses turn out not to be congruent.

use std::{ops::Range, time::Duration};

use crate::{Block, PAGE_BYTES, Pool, PoolClosed, Slice};

/// Maximum length of a carry in bytes. Less than one file block is ever left over.
pub const CARRY_BYTES_MAX: usize = PAGE_BYTES;

/// Addresses are congruent to offsets modulo this.
const ALIGNMENT_BYTES: usize = 512;

/// Room for the carry plus the padding that makes addresses congruent, in bytes.
const HEADROOM_BYTES: usize = CARRY_BYTES_MAX + ALIGNMENT_BYTES;

/// A segment that a decoder is filling.
#[derive(Debug)]
pub struct OpenSegment {
    raw_offset: u64,
    headroom: Block,
    body: Block,
    capacity: usize,
    filled: usize,
}

impl OpenSegment {
    /// Returns the most pool bytes that a segment of `capacity` decoded bytes can occupy.
    pub fn footprint(capacity: usize) -> usize {
        (HEADROOM_BYTES + capacity + ALIGNMENT_BYTES).next_multiple_of(PAGE_BYTES)
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

    /// Borrows memory like [`allocate`](Self::allocate), unless the pool has too little at the moment.
    pub fn try_allocate(pool: &Pool, raw_offset: u64, capacity: usize) -> Option<Self> {
        let block = pool.try_allocate(Self::footprint(capacity))?;
        Some(Self::within(block, raw_offset, capacity))
    }

    fn within(mut block: Block, raw_offset: u64, capacity: usize) -> Self {
        let headroom = block.split_to(CARRY_BYTES_MAX + beyond_alignment(raw_offset));
        block.truncate(capacity + ALIGNMENT_BYTES);
        Self { raw_offset, headroom, body: block, capacity, filled: 0 }
    }

    /// Returns the offset of the segment in the decoded stream.
    pub fn raw_offset(&self) -> u64 {
        self.raw_offset
    }

    /// Returns the number of bytes decoded so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the bytes decoded so far.
    pub fn decoded(&self) -> &[u8] {
        &self.body[..self.filled]
    }

    /// Gives the segment another offset in the decoded stream. If addresses are not congruent to it,
    /// the decoded bytes are moved by less than 512 bytes. Nothing can be decoded afterwards.
    pub fn place(&mut self, raw_offset: u64) {
        let (now, then) = (beyond_alignment(self.raw_offset), beyond_alignment(raw_offset));
        let shift = (ALIGNMENT_BYTES + then - now) % ALIGNMENT_BYTES;
        self.raw_offset = raw_offset;
        self.capacity = self.filled;
        if shift > 0 {
            self.body.copy_within(..self.filled, shift);
            let passed = self.body.split_to(shift);
            self.headroom.append(passed);
        }
    }

    /// Returns the number of bytes that can still be decoded into the segment.
    pub fn spare(&self) -> usize {
        self.capacity - self.filled
    }

    /// Returns the part that is still to be filled.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.body[self.filled..self.capacity]
    }

    /// Returns all of it: the decoded bytes, which serve as the window of a decoder, then the spare
    /// part.
    pub fn window_mut(&mut self) -> &mut [u8] {
        &mut self.body[..self.capacity]
    }

    /// Marks the first `count` bytes of the spare part as decoded.
    ///
    /// # Panics
    /// If the spare part has fewer than `count` bytes.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.capacity - self.filled, "advanced past the segment's end");
        self.filled += count;
    }

    /// Ends filling: the decoded bytes become shareable.
    pub fn seal(mut self) -> Segment {
        self.body.truncate(self.filled);
        Segment {
            raw_offset: self.raw_offset,
            len: self.filled,
            headroom: self.headroom,
            body: self.body.freeze(),
        }
    }
}

/// A part of the decoded stream, ready for the tar walk and for writing.
#[derive(Debug)]
pub struct Segment {
    raw_offset: u64,
    len: usize,
    headroom: Block,
    body: Slice,
}

impl Segment {
    /// Makes a segment of bytes that are in memory already, at `raw_offset` in the decoded stream,
    /// with the block in front of them as its headroom. Returns the bytes if that is impossible:
    /// their addresses are not congruent, or the block is too short or elsewhere.
    pub fn adopt(raw_offset: u64, headroom: Block, body: Slice) -> Result<Self, Slice> {
        let congruent = body.as_ptr().addr() % ALIGNMENT_BYTES == beyond_alignment(raw_offset);
        if !congruent || headroom.len() < CARRY_BYTES_MAX || !headroom.is_in_front_of(&body) {
            return Err(body);
        }
        Ok(Self { raw_offset, len: body.len(), headroom, body })
    }

    /// Returns the offset of the segment in the decoded stream.
    pub fn raw_offset(&self) -> u64 {
        self.raw_offset
    }

    /// Returns the number of decoded bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nothing was decoded into the segment.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the decoded bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.body[..self.len]
    }

    /// Returns a counted reference to the decoded bytes. It serves as the window of a decoder that
    /// continues in another segment.
    pub fn share(&self) -> Slice {
        self.body.slice(..self.len)
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
        SegmentView { front: carry.len(), len: self.len, whole }
    }
}

/// A segment with its carry in front. Writes are slices of it.
#[derive(Clone, Debug)]
pub struct SegmentView {
    front: usize,
    len: usize,
    whole: Slice,
}

impl SegmentView {
    /// Returns the decoded bytes, without the carry.
    pub fn bytes(&self) -> &[u8] {
        &self.whole[self.front..self.front + self.len]
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

/// Returns how far an offset is beyond a multiple of the alignment.
fn beyond_alignment(raw_offset: u64) -> usize {
    usize::try_from(raw_offset % ALIGNMENT_BYTES as u64).unwrap_or(0)
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
            assert_eq!(address % 512, raw_offset % 512);
        }
    }

    #[test]
    fn a_segment_can_be_placed_anywhere_after_it_was_filled() {
        let pool = pool(1 << 20);
        for opened_at in [0, 1, 511, 512, 5000] {
            for placed_at in [0, 1, 100, 511, 512, 4096, 5000, 123_456_789_012_345] {
                let mut open = OpenSegment::try_allocate(&pool, opened_at, 1000).unwrap();
                let expected: Vec<u8> = (0..250).cycle().take(1000).collect();
                open.spare_mut().copy_from_slice(&expected);
                open.advance(1000);
                open.place(placed_at);
                assert_eq!((open.raw_offset(), open.spare()), (placed_at, 0));
                assert_eq!(open.decoded(), expected);
                let segment = open.seal();
                assert_eq!(segment.bytes().as_ptr().addr() as u64 % 512, placed_at % 512);
                let view = segment.prepend(&[9; CARRY_BYTES_MAX]);
                let write = view.slice(CARRY_BYTES_MAX, 0..1000);
                assert_eq!(write[..CARRY_BYTES_MAX], [9; CARRY_BYTES_MAX]);
                assert_eq!(write[CARRY_BYTES_MAX..], expected);
            }
        }
        assert!(pool.try_allocate(1 << 20).is_some(), "memory is still lent");
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
        assert_eq!(write.as_ptr().addr() % 512, 0);
        assert_eq!((write[699], write[700], write.len()), (1, 2, 1600));
    }

    #[test]
    fn bytes_in_memory_become_a_segment_if_they_suit() {
        let pool = pool(1 << 20);
        let parts = |headroom: usize| {
            let mut body = pool.try_allocate(headroom + 1000).unwrap();
            let front = body.split_to(headroom);
            body[..1000].fill(5);
            (front, body.freeze().slice(..1000))
        };
        for raw_offset in [0, 512, 5 * 4096] {
            let (front, body) = parts(4096);
            let segment = Segment::adopt(raw_offset, front, body).unwrap();
            assert_eq!((segment.raw_offset(), segment.bytes()), (raw_offset, &[5; 1000][..]));
            let view = segment.prepend(&[1; 700]);
            assert_eq!(view.slice(700, 0..10)[..], [&[1; 700][..], &[5; 10]].concat());
        }
        let (front, body) = parts(4096);
        assert_eq!(Segment::adopt(100, front, body).unwrap_err().len(), 1000, "not congruent");
        let (front, body) = parts(3584);
        assert!(Segment::adopt(0, front, body).is_err(), "too short");
        let (_, body) = parts(4096);
        let (front, _) = parts(4096);
        assert!(Segment::adopt(0, front, body).is_err(), "elsewhere");
        let (front, body) = parts(4096);
        assert!(Segment::adopt(0, front, body.slice(512..)).is_err(), "a gap");
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
                assert_eq!(open.body.len(), capacity + ALIGNMENT_BYTES);
            }
        }
    }
}
