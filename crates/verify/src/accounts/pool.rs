//! Work queue between the streams and the worker threads, bounded in bytes.
//!
//! There are two kinds of work. A storage with unscanned pieces is followed, record by record, by
//! one worker at a time. That worker cuts the records into batches, which any worker hashes. So
//! storages are processed in parallel, and so are the accounts of a single large storage. Batches
//! come first, because they free memory.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{AccountsError, progress::Scan};

/// Extra charge per piece or storage, so that many small ones are bounded too. Larger than the
/// bookkeeping for each of them.
const CHARGE_BYTES: u64 = 512;

/// Smallest bound: one storage per stream and one piece must always fit.
const BYTES_MIN: u64 = 64 << 10;

/// Bytes in memory, counted against a bound.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    state: Mutex<(u64, bool)>,
    room: Condvar,
}

/// Bytes that count against the budget until this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Arc<Self> {
        let (state, room) = (Mutex::new((0, false)), Condvar::new());
        Arc::new(Self { bytes_max: bytes_max.max(BYTES_MIN), state, room })
    }

    /// Waits until `bytes` fit. Returns `None` if the check has ended. A size above half the bound
    /// counts as half of it; otherwise it might wait forever.
    pub(super) fn charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let bytes = bytes.saturating_add(CHARGE_BYTES).min(self.bytes_max / 2);
        let mut state = lock(&self.state);
        while !state.1 && state.0 + bytes > self.bytes_max {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.1 {
            return None;
        }
        state.0 += bytes;
        Some(Charge { budget: Arc::clone(self), bytes })
    }

    fn close(&self) {
        lock(&self.state).1 = true;
        self.room.notify_all();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        lock(&self.budget.state).0 -= self.bytes;
        self.budget.room.notify_all();
    }
}

/// Bytes of a storage.
#[derive(Debug)]
pub(super) struct Piece<B> {
    pub(super) bytes: B,
    pub(super) _charge: Charge,
}

/// Whole records of a piece.
#[derive(Debug)]
pub(super) struct Batch<B> {
    pub(super) storage: u32,
    pub(super) piece: Arc<Piece<B>>,
    /// Offset of the piece in the storage.
    pub(super) base: u64,
    /// Range of the records within the piece.
    pub(super) range: Range<usize>,
}

/// A storage that is passing by.
#[derive(Debug)]
pub(super) struct Storage<B> {
    pub(super) number: u32,
    pub(super) state: Mutex<StorageState<B>>,
    pub(super) _charge: Charge,
}

#[derive(Debug)]
pub(super) struct StorageState<B> {
    /// Pieces that have arrived but were not scanned.
    pub(super) pieces: VecDeque<Arc<Piece<B>>>,
    /// No more pieces will arrive.
    pub(super) ended: bool,
    /// `None` while a worker holds it, and once the storage is done.
    pub(super) scan: Option<Box<Scan>>,
    /// Whether the storage waits for a worker or a worker holds it.
    pub(super) scheduled: bool,
}

/// One unit of work.
#[derive(Debug)]
pub(super) enum Work<B> {
    Hash(Batch<B>),
    Scan(Arc<Storage<B>>),
}

/// All outstanding work.
#[derive(Debug)]
pub(super) struct Queue<B> {
    pub(super) budget: Arc<Budget>,
    state: Mutex<QueueState<B>>,
    changed: Condvar,
}

#[derive(Debug)]
struct QueueState<B> {
    batches: VecDeque<Batch<B>>,
    storages: VecDeque<Arc<Storage<B>>>,
    /// Workers that follow a storage and may still produce batches.
    scanning: usize,
    /// Storages that have begun and are not done.
    open: usize,
    /// No more work will arrive.
    closed: bool,
    failure: Option<AccountsError>,
}

impl<B> Queue<B> {
    pub(super) fn new(bytes_max: u64) -> Self {
        let state = QueueState {
            batches: VecDeque::new(),
            storages: VecDeque::new(),
            scanning: 0,
            open: 0,
            closed: false,
            failure: None,
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Self { budget: Budget::new(bytes_max), state, changed }
    }

    /// Begins a storage.
    pub(super) fn open(&self) {
        lock(&self.state).open += 1;
    }

    /// Changes a storage and schedules it for a worker.
    pub(super) fn schedule(
        &self,
        storage: &Arc<Storage<B>>,
        change: impl FnOnce(&mut StorageState<B>),
    ) {
        let mut state = lock(&storage.state);
        change(&mut state);
        if !std::mem::replace(&mut state.scheduled, true) {
            drop(state);
            lock(&self.state).storages.push_back(Arc::clone(storage));
            self.changed.notify_one();
        }
    }

    pub(super) fn push(&self, batch: Batch<B>) {
        lock(&self.state).batches.push_back(batch);
        self.changed.notify_one();
    }

    /// Waits for work. Returns `None` if none is left and none will arrive, or if the check has
    /// failed.
    pub(super) fn next(&self) -> Option<Work<B>> {
        let mut state = lock(&self.state);
        loop {
            if state.failure.is_some() {
                return None;
            }
            if let Some(batch) = state.batches.pop_front() {
                return Some(Work::Hash(batch));
            }
            if let Some(storage) = state.storages.pop_front() {
                state.scanning += 1;
                return Some(Work::Scan(storage));
            }
            if state.closed && state.scanning == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Records that a worker released a storage, which is `done` or has no more pieces for now.
    pub(super) fn scanned(&self, done: bool) {
        let mut state = lock(&self.state);
        state.scanning -= 1;
        state.open -= usize::from(done);
        if state.closed && state.scanning == 0 {
            self.changed.notify_all();
        }
    }

    /// Closes the queue: workers finish the remaining work and end.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Ends the check and releases all waiting work. Only the first failure is kept.
    pub(super) fn fail(&self, failure: AccountsError) {
        let mut state = lock(&self.state);
        state.failure.get_or_insert(failure);
        let waiting = (std::mem::take(&mut state.batches), std::mem::take(&mut state.storages));
        drop(state);
        drop(waiting);
        self.budget.close();
        self.changed.notify_all();
    }

    /// Returns the first failure.
    pub(super) fn failure(&self) -> Option<AccountsError> {
        lock(&self.state).failure.clone()
    }

    /// Returns the number of storages that have begun and are not done.
    pub(super) fn open_storages(&self) -> usize {
        lock(&self.state).open
    }
}

/// Locks a mutex even if it is poisoned: no panic leaves this state inconsistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
