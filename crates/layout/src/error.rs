//! Everything that can be wrong with an archive's content list.

use thiserror::Error;
use unsnap_tarstream::MemberKind;

/// Why an archive is refused.
///
/// `offset` is the position in the decoded stream of the entry's header, `entry` its path made safe
/// by [`printable`](unsnap_tarstream::printable).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Something that no snapshot contains.
    #[error("{kind} {entry} at byte {offset} does not belong in a snapshot archive")]
    UnexpectedEntry {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// What it is.
        kind: MemberKind,
    },
    /// A link, a device, a sparse file, or a directory in place of a file.
    #[error("{entry} at byte {offset} is a {found}, but only a {expected} is accepted there")]
    WrongKind {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// What it is.
        found: MemberKind,
        /// What may have this name.
        expected: &'static str,
    },
    /// A slot or storage number with leading zeros: it would be a second name for the same thing.
    #[error("{entry} at byte {offset} has a number with leading zeros in its name")]
    LeadingZeros {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
    },
    /// A slot or storage number beyond its range.
    #[error("{entry} at byte {offset} has the number {found} in its name, limit is {limit}")]
    NumberTooLarge {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// The digits.
        found: String,
        /// The largest number there.
        limit: u64,
    },
    /// A path that must not be created.
    #[error("path {entry} at byte {offset} is refused: {problem}")]
    UnsafePath {
        /// The entry's header.
        offset: u64,
        /// The path.
        entry: String,
        /// What is wrong with it.
        problem: PathProblem,
    },
    /// The same path twice.
    #[error("{entry} is in the archive twice, the second time at byte {offset}")]
    Duplicate {
        /// The second entry's header.
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
        /// The second storage's header.
        offset: u64,
        /// Path of the second storage.
        entry: String,
        /// The slot.
        slot: u64,
    },
    /// A path that is a file for one entry and a directory for another.
    #[error("{entry} at byte {offset}: one path is both a file and a directory in this archive")]
    FileAndDirectory {
        /// The later entry's header.
        offset: u64,
        /// Path of the later entry: the path in question, or one below it.
        entry: String,
    },
    /// A file that cannot be empty.
    #[error("{entry} at byte {offset} is empty")]
    EmptyFile {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
    },
    /// A file larger than such a file may be.
    #[error("{entry} at byte {offset} has {found} bytes, limit is {limit}")]
    FileTooLarge {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Its size.
        found: u64,
        /// The limit for this file.
        limit: u64,
    },
    /// One entry too many.
    #[error("{entry} at byte {offset} is one entry too many, limit is {limit}")]
    TooManyEntries {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// [`Limits::entries_max`](crate::Limits::entries_max).
        limit: u64,
    },
    /// All files together are too large.
    #[error("with {entry} at byte {offset} the files add up to {found} bytes, limit is {limit}")]
    TotalTooLarge {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// The sum with this entry.
        found: u64,
        /// The limit for the sum.
        limit: u64,
    },
    /// A bank of another slot than the archive's name says, or than the other bank entry.
    #[error("{entry} at byte {offset} is of slot {found}, but the snapshot is of slot {expected}")]
    WrongSlot {
        /// The entry's header.
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
        "{entry} at byte {offset}: there is a storage of slot {found}, \
         but the snapshot is of slot {limit}"
    )]
    StorageTooNew {
        /// The header of the entry that showed it: the storage, or the bank that came after it.
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
        "{entry} at byte {offset} is of slot {found}, \
         but the full snapshot of slot {base_slot} covers that"
    )]
    StorageTooOld {
        /// The storage's header.
        offset: u64,
        /// Path of the storage.
        entry: String,
        /// Slot of the storage.
        found: u64,
        /// Slot of the full snapshot.
        base_slot: u64,
    },
    /// The archive has ended without something that every snapshot has.
    #[error("archive has no {entry}")]
    MissingEntry {
        /// What is missing.
        entry: &'static str,
    },
    /// A snapshot format that is not known.
    #[error("snapshot version is \"{found}\", only {VERSION} is known")]
    UnknownVersion {
        /// Content of the `version` file, printable.
        found: String,
    },
}

impl LayoutError {
    /// Where in the decoded stream the refused entry begins; `None` if it is not about one entry.
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

    /// The path of the refused or missing entry, printable.
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

/// Why a path must not be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// Bytes that are no text.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// C0, DEL or C1.
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
    /// It starts at the root of the file system.
    #[error("it is absolute")]
    Absolute,
    /// A component `..`.
    #[error("it leads upwards")]
    Upwards,
    /// Two slashes in a row.
    #[error("it has an empty component")]
    EmptyComponent,
    /// A component `.`, other than one in front.
    #[error("it has a component \".\"")]
    DotComponent,
    /// A file with a slash behind its name.
    #[error("it ends in a slash but is no directory")]
    TrailingSlash,
    /// The first component is one that unsnap keeps its own files under while it unpacks.
    #[error("it is a name that unsnap uses itself: they begin with .unsnap-")]
    Reserved,
    /// Longer than a path can be.
    #[error("it has {found} bytes, limit is {limit}")]
    TooLong {
        /// Length in bytes.
        found: usize,
        /// [`Limits::path_bytes_max`](crate::Limits::path_bytes_max).
        limit: usize,
    },
    /// A component longer than a file name can be.
    #[error("a component has {found} bytes, limit is {limit}")]
    ComponentTooLong {
        /// Length in bytes.
        found: usize,
        /// [`Limits::component_bytes_max`](crate::Limits::component_bytes_max).
        limit: usize,
    },
}

/// The one snapshot format there is.
pub const VERSION: &str = "1.2.0";
