//! Commands to creators.

use unsnap_arena::Slice;
use unsnap_ring::NewFile;

/// Identity of a file, unique in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Index of its stream: of its assembler, in the order in which they were created.
    pub stream: usize,
    /// Its number in that stream. Numbers rise.
    pub number: u64,
}

/// A command to a creator. The commands for a file come in this order, and all commands for one
/// file of a stream before those for the next.
pub(crate) enum Command {
    /// Create a file with this content.
    Whole { new: NewFile, data: Slice },
    /// Create a file of several writes.
    Begin { new: NewFile },
    /// Write a part of the file.
    Part { offset: u64, data: Slice },
    /// Finish the file after all its parts. `tail` is the end of a direct file that does not fill a
    /// block, and its offset.
    End { tail: Option<(u64, Slice)> },
}

/// A command for a file, and the index of its destination.
pub(crate) struct Request {
    pub destination: usize,
    pub file: FileId,
    pub command: Command,
}
