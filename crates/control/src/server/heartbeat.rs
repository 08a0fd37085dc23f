//! Heartbeat of the event loop.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Progress of the event loop, for a watchdog. Reading it does not wake the loop.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat {
    /// Even while the loop sleeps in the kernel, odd while it is working. Only grows.
    beats: Arc<AtomicU64>,
}

impl Heartbeat {
    /// Returns a counter that changes whenever the loop goes to sleep or wakes up.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Acquire)
    }

    /// Returns whether the loop was provably idle when [`beats`](Self::beats) returned this number:
    /// asleep in the kernel, which wakes it when there is something to do.
    pub fn idle_at(beats: u64) -> bool {
        beats.is_multiple_of(2)
    }

    pub(super) fn sleeps(&self) {
        self.step(0);
    }

    pub(super) fn works(&self) {
        self.step(1);
    }

    /// Advances to the next number with this remainder modulo 2. Only the loop calls this.
    fn step(&self, remainder: u64) {
        let beats = self.beats.load(Ordering::Relaxed);
        let step = if beats % 2 == remainder { 2 } else { 1 };
        self.beats.store(beats + step, Ordering::Release);
    }
}
