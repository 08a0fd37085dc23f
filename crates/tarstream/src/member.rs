//! What the walker reports.

use std::fmt;

/// The outcome of one call to [`Walker::step`](crate::Walker::step).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'w> {
    /// Bytes of the input that were used up: the caller goes on behind them. At least 1, unless the
    /// input was empty.
    pub consumed: usize,
    /// What those bytes were.
    pub event: Event<'w>,
}

/// What a prefix of the input was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'w> {
    /// Part of a header, an extension, padding or the trailing zeros: nothing to report.
    Skipped,
    /// The header of a member is complete; [`Member::size`] payload bytes follow.
    Member(Member<'w>),
    /// The consumed bytes, all of them and nothing else, are payload of the current member.
    ///
    /// A member of size 0 has no such event.
    Payload {
        /// The member's payload is complete with these bytes.
        last: bool,
    },
    /// The second zero block has been read; only zeros are accepted from here on.
    End,
}

/// One entry of the archive, extensions applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'w> {
    /// What kind of file it stands for.
    pub kind: MemberKind,
    /// Its path as stored: raw bytes, never empty, without NUL, not checked for anything else. Show
    /// it only through [`printable`](crate::printable).
    pub path: &'w [u8],
    /// The target of a link, raw bytes; empty for what is not a link.
    pub link: &'w [u8],
    /// Payload bytes that follow in the stream; at most `i64::MAX`. For [`MemberKind::Sparse`] this
    /// is what is stored, not the length of the file it stands for.
    pub size: u64,
    /// Offset in the stream of the member's first block: of its first extension header where it has
    /// any.
    pub header_offset: u64,
    /// Offset in the stream of the payload's first byte; a multiple of 512.
    pub payload_offset: u64,
    /// The mode field of the header, where it holds a number. Empty in genuine account entries.
    pub mode: Option<u32>,
    /// The mtime field of the header in seconds since 1970, where it holds a number that is not
    /// negative. PAX times are not consulted.
    pub mtime: Option<u64>,
}

/// The kind of file a member stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberKind {
    /// A regular file; also the historical "contiguous" file.
    Regular,
    /// A directory; also an old regular header whose path ends in a slash.
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
    /// A file stored without its holes, in the old GNU or any PAX form. Its payload may begin with
    /// the map of the holes; the walker does not expand it, nor does it honour `GNU.sparse.name`.
    Sparse,
    /// A typeflag the walker has no meaning for, among them GNU's volume labels, multi-volume parts
    /// and directory dumps.
    Other(u8),
}

impl MemberKind {
    /// Kinds that describe an object which has no content of its own.
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
