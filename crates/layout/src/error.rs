//! Errors of an archive's list of entries.

use thiserror::Error;
use unsnap_tarstream::MemberKind;

/// The reason why an archive is refused.
///
/// `offset` is the position of the entry's header in the decoded stream. `entry` is its path,
/// escaped by [`printable`](unsnap_tarstream::printable).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// An entry that no snapshot contains.
    #[error("{kind} {entry} at byte {offset} does not belong in a snapshot archive")]
    UnexpectedEntry {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Kind of the entry.
        kind: MemberKind,
    },
    /// A link, device or sparse file, or a directory in place of a file.
    #[error("{entry} at byte {offset} is a {found}, but only a {expected} is accepted there")]
    WrongKind {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Kind of the entry.
        found: MemberKind,
        /// The kinds allowed under this name.
        expected: &'static str,
    },
    /// A slot or storage number with leading zeros, which would be a second name for the same file.
    #[error("{entry} at byte {offset} has a number with leading zeros in its name")]
    LeadingZeros {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
    },
    /// A slot or storage number beyond its range.
    #[error("{entry} at byte {offset} has the number {found} in its name, limit is {limit}")]
    NumberTooLarge {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// The digits.
        found: String,
        /// The largest number allowed.
        limit: u64,
    },
    /// A path that must not be created.
    #[error("path {entry} at byte {offset} is refused: {problem}")]
    UnsafePath {
        /// Offset of the entry's header.
        offset: u64,
        /// The path.
        entry: String,
        /// The defect of the path.
        problem: PathProblem,
    },
    /// A path that occurs twice.
    #[error("{entry} occurs twice in the archive, the second time at byte {offset}")]
    Duplicate {
        /// Offset of the second entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
    },
    /// Two storages of one slot.
    #[error(
        "{entry} at byte {offset} is the second storage of slot {slot}; \
         a validator refuses such a snapshot when it loads it"
    )]
    DuplicateSlot {
        /// Offset of the second storage's header.
        offset: u64,
        /// Path of the second storage.
        entry: String,
        /// The slot.
        slot: u64,
    },
    /// A path that is a file in one entry and a directory in another.
    #[error("{entry} at byte {offset}: the archive uses one path as both a file and a directory")]
    FileAndDirectory {
        /// Offset of the later entry's header.
        offset: u64,
        /// Path of the later entry: the path in question, or one below it.
        entry: String,
    },
    /// A file that must not be empty.
    #[error("{entry} at byte {offset} is empty")]
    EmptyFile {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
    },
    /// A file that exceeds its limit.
    #[error("{entry} at byte {offset} has {found} bytes, limit is {limit}")]
    FileTooLarge {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Its size.
        found: u64,
        /// The limit of this file.
        limit: u64,
    },
    /// More entries than the limit.
    #[error("{entry} at byte {offset} is one entry too many, limit is {limit}")]
    TooManyEntries {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// [`Limits::entries_max`](crate::Limits::entries_max).
        limit: u64,
    },
    /// Total size of all files beyond the limit.
    #[error("with {entry} at byte {offset} the files add up to {found} bytes, limit is {limit}")]
    TotalTooLarge {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// The total including this entry.
        found: u64,
        /// The limit of the total.
        limit: u64,
    },
    /// A bank whose slot differs from the archive's name or from the other bank entry.
    #[error(
        "{entry} at byte {offset} belongs to slot {found}, but the snapshot is of slot {expected}"
    )]
    WrongSlot {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Slot in its name.
        found: u64,
        /// Slot of the snapshot.
        expected: u64,
    },
    /// A storage newer than the snapshot.
    #[error(
        "{entry} at byte {offset}: the archive has a storage of slot {found}, \
         but the snapshot is of slot {limit}"
    )]
    StorageTooNew {
        /// Offset of the header of the entry that revealed it: the storage, or a bank entry after
        /// it.
        offset: u64,
        /// Path of that entry.
        entry: String,
        /// Slot of the storage.
        found: u64,
        /// Slot of the snapshot.
        limit: u64,
    },
    /// A storage in an incremental snapshot that belongs to its base.
    #[error(
        "{entry} at byte {offset} belongs to slot {found}, \
         which the full snapshot of slot {base_slot} already covers"
    )]
    StorageTooOld {
        /// Offset of the storage's header.
        offset: u64,
        /// Path of the storage.
        entry: String,
        /// Slot of the storage.
        found: u64,
        /// Slot of the full snapshot.
        base_slot: u64,
    },
    /// The archive ended without a file that every snapshot has.
    #[error("archive has no {entry}")]
    MissingEntry {
        /// The missing file.
        entry: &'static str,
    },
    /// An unknown snapshot format.
    #[error("snapshot version is \"{found}\", but only {VERSION} is supported")]
    UnknownVersion {
        /// Content of the `version` file, escaped for display.
        found: String,
    },
}

