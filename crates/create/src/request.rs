//! What a creator is asked to do.

use unsnap_arena::Slice;
use unsnap_ring::NewFile;

/// Names a file of several writes.
pub(crate) type FileId = u64;

/// What a creator is asked to do. The commands for a file come in this order, and those of one
/// file before those of the next.
pub(crate) enum Command {
    /// A file of one write. `len`: its exact size, where `data` was rounded up.
    Whole { new: NewFile, data: Slice, len: Option<u64> },
    /// Open a file of several writes.
    Begin { id: FileId, new: NewFile },
    /// Write a part of it.
    Part { id: FileId, offset: u64, data: Slice },
    /// All parts have been handed over. `len`: as above.
    End { id: FileId, len: Option<u64> },
}

/// A command, and the index of the destination it is for.
pub(crate) struct Request {
    pub destination: usize,
    pub command: Command,
}
