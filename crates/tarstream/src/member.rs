//! Events and members that the walker reports.

use std::fmt;

/// The outcome of one call to [`Walker::step`](crate::Walker::step).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'w> {
    /// Bytes of the input that were used up. The caller continues after them. At least 1, unless
    /// the input was empty.
    pub consumed: usize,
    /// The meaning of those bytes.
    pub event: Event<'w>,
}

/// The meaning of a prefix of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'w> {
    /// Part of a header, an extension, padding or the trailing zeros: nothing to report.
    Skipped,
    /// The header of a member is complete; [`Member::size`] payload bytes follow.
    Member(Member<'w>),
    /// The consumed bytes are exactly payload of the current member.
    ///
    /// A member of size 0 has no such event.
    Payload {
        /// Whether these bytes complete the member's payload.
        last: bool,
    },
    /// The second zero block has been read. Only zeros are accepted from here on.
    End,
}

/// One entry of the archive, with its extensions applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'w> {
    /// The kind of file it describes.
    pub kind: MemberKind,
    /// Its path as stored: raw bytes, never empty, without NUL, otherwise unchecked. Display it
    /// only through [`printable`](crate::printable).
    pub path: &'w [u8],
    /// The target of a link, as raw bytes. Empty for members that are not links.
    pub link: &'w [u8],
    /// Payload bytes that follow in the stream, at most `i64::MAX`. For [`MemberKind::Sparse`] this
    /// is the stored size, not the length of the expanded file.
    pub size: u64,
    /// Offset in the stream of the member's first block: of its first extension header, if it has
    /// any.
    pub header_offset: u64,
    /// Offset in the stream of the payload's first byte. A multiple of 512.
    pub payload_offset: u64,
    /// The mode field of the header, if it holds a number. Empty in genuine account entries.
    pub mode: Option<u32>,
    /// The mtime field of the header, in seconds since 1970, if it holds a non-negative number. PAX
    /// times are ignored.
    pub mtime: Option<u64>,
}

/// The kind of file that a member describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberKind {
    /// A regular file, or the historical "contiguous" file.
    Regular,
    /// A directory, or an old regular header whose path ends in a slash.
    Directory,
    /// A second name for a file that is already in the archive.
    HardLink,
    /// A symbolic link.
    SymbolicLink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A file stored without its holes, in the old GNU form or any PAX form. Its payload may begin
    /// with the map of the holes. The walker neither expands it nor honours `GNU.sparse.name`.
    Sparse,
    /// A typeflag without a meaning to the walker, among them GNU volume labels, multi-volume parts
    /// and directory dumps.
    Other(u8),
}

impl MemberKind {
    /// Returns whether members of this kind consist of a header without content.
    pub(crate) fn is_header_only(self) -> bool {
        match self {
            Self::Directory
            | Self::HardLink
            | Self::SymbolicLink
            | Self::CharDevice
            | Self::BlockDevice
            | Self::Fifo => true,
            Self::Regular | Self::Sparse | Self::Other(_) => false,
        }
    }
}

impl fmt::Display for MemberKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "regular file",
            Self::Directory => "directory",
            Self::HardLink => "hard link",
            Self::SymbolicLink => "symbolic link",
            Self::CharDevice => "character device",
            Self::BlockDevice => "block device",
            Self::Fifo => "named pipe",
            Self::Sparse => "sparse file",
            Self::Other(flag) => return write!(f, "member of type '{}'", flag.escape_ascii()),
        })
    }
}
