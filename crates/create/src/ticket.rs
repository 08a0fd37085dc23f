//! Bookkeeping for operations in flight and open files.

use std::{os::fd::OwnedFd, sync::Arc};

use unsnap_arena::Slice;
use unsnap_ring::{DirectIo, RelativePath};

use crate::{request::FileId, shared::in_blocks};

/// Identifies the file of an operation in flight.
pub(crate) struct Ticket {
    pub destination: usize,
    pub file: FileId,
    pub path: RelativePath,
    pub about: About,
}

/// Kind of operation, which decides what follows its completion.
pub(crate) enum About {
    /// `cached_bytes` of the file's `bytes` go through the page cache.
    Whole {
        bytes: u64,
        cached_bytes: u64,
    },
    Begin,
    Part {
        bytes: u64,
        cached: bool,
    },
    /// `bytes` is the size of the file, of which `tail_bytes` go through the page cache now.
    End {
        bytes: u64,
        tail_bytes: u64,
    },
}

impl About {
    /// Returns the bytes that a rate limit counts.
    pub fn bytes_on_disk(&self) -> u64 {
        match self {
            Self::Whole { bytes, .. } => in_blocks(*bytes),
            Self::Part { bytes, .. } => *bytes,
            Self::End { tail_bytes, .. } => in_blocks(*tail_bytes),
            Self::Begin => 0,
        }
    }
}

/// A file of several writes.
pub(crate) struct OpenFile {
    pub destination: usize,
    pub path: RelativePath,
    pub direct: Option<DirectIo>,
    /// `None` until the open has completed.
    pub file: Option<Arc<OwnedFd>>,
    /// Parts that arrived before the open completed.
    pub waiting: Vec<(u64, Slice)>,
    pub writes_in_flight: usize,
    pub bytes: u64,
    /// Set once all parts have arrived.
    pub end: Option<Ending>,
}

/// End of a file, all parts of which have arrived.
pub(crate) struct Ending {
    /// What direct I/O could not write, and its offset.
    pub tail: Option<(u64, Slice)>,
}
