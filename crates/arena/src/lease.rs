//! Free ranges of a pool, and leases on the others.

use std::{
    collections::BTreeMap,
    ptr::NonNull,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::{PAGE_BYTES, mapping::Mapping};

/// A pool's part of the reservation, shared by its handles and its leases.
#[derive(Debug)]
pub(crate) struct Shared {
    mapping: Arc<Mapping>,
    /// Offset of the pool in the reservation.
    start: usize,
    pub bytes: usize,
    state: Mutex<State>,
    /// Notified when a range returns and when the pool closes.
    pub freed: Condvar,
}

/// The ranges of a pool that are not lent.
#[derive(Debug)]
pub(crate) struct State {
    /// Free ranges: offset in the pool → length. No two are adjacent.
    free: BTreeMap<usize, usize>,
    pub closed: bool,
}

impl State {
    /// Takes a range by first fit. Low addresses are reused first, so a run that needs little
    /// memory touches little.
    pub fn take(&mut self, bytes: usize) -> Option<(usize, usize)> {
        if self.closed {
            return None;
        }
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES)?;
        let (&offset, &length) = self.free.iter().find(|&(_, &length)| length >= bytes)?;
        self.free.remove(&offset);
        if length > bytes {
            self.free.insert(offset + bytes, length - bytes);
        }
        Some((offset, bytes))
    }
}

impl Shared {
    pub fn new(mapping: Arc<Mapping>, start: usize, bytes: usize) -> Self {
        let free = if bytes == 0 { BTreeMap::new() } else { BTreeMap::from([(0, bytes)]) };
        let state = Mutex::new(State { free, closed: false });
        Self { mapping, start, bytes, state, freed: Condvar::new() }
    }

    /// Returns the lease on a range that [`State::take`] returned, and the address of the range.
    pub fn lease(self: &Arc<Self>, (offset, bytes): (usize, usize)) -> (Lease, NonNull<u8>) {
        let start = self.mapping.at(self.start + offset, bytes);
        (Lease { pool: Arc::clone(self), offset, bytes }, start)
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while holding the lock; if some ever did, the free list would still be
        // consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, mut offset: usize, mut bytes: usize) {
        let mut state = self.lock();
        if let Some(after) = state.free.remove(&(offset + bytes)) {
            bytes += after;
        }
        if let Some((&before, &length)) = state.free.range(..offset).next_back()
            && before + length == offset
        {
            state.free.remove(&before);
            offset = before;
            bytes += length;
        }
        state.free.insert(offset, bytes);
        drop(state);
        self.freed.notify_all();
    }
}

/// A lent range. Dropped with the last handle on any part of it, which returns it to the pool.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Shared>,
    offset: usize,
    bytes: usize,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(self.offset, self.bytes);
    }
}
