//! Statistics of a creator.

use std::time::Duration;

use unsnap_ring::WorkerTimes;

/// Kind of a creator's files, by their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileKind {
    /// Those that are written directly where that is possible.
    #[default]
    Large,
    /// Those that always go through the page cache.
    Small,
}

impl FileKind {
    /// Returns the word used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Small => "small",
        }
    }
}

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
    /// Device of its files (`st_dev`).
    pub device: u64,
    /// Kind of its files.
    pub files: FileKind,
    /// Number of threads that may block in the kernel: the one that has proved best on the device,
    /// or was fixed.
    pub chosen_workers: usize,
    /// Most operations in flight with it.
    pub chosen_in_flight: usize,
    /// How often another number proved better.
    pub choices: u64,
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
