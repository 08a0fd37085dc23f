//! Handles on lent memory: exclusive [`Block`]s, shared [`Slice`]s.
//!
//! The invariant that every `unsafe` block here rests on: at any time each byte of a lease
//! belongs either to exactly one `Block`, or to any number of `Slice`s. It is kept by moving:
//! `split_to` divides a range in two, `freeze` turns a block into a slice, and there is no way
//! back. All handles share the lease, whose last drop returns the whole range to the pool.

use std::{
    ops::{Bound, Deref, DerefMut, RangeBounds},
    ptr::NonNull,
    slice,
    sync::Arc,
};

use crate::pool::Lease;

/// Exclusive access to a range of lent memory.
#[derive(Debug)]
pub struct Block {
    lease: Arc<Lease>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a block is the only handle on its bytes (module invariant); which thread uses them
// does not matter.
unsafe impl Send for Block {}
// SAFETY: `&Block` only gives `&[u8]`.
unsafe impl Sync for Block {}

impl Block {
    pub(crate) fn new(lease: Lease, start: NonNull<u8>, len: usize) -> Self {
        Self { lease: Arc::new(lease), start, len }
    }

    /// Takes the first `count` bytes off as a block of their own; `self` keeps the rest.
    ///
    /// # Panics
    /// If the block has fewer bytes.
    #[must_use]
    pub fn split_to(&mut self, count: usize) -> Self {
        assert!(count <= self.len, "split at {count} of a block of {} bytes", self.len);
        let front = Self { lease: Arc::clone(&self.lease), start: self.start, len: count };
        // SAFETY: count <= len, so the new start lies inside or one past the end of the range.
        self.start = unsafe { self.start.add(count) };
        self.len -= count;
        front
    }

    /// Keeps the first `count` bytes and gives up access to the rest (which returns to the pool
    /// with the whole lease).
    pub fn truncate(&mut self, count: usize) {
        self.len = self.len.min(count);
    }

    /// Ends exclusive access: from here on the bytes can be read by many and written by nobody.
    pub fn freeze(self) -> Slice {
        Slice { lease: self.lease, start: self.start, len: self.len }
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is initialised memory of a lease we share; only `&mut self` methods
        // of this one handle write to it.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` on the only handle makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

/// Shared read access to a range of lent memory; clones count as references to the lease.
#[derive(Clone, Debug)]
pub struct Slice {
    lease: Arc<Lease>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody can write to the bytes of a slice (module invariant), so they may be read from
// any thread.
unsafe impl Send for Slice {}
// SAFETY: as above.
unsafe impl Sync for Slice {}

impl Slice {
    /// A part of this slice.
    ///
    /// # Panics
    /// If the range does not lie within the slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let from = match range.start_bound() {
            Bound::Included(&from) => from,
            Bound::Excluded(&from) => from + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&to) => to + 1,
            Bound::Excluded(&to) => to,
            Bound::Unbounded => self.len,
        };
        assert!(from <= to && to <= self.len, "{from}..{to} of a slice of {} bytes", self.len);
        // SAFETY: from <= len, so the new start lies inside or one past the end of the range.
        let start = unsafe { self.start.add(from) };
        Self { lease: Arc::clone(&self.lease), start, len: to - from }
    }

    /// Two slices of one lease, the second beginning where the first ends, as one. Gives the
    /// pair back if they are not neighbours.
    pub fn join(self, next: Self) -> Result<Self, (Self, Self)> {
        let neighbours = Arc::ptr_eq(&self.lease, &next.lease)
            && self.start.addr().get() + self.len == next.start.addr().get();
        if !neighbours {
            return Err((self, next));
        }
        Ok(Self { lease: self.lease, start: self.start, len: self.len + next.len })
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is initialised memory of a lease we share, and nobody writes to it.
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
        assert!(pool.try_allocate(1).is_none(), "ten bytes are still referred to");
        drop(part);
        assert!(pool.try_allocate(1).is_some());
    }

    #[test]
    fn neighbours_join_and_strangers_do_not() {
        let pool = pool(2 * PAGE_BYTES);
        let mut second = pool.try_allocate(PAGE_BYTES).unwrap();
        second.copy_from_slice(&[7; PAGE_BYTES]);
        let mut first = second.split_to(1000);
        first[999] = 1;
        let stranger = pool.try_allocate(1).unwrap().freeze();
        let (first, second) = (first.freeze(), second.freeze());
        let whole = first.clone().join(second.clone()).unwrap();
        assert_eq!((whole.len(), whole[999], whole[1000]), (PAGE_BYTES, 1, 7));
        assert!(second.clone().join(first.clone()).is_err(), "wrong order");
        assert!(first.join(stranger).is_err());
    }

    #[test]
    #[should_panic(expected = "of a slice of 10 bytes")]
    fn a_part_outside_is_a_bug() {
        let mut block = pool(PAGE_BYTES).try_allocate(1).unwrap();
        block.truncate(10);
        let _ = block.freeze().slice(5..11);
    }
}
