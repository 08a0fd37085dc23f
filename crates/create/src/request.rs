//! Commands to creators.

use unsnap_arena::Slice;
use unsnap_ring::NewFile;

/// Identifier of a file of several writes.
pub(crate) type FileId = u64;

/// A command to a creator. The commands for a file come in this order, and all commands for one
/// file of a stream before those for the next.
pub(crate) enum Command {
    /// Create a file with one write. `len` is its exact size, if `data` was rounded up.
    Whole { new: NewFile, data: Slice, len: Option<u64> },
    /// Create a file of several writes.
    Begin { id: FileId, new: NewFile },
    /// Write a part of the file.
    Part { id: FileId, offset: u64, data: Slice },
    /// Finish the file after all its parts. `len` as above.
    End { id: FileId, len: Option<u64> },
}

/// A command and the index of its destination.
pub(crate) struct Request {
    pub destination: usize,
    pub command: Command,
}
