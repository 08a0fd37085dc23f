//! Work done ahead by several threads, delivered in order, within a memory budget.

use std::{
    collections::BTreeMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

/// Jobs in order, each with its memory cost, and results that wait for their turn.
///
/// A job starts only if the memory of all running jobs and all waiting results stays within the
/// budget. The next job in order always starts if nothing else is in flight. Jobs start in order,
/// so a caller that waits for a result waits only for jobs that are running or next.
pub(crate) struct Ahead<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    costs: Vec<u64>,
    budget: u64,
}

struct State<T> {
    begun: usize,
    taken: usize,
    in_flight: u64,
    ready: BTreeMap<usize, T>,
    stopped: bool,
}

impl<T> Ahead<T> {
    pub fn new(costs: Vec<u64>, budget: u64) -> Self {
        let state =
            State { begun: 0, taken: 0, in_flight: 0, ready: BTreeMap::new(), stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), costs, budget }
    }

    /// Starts the next job and returns its index, or `None` when none is left.
    pub fn begin(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            let job = state.begun;
            let cost = *self.costs.get(job)?;
            if state.stopped {
                return None;
            }
            if state.in_flight == 0 || state.in_flight.saturating_add(cost) <= self.budget {
                state.begun += 1;
                state.in_flight += cost;
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stores the result of a job that was started.
    pub fn put(&self, job: usize, result: T) {
        self.lock().ready.insert(job, result);
        self.changed.notify_all();
    }

    /// Returns the next result in order, or `None` when none is left or the work was stopped. Its
    /// memory counts until [`release`](Self::release).
    pub fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            let job = state.taken;
            if job >= self.costs.len() || state.stopped {
                return None;
            }
            if let Some(result) = state.ready.remove(&job) {
                state.taken += 1;
                return Some(result);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Releases the memory of the result that was taken last.
    pub fn release(&self) {
        let mut state = self.lock();
        let cost = state.taken.checked_sub(1).and_then(|job| self.costs.get(job)).copied();
        state.in_flight = state.in_flight.saturating_sub(cost.unwrap_or(0));
        drop(state);
        self.changed.notify_all();
    }

    /// Stops everything: no more jobs, no more results.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops the work when it is dropped, also by a panic, so that no thread waits forever.
pub(crate) struct StopAtEnd<'a, T>(pub &'a Ahead<T>);

impl<T> Drop for StopAtEnd<'_, T> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_budget_is_kept() {
        let ahead: Ahead<usize> = Ahead::new(vec![40, 40, 40, 500, 10], 100);
        assert_eq!((ahead.begin(), ahead.begin()), (Some(0), Some(1)));
        ahead.put(1, 11);
        ahead.put(0, 10);
        assert_eq!((ahead.take(), ahead.take()), (Some(10), Some(11)));
        assert_eq!(ahead.lock().in_flight, 80);
        ahead.release();
        assert_eq!(ahead.begin(), Some(2));
        ahead.put(2, 12);
        ahead.take();
        ahead.release();
        // More than the budget, but nothing else is in flight once the rest is released.
        ahead.lock().in_flight = 0;
        assert_eq!(ahead.begin(), Some(3));
        ahead.stop();
        assert_eq!((ahead.begin(), ahead.take()), (None, None));
    }

    #[test]
    fn many_threads_give_what_one_would() {
        let costs: Vec<u64> = (0..500).map(|n| n % 7).collect();
        let ahead: Ahead<usize> = Ahead::new(costs, 12);
        let results = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(job) = ahead.begin() {
                        ahead.put(job, job * 2);
                    }
                });
            }
            let mut results = Vec::new();
            while let Some(result) = ahead.take() {
                results.push(result);
                ahead.release();
            }
            results
        });
        assert_eq!(results, (0..500).map(|n| n * 2).collect::<Vec<_>>());
    }
}
