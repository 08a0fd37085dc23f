//! Rate limit and pause of a run, controlled from outside while the run is under way.

use std::{
    num::NonZeroU64,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::Waker;

/// Bit that is set in [`Shared::word`] while paused. The other bits are the rate in bytes per
/// second, 0 for no limit.
const PAUSED: u64 = 1 << 63;

/// Rate limit and pause of a run. Cheap to clone; all clones share one state. Changes take effect
/// at once, also for runs that are under way.
///
/// * The *rate* is the number of bytes written to one destination device per second, by all writers
///   that share a bucket for it. The archive is read at the same pace, since reading ahead is
///   bounded by memory ([`set_rate`](Self::set_rate)).
/// * A *pause* stops all reading and writing as soon as the operations in flight have completed.
///   Everything else stays as it is.
///
/// Without a limit and a pause it costs one atomic load per operation.
#[derive(Clone, Default)]
pub struct Pace {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Rate and pause bit, readable without the lock.
    word: AtomicU64,
    inner: Mutex<Inner>,
    /// Signalled when the word has changed or waiters must check their conditions again.
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    paused_since: Option<Instant>,
    /// Total time of past pauses.
    paused: Duration,
    /// Wakers of the engines that must learn of changes, by subscription.
    wakers: Vec<(u64, Waker)>,
    next_subscription: u64,
}

impl Pace {
    /// Creates a pace without a limit, not paused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the bytes written to each device per second; `None` removes the limit.
    ///
    /// The limit counts whole file blocks at the time when they are handed to the kernel. Blocks in
    /// the page cache reach the disk at write-back, which lags by at most half a second's worth of
    /// bytes while a limit is set. Bytes that file systems write for themselves, such as metadata,
    /// do not count.
    ///
    /// A run never reads ahead of its writes by more than its memory budget.
    pub fn set_rate(&self, bytes_per_second: Option<NonZeroU64>) {
        let rate = bytes_per_second.map_or(0, |rate| rate.get().min(PAUSED - 1));
        self.change(|word, _| (word & PAUSED) | rate);
    }

    /// Returns the current limit in bytes per second.
    pub fn rate(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.word() & !PAUSED)
    }

    /// Stops all users from beginning operations until [`resume`](Self::resume). Has no effect
    /// while paused already.
    pub fn pause(&self) {
        self.change(|word, inner| {
            inner.paused_since.get_or_insert_with(Instant::now);
            word | PAUSED
        });
    }

    /// Ends the pause.
    pub fn resume(&self) {
        self.change(|word, inner| {
            if let Some(since) = inner.paused_since.take() {
                inner.paused += since.elapsed();
            }
            word & !PAUSED
        });
    }

    /// Returns whether the run is paused.
    pub fn is_paused(&self) -> bool {
        self.word() & PAUSED != 0
    }

    /// Returns the total time of all pauses, including the current one.
    pub fn paused_for(&self) -> Duration {
        let inner = self.inner();
        inner.paused + inner.paused_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Sleeps until the pause ends or `given_up` returns true. `given_up` is checked again at each
    /// [`rouse`](Self::rouse).
    pub fn wait_while_paused(&self, given_up: impl Fn() -> bool) {
        if self.is_paused() {
            let must_wait = |inner: &mut Inner| inner.paused_since.is_some() && !given_up();
            drop(self.shared.changed.wait_while(self.inner(), must_wait));
        }
    }

    /// Like [`wait_while_paused`](Self::wait_while_paused), but sleeps for at most `at_most`.
    pub fn wait_while_paused_for(&self, at_most: Duration, given_up: impl Fn() -> bool) {
        let must_wait = |inner: &mut Inner| inner.paused_since.is_some() && !given_up();
        drop(self.shared.changed.wait_timeout_while(self.inner(), at_most, must_wait));
    }

    /// Sleeps until a pause begins or `given_up` returns true.
    pub fn wait_until_paused(&self, given_up: impl Fn() -> bool) {
        let must_wait = |inner: &mut Inner| inner.paused_since.is_none() && !given_up();
        drop(self.shared.changed.wait_while(self.inner(), must_wait));
    }

    /// Makes all waiters check again whether they should give up.
    pub fn rouse(&self) {
        // With the lock taken once, no waiter is between its check and its sleep.
        drop(self.inner());
        self.shared.changed.notify_all();
    }

    /// Uses `waker` at every change, until the returned subscription is dropped.
    pub fn wake_on_change(&self, waker: Waker) -> Subscription {
        let mut inner = self.inner();
        let number = inner.next_subscription;
        inner.next_subscription += 1;
        inner.wakers.push((number, waker));
        Subscription { pace: self.clone(), number }
    }

    /// Returns rate and pause bit; 0 if there is neither a limit nor a pause.
    fn word(&self) -> u64 {
        self.shared.word.load(Ordering::Acquire)
    }

    /// Returns the rate that applies now: 0 without a limit, [`None`] while paused.
    pub(crate) fn limit(&self) -> Option<u64> {
        let word = self.word();
        (word & PAUSED == 0).then_some(word)
    }

    fn change(&self, change: impl FnOnce(u64, &mut Inner) -> u64) {
        let mut inner = self.inner();
        let word = change(self.word(), &mut inner);
        self.shared.word.store(word, Ordering::Release);
        self.shared.changed.notify_all();
        for (_, waker) in &inner.wakers {
            waker.wake();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Pace")
            .field("rate", &self.rate())
            .field("paused", &self.is_paused())
            .finish()
    }
}

/// Subscription to the changes of a [`Pace`], which ends when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    pace: Pace,
    number: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.pace.inner().wakers.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn pauses_add_up_and_end() {
        let pace = Pace::new();
        assert_eq!(pace.paused_for(), Duration::ZERO);
        pace.wait_while_paused(|| panic!("not paused"));
        pace.pause();
        pace.pause();
        // Given up, and then resumed.
        pace.wait_while_paused(|| true);
        let waiting = pace.clone();
        let thread = thread::spawn(move || waiting.wait_while_paused(|| false));
        pace.rouse();
        while pace.paused_for() < Duration::from_millis(20) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!thread.is_finished());
        pace.resume();
        thread.join().unwrap();
        let paused = pace.paused_for();
        assert!(paused >= Duration::from_millis(20));
        thread::sleep(Duration::from_millis(5));
        assert_eq!(pace.paused_for(), paused);
    }

    #[test]
    fn changes_use_the_waker_until_the_subscription_is_dropped() {
        let woken = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&woken);
        let pace = Pace::new();
        let waker = Waker(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let subscription = pace.wake_on_change(waker);
        pace.pause();
        pace.resume();
        pace.set_rate(None);
        assert_eq!(woken.load(Ordering::Relaxed), 3);
        drop(subscription);
        pace.pause();
        assert_eq!(woken.load(Ordering::Relaxed), 3);
    }
}