impl LayoutError {
    /// Returns the offset of the refused entry in the decoded stream, or `None` if the error does
    /// not concern one entry.
    pub fn raw_offset(&self) -> Option<u64> {
        match self {
            Self::UnexpectedEntry { offset, .. }
            | Self::WrongKind { offset, .. }
            | Self::LeadingZeros { offset, .. }
            | Self::NumberTooLarge { offset, .. }
            | Self::UnsafePath { offset, .. }
            | Self::Duplicate { offset, .. }
            | Self::DuplicateSlot { offset, .. }
            | Self::FileAndDirectory { offset, .. }
            | Self::EmptyFile { offset, .. }
            | Self::FileTooLarge { offset, .. }
            | Self::TooManyEntries { offset, .. }
            | Self::TotalTooLarge { offset, .. }
            | Self::WrongSlot { offset, .. }
            | Self::StorageTooNew { offset, .. }
            | Self::StorageTooOld { offset, .. } => Some(*offset),
            Self::MissingEntry { .. } | Self::UnknownVersion { .. } => None,
        }
    }

    /// Returns the path of the refused or missing entry, escaped for display.
    pub fn entry(&self) -> Option<&str> {
        match self {
            Self::UnexpectedEntry { entry, .. }
            | Self::WrongKind { entry, .. }
            | Self::LeadingZeros { entry, .. }
            | Self::NumberTooLarge { entry, .. }
            | Self::UnsafePath { entry, .. }
            | Self::Duplicate { entry, .. }
            | Self::DuplicateSlot { entry, .. }
            | Self::FileAndDirectory { entry, .. }
            | Self::EmptyFile { entry, .. }
            | Self::FileTooLarge { entry, .. }
            | Self::TooManyEntries { entry, .. }
            | Self::TotalTooLarge { entry, .. }
            | Self::WrongSlot { entry, .. }
            | Self::StorageTooNew { entry, .. }
            | Self::StorageTooOld { entry, .. } => Some(entry),
            Self::MissingEntry { entry } => Some(entry),
            Self::UnknownVersion { .. } => Some("version"),
        }
    }
}

/// The reason why a path must not be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// Bytes that are not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// A C0, DEL or C1 character.
    #[error("it contains the control character U+{character:04X}")]
    Control {
        /// The code point.
        character: u32,
    },
    /// A character that changes the direction of the text around it.
    #[error("it contains the bidirectional control U+{character:04X}")]
    Bidirectional {
        /// The code point.
        character: u32,
    },
    /// The path starts at the root of the file system.
    #[error("it is absolute")]
    Absolute,
    /// A component `..`.
    #[error("it has a component \"..\"")]
    Upwards,
    /// Two slashes in a row.
    #[error("it has an empty component")]
    EmptyComponent,
    /// A component `.` anywhere but at the start.
    #[error("it has a component \".\"")]
    DotComponent,
    /// A file with a slash after its name.
    #[error("it ends in a slash but is not a directory")]
    TrailingSlash,
    /// The first component has a name that unsnap uses for its own files while it unpacks.
    #[error("names that begin with .unsnap- are reserved for unsnap's own files")]
    Reserved,
    /// The path exceeds the limit on paths.
    #[error("it has {found} bytes, limit is {limit}")]
    TooLong {
        /// Length in bytes.
        found: usize,
        /// [`Limits::path_bytes_max`](crate::Limits::path_bytes_max).
        limit: usize,
    },
    /// A component exceeds the limit on file names.
    #[error("a component has {found} bytes, limit is {limit}")]
    ComponentTooLong {
        /// Length in bytes.
        found: usize,
        /// [`Limits::component_bytes_max`](crate::Limits::component_bytes_max).
        limit: usize,
    },
}

/// The only existing snapshot format.
pub const VERSION: &str = "1.2.0";
