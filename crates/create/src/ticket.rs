//! What operations in flight are about.

use std::{os::fd::OwnedFd, sync::Arc};

use unsnap_arena::Slice;
use unsnap_ring::{DirectIo, RelativePath};

use crate::{request::FileId, shared::in_blocks};

/// What an operation in flight is about.
pub(crate) struct Ticket {
    pub destination: usize,
    pub path: RelativePath,
    pub about: About,
}

/// What follows when it has completed.
pub(crate) enum About {
    Whole { bytes: u64, cached: bool },
    Begin { id: FileId },
    Part { id: FileId, bytes: u64, cached: bool },
    End { bytes: u64 },
}

impl About {
    /// What a limit counts.
    pub fn bytes_on_disk(&self) -> u64 {
        match self {
            Self::Whole { bytes, .. } => in_blocks(*bytes),
            Self::Part { bytes, .. } => *bytes,
            Self::Begin { .. } | Self::End { .. } => 0,
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
    /// Parts that came before the open had completed.
    pub waiting: Vec<(u64, Slice)>,
    pub writes_in_flight: usize,
    pub bytes: u64,
    /// Set once all parts have been handed over.
    pub end: Option<Ending>,
}

/// That all parts of a file have been handed over.
pub(crate) struct Ending {
    /// The exact size, where writes were rounded up.
    pub len: Option<u64>,
}
