//! Handles on lent memory: exclusive [`Block`]s and shared [`Slice`]s.
//!
//! Every `unsafe` block here rests on one invariant: at any time each byte of a lease belongs
//! either to exactly one `Block` or to any number of `Slice`s. Move semantics keep it: `split_to`
//! divides a range in two, `append` joins two, `freeze` turns a block into a slice, and there is no way back. All
//! handles share the lease, which keeps the memory mapped; dropping the last one returns the whole
//! range to the pool. `Pool::lend` makes the first block of a lease, of exactly its range, and the
//! pool's free list lends no byte twice. The memory is initialised from the start: the kernel fills
//! an anonymous mapping with zeros.

use std::{
    ops::{Bound, Deref, DerefMut, RangeBounds},
    ptr::NonNull,
    slice,
    sync::Arc,
};

use crate::lease::Lease;

/// Exclusive access to a range of lent memory.
#[derive(Debug)]
pub struct Block {
    lease: Arc<Lease>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a block is the only handle on its bytes (module invariant), and the bytes are not tied to
// a thread.
unsafe impl Send for Block {}
// SAFETY: `&Block` only gives out `&[u8]`, and the bytes are written only through `&mut Block`.
unsafe impl Sync for Block {}

impl Block {
    pub(crate) fn new(lease: Lease, start: NonNull<u8>, len: usize) -> Self {
        Self { lease: Arc::new(lease), start, len }
    }

    /// Splits off the first `count` bytes as a separate block; `self` keeps the rest.
    ///
    /// # Panics
    /// If the block has fewer than `count` bytes.
    #[must_use]
    pub fn split_to(&mut self, count: usize) -> Self {
        assert!(count <= self.len, "split at {count} of a block of {} bytes", self.len);
        let front = Self { lease: Arc::clone(&self.lease), start: self.start, len: count };
        // SAFETY: by the assertion, the new start lies inside or one past the end of the range.
        self.start = unsafe { self.start.add(count) };
        self.len -= count;
        front
    }

    /// Keeps the first `count` bytes and gives up access to the rest, which returns to the pool
    /// with the whole lease.
    pub fn truncate(&mut self, count: usize) {
        self.len = self.len.min(count);
    }

    /// Takes in the block that begins where this one ends.
    ///
    /// # Panics
    /// If `next` does not begin there, or belongs to another lease.
    pub fn append(&mut self, next: Self) {
        let Self { lease, start, len } = next;
        let adjacent = Arc::ptr_eq(&self.lease, &lease)
            && self.start.addr().get() + self.len == start.addr().get();
        assert!(adjacent, "the blocks are not adjacent");
        self.len += len;
    }

    /// Returns whether `next` begins where this block ends, in the same lease.
    pub fn is_in_front_of(&self, next: &Slice) -> bool {
        Arc::ptr_eq(&self.lease, &next.lease)
            && self.start.addr().get() + self.len == next.start.addr().get()
    }

    /// Ends exclusive access: from here on the bytes can be shared for reading, and nobody can
    /// write to them.
    pub fn freeze(self) -> Slice {
        Slice { lease: self.lease, start: self.start, len: self.len }
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is initialised memory of a lease that this handle keeps; it is the only
        // handle on the range (module invariant), and writes only with `&mut self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` on the only handle makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Shared read access to a range of lent memory. Each clone counts as a reference to the lease.
#[derive(Clone, Debug)]
pub struct Slice {
    lease: Arc<Lease>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody can write to the bytes of a slice (module invariant), so any thread may read them.
unsafe impl Send for Slice {}
// SAFETY: as above; `&Slice` only gives out `&[u8]`.
unsafe impl Sync for Slice {}

impl Slice {
    /// Returns a part of this slice.
    ///
    /// # Panics
    /// If the range does not lie within the slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let from = match range.start_bound() {
            Bound::Included(&from) => from,
            Bound::Excluded(&from) => from.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&to) => to.saturating_add(1),
            Bound::Excluded(&to) => to,
            Bound::Unbounded => self.len,
        };
        assert!(from <= to && to <= self.len, "{from}..{to} of a slice of {} bytes", self.len);
        // SAFETY: by the assertion, the new start lies inside or one past the end of the range.
        let start = unsafe { self.start.add(from) };
        Self { lease: Arc::clone(&self.lease), start, len: to - from }
    }

    /// Joins two adjacent slices of one lease, of which `next` begins where `self` ends. Returns
    /// the pair unchanged if they are not adjacent.
    pub fn join(self, next: Self) -> Result<Self, (Self, Self)> {
        let adjacent = Arc::ptr_eq(&self.lease, &next.lease)
            && self.start.addr().get() + self.len == next.start.addr().get();
        if !adjacent {
            return Err((self, next));
        }
        Ok(Self { lease: self.lease, start: self.start, len: self.len + next.len })
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is initialised memory of a lease that this handle keeps, and nobody
        // writes to it (module invariant).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arena, PAGE_BYTES, Pool};

    fn pool(bytes: usize) -> Pool {
        Arena::builder().bytes(bytes).populate(false).build().unwrap().pool(bytes).unwrap()
    }

    #[test]
    fn memory_returns_with_the_last_handle_on_any_part() {
        let pool = pool(PAGE_BYTES);
        let mut tail = pool.try_allocate(PAGE_BYTES).unwrap();
        let head = tail.split_to(100);
        let head = head.freeze();
        let part = head.slice(10..20);
        drop(head);
        drop(tail);
        assert!(pool.try_allocate(1).is_none(), "ten bytes are still referenced");
        drop(part);
        assert!(pool.try_allocate(1).is_some());
    }

    #[test]
    fn adjacent_slices_join_and_others_do_not() {
        let pool = pool(2 * PAGE_BYTES);
        let mut second = pool.try_allocate(PAGE_BYTES).unwrap();
        second.copy_from_slice(&[7; PAGE_BYTES]);
        let mut first = second.split_to(1000);
        first[999] = 1;
        let other_lease = pool.try_allocate(1).unwrap().freeze();
        let (first, second) = (first.freeze(), second.freeze());
        let whole = first.clone().join(second.clone()).unwrap();
        assert_eq!((whole.len(), whole[999], whole[1000]), (PAGE_BYTES, 1, 7));
        assert!(second.clone().join(first.clone()).is_err(), "wrong order");
        assert!(first.join(other_lease).is_err());
    }

    #[test]
    fn adjacent_blocks_join() {
        let mut second = pool(PAGE_BYTES).try_allocate(PAGE_BYTES).unwrap();
        let mut first = second.split_to(1000);
        second[0] = 7;
        first.append(second);
        assert_eq!((first.len(), first[1000]), (PAGE_BYTES, 7));
    }

    #[test]
    #[should_panic(expected = "not adjacent")]
    fn other_blocks_do_not_join() {
        let mut second = pool(PAGE_BYTES).try_allocate(PAGE_BYTES).unwrap();
        let first = second.split_to(1000);
        second.append(first);
    }

    #[test]
    #[should_panic(expected = "of a slice of 10 bytes")]
    fn slicing_past_the_end_panics() {
        let mut block = pool(PAGE_BYTES).try_allocate(1).unwrap();
        block.truncate(10);
        let _ = block.freeze().slice(5..11);
    }
}
