//! Pools: bounded parts of the arena that lend blocks and take them back.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{Block, PAGE_BYTES, map::Mapping};

/// The pool was closed while a caller waited for memory: the run is being aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory pool was closed")]
pub struct PoolClosed;

/// A bounded part of an [`Arena`](crate::Arena) that lends page-aligned [`Block`]s of any size.
///
/// A clone is another handle on the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    mapping: Arc<Mapping>,
    /// Offset of the pool in the reservation.
    start: usize,
    bytes: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Free ranges: offset in the pool → length. No two are adjacent.
    free: BTreeMap<usize, usize>,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(mapping: Arc<Mapping>, start: usize, bytes: usize) -> Self {
        let free = if bytes == 0 { BTreeMap::new() } else { BTreeMap::from([(0, bytes)]) };
        let state = Mutex::new(State { free, closed: false });
        Self { shared: Arc::new(Shared { mapping, start, bytes, state, freed: Condvar::new() }) }
    }

    /// Returns the size of the pool in bytes, lent or not.
    pub fn bytes(&self) -> usize {
        self.shared.bytes
    }

    /// Lends `bytes`, rounded up to whole pages, at least one. Returns `None` if no free range is
    /// long enough at the moment or the pool is closed.
    ///
    /// The block's bytes are initialised but arbitrary: zeros, or data of an earlier borrower.
    pub fn try_allocate(&self, bytes: usize) -> Option<Block> {
        self.shared.lock().take(bytes).map(|range| self.lend(range))
    }

    /// Lends `bytes`, waiting until other borrowers have returned enough. Also returns the time
    /// spent waiting. A request for more than [`Pool::bytes`] can never be satisfied and fails like
    /// one to a closed pool.
    pub fn allocate(&self, bytes: usize) -> Result<(Block, Duration), PoolClosed> {
        let mut state = self.shared.lock();
        let mut waiting_since = None;
        loop {
            if state.closed || bytes > self.shared.bytes {
                return Err(PoolClosed);
            }
            if let Some(range) = state.take(bytes) {
                let waited = waiting_since.map_or(Duration::ZERO, |since: Instant| since.elapsed());
                return Ok((self.lend(range), waited));
            }
            waiting_since.get_or_insert_with(Instant::now);
            state = self.shared.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends all waiting, now and later: from here on [`Pool::allocate`] returns [`PoolClosed`].
    /// Blocks already lent stay valid.
    pub fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.freed.notify_all();
    }

    /// Returns whether [`Pool::close`] was called, for borrowers that wait for something else.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    fn lend(&self, (offset, bytes): (usize, usize)) -> Block {
        let start = self.shared.mapping.at(self.shared.start + offset);
        Block::new(Lease { pool: Arc::clone(&self.shared), offset, bytes }, start, bytes)
    }
}

impl State {
    /// Takes a range by first fit. Low addresses are reused first, so a run that needs little
    /// memory touches little.
    fn take(&mut self, bytes: usize) -> Option<(usize, usize)> {
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
    fn lock(&self) -> MutexGuard<'_, State> {
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::Arena;

    fn pool(bytes: usize) -> Pool {
        Arena::builder().bytes(bytes).populate(false).build().unwrap().pool(bytes).unwrap()
    }

    #[test]
    fn adjacent_free_ranges_are_merged() {
        let pool = pool(16 * PAGE_BYTES);
        let blocks: Vec<_> = (0..16).map(|_| pool.try_allocate(1).unwrap()).collect();
        assert!(pool.try_allocate(1).is_none());
        // This order returns blocks with free neighbours on neither, one and both sides.
        let mut blocks: Vec<_> = blocks.into_iter().map(Some).collect();
        for index in [3, 5, 4, 0, 15, 1, 2, 14, 7, 6, 8, 13, 12, 9, 11, 10] {
            blocks[index] = None;
        }
        assert_eq!(pool.try_allocate(16 * PAGE_BYTES).unwrap().len(), 16 * PAGE_BYTES);
    }

    #[test]
    fn waiting_ends_when_memory_returns() {
        let pool = pool(4 * PAGE_BYTES);
        let held = pool.try_allocate(3 * PAGE_BYTES).unwrap();
        let waiter = {
            let pool = pool.clone();
            thread::spawn(move || pool.allocate(2 * PAGE_BYTES).map(|(block, _)| block.len()))
        };
        thread::sleep(Duration::from_millis(20));
        drop(held);
        assert_eq!(waiter.join().unwrap(), Ok(2 * PAGE_BYTES));
    }

    #[test]
    fn waiting_ends_when_the_pool_closes() {
        let pool = pool(PAGE_BYTES);
        let _held = pool.try_allocate(1).unwrap();
        let waiter = {
            let pool = pool.clone();
            thread::spawn(move || pool.allocate(1).map(drop))
        };
        pool.close();
        assert_eq!(waiter.join().unwrap(), Err(PoolClosed));
        assert!(pool.try_allocate(1).is_none());
    }

    #[test]
    fn a_request_larger_than_the_pool_fails_at_once() {
        assert_eq!(pool(PAGE_BYTES).allocate(PAGE_BYTES + 1).map(drop), Err(PoolClosed));
    }
}
