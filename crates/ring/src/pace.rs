//! How fast operations may be begun, and whether any may: set from outside, while a run goes on.

use std::{
    num::NonZeroU64,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::Waker;

/// Set in [`Shared::word`] while paused; the other bits are bytes per second, 0 for no limit.
const PAUSED: u64 = 1 << 63;

/// How fast a run may write, and whether it may do anything at all. Cheap to clone; all clones are
/// one. What is changed holds at once, for runs that are under way too.
///
/// * The *rate* is in bytes that are written to one destination device in a second, by all that
///   share the handle's bucket for it. How fast the archive is read follows from it: nobody
///   reads further ahead than there is memory for ([`set_rate`](Self::set_rate)).
/// * A *pause* ends all reading and writing as soon as what is in flight has completed, and keeps
///   everything as it is.
///
/// Without limit and pause it costs one atomic load for each operation.
#[derive(Clone, Default)]
pub struct Pace {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// What holds now, for who only wants to know whether anything does.
    word: AtomicU64,
    inner: Mutex<Inner>,
    /// The word has changed, or somebody is to look around.
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    paused_since: Option<Instant>,
    /// Time of pauses that are over.
    paused: Duration,
    /// Who sleeps in an engine and wants to know of changes.
    wakers: Vec<(u64, Waker)>,
    next_subscription: u64,
}

impl Pace {
    /// No limit, no pause.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the bytes that are written to each device in a second; `None` for no limit.
    ///
    /// What counts are whole blocks of files, when they are handed to the kernel: of files that go
    /// through the page cache the disk sees them when they are written back, at most half a second's
    /// worth later as long as there is a limit. What file systems add of their own is not counted.
    ///
    /// A run reads ahead of what it writes by no more than its memory budget.
    pub fn set_rate(&self, bytes_per_second: Option<NonZeroU64>) {
        let rate = bytes_per_second.map_or(0, |rate| rate.get().min(PAUSED - 1));
        self.change(|word, _| (word & PAUSED) | rate);
    }

    /// The limit in force, in bytes per second.
    pub fn rate(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.word() & !PAUSED)
    }

    /// Has everybody begin nothing more until [`resume`](Self::resume). Without effect on who is
    /// paused already.
    pub fn pause(&self) {
        self.change(|word, inner| {
            inner.paused_since.get_or_insert_with(Instant::now);
            word | PAUSED
        });
    }

    /// Has everybody go on.
    pub fn resume(&self) {
        self.change(|word, inner| {
            if let Some(since) = inner.paused_since.take() {
                inner.paused += since.elapsed();
            }
            word & !PAUSED
        });
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.word() & PAUSED != 0
    }

    /// How long it has been paused since it was made, this pause included.
    pub fn paused_for(&self) -> Duration {
        let inner = self.inner();
        inner.paused + inner.paused_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Sleeps while it is paused and not `given_up`, which is looked at again with each
    /// [`rouse`](Self::rouse).
    pub fn wait_while_paused(&self, given_up: impl Fn() -> bool) {
        if self.is_paused() {
            let goes_on = |inner: &mut Inner| inner.paused_since.is_some() && !given_up();
            drop(self.shared.changed.wait_while(self.inner(), goes_on));
        }
    }

    /// The same, but for at most so long.
    pub fn wait_while_paused_for(&self, at_most: Duration, given_up: impl Fn() -> bool) {
        let goes_on = |inner: &mut Inner| inner.paused_since.is_some() && !given_up();
        drop(self.shared.changed.wait_timeout_while(self.inner(), at_most, goes_on));
    }

    /// Sleeps until it is paused, or has been `given_up`.
    pub fn wait_until_paused(&self, given_up: impl Fn() -> bool) {
        let goes_on = |inner: &mut Inner| inner.paused_since.is_none() && !given_up();
        drop(self.shared.changed.wait_while(self.inner(), goes_on));
    }

    /// Has whoever waits for the end of a pause look whether that is still wanted.
    pub fn rouse(&self) {
        // Taken, so that nobody is between looking and sleeping.
        drop(self.inner());
        self.shared.changed.notify_all();
    }

    /// Has `waker` used whenever something changes, until the result is dropped.
    pub fn wake_on_change(&self, waker: Waker) -> Subscription {
        let mut inner = self.inner();
        let number = inner.next_subscription;
        inner.next_subscription += 1;
        inner.wakers.push((number, waker));
        Subscription { pace: self.clone(), number }
    }

    /// Pauses and limits in one word: 0 if there is neither.
    fn word(&self) -> u64 {
        self.shared.word.load(Ordering::Acquire)
    }

    /// What may be begun now: 0 if anything, [`None`] if nothing, and a rate otherwise.
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

/// While it lives, changes of a [`Pace`] wake somebody.
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
        pace.wait_while_paused(|| panic!("nobody is paused"));
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
    fn changes_wake_who_wants_to_know_for_as_long_as_they_do() {
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
