//! Statistics of a creator.

use std::time::Duration;

use unsnap_ring::WorkerTimes;

/// Running and waiting times of a creator, and properties of its engine.
#[derive(Clone, Debug, Default)]
pub struct CreatorTimes {
    /// Time from its start to its end.
    pub total: Duration,
    /// Time spent waiting for payloads, with nothing in flight.
    pub waited_for_input: Duration,
    /// Time spent waiting for operations in flight.
    pub waited_for_io: Duration,
    /// Time for which the rate limit delayed writes.
    pub held_back: Duration,
    /// Time for which a pause delayed work.
    pub paused: Duration,
    /// Name of its engine.
    pub engine: &'static str,
    /// Whether its engine had registered buffers.
    pub registered_buffers: bool,
    /// Whether its engine's ring was restricted to the operations of engines; `None` if it has no
    /// ring.
    pub ring_restricted: Option<bool>,
    /// Running times of the engine's worker threads.
    pub workers: Vec<WorkerTimes>,
}
