//! Pools: bounded parts of the arena that lend blocks and take them back.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use crate::{block::Block, lease::Shared, mapping::Mapping};

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

impl Pool {
    pub(crate) fn new(mapping: Arc<Mapping>, start: usize, bytes: usize) -> Self {
        Self { shared: Arc::new(Shared::new(mapping, start, bytes)) }
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

    fn lend(&self, range: (usize, usize)) -> Block {
        let (lease, start) = self.shared.lease(range);
        Block::new(lease, start, range.1)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Arena, PAGE_BYTES};

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
