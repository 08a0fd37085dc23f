//! Errors of the archive's framing.

use crate::member::MemberKind;
use crate::pax::PaxProblem;
use thiserror::Error;

/// The reason why a stream is not an archive that this project trusts.
///
/// `offset` is a position in the decoded stream: of the offending block, or of the end of the
/// stream if the archive is truncated. `entry` is the path from the archive, escaped by
/// [`printable`](crate::printable).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TarError {
    /// The header's bytes do not match its checksum: the stream is damaged or is not tar at all.
    #[error(
        "tar header at byte {offset} is damaged: its checksum is {stored}, \
         but its bytes sum to {computed}"
    )]
    Checksum {
        /// Offset of the header block.
        offset: u64,
        /// The checksum stored in the header.
        stored: u64,
        /// The sum of the header's bytes, as unsigned numbers.
        computed: u64,
    },
    /// The format is neither GNU, nor POSIX, nor v7.
    #[error("tar header at byte {offset} has an unknown format: its magic is \"{found}\"")]
    Magic {
        /// Offset of the header block.
        offset: u64,
        /// The eight bytes of magic and version, escaped for display.
        found: String,
    },
    /// A numeric field is unusable.
    #[error("{field} of {} is {problem}: \"{found}\"", at_entry(.entry.as_deref(), *.offset))]
    Number {
        /// Offset of the header block.
        offset: u64,
        /// Path of the entry, as far as it is known.
        entry: Option<String>,
        /// Name of the field.
        field: &'static str,
        /// The field's bytes, escaped for display.
        found: String,
        /// The defect of those bytes.
        problem: NumberProblem,
    },
    /// A header without a path.
    #[error("entry at byte {offset} has an empty path")]
    EmptyPath {
        /// Offset of the entry's header.
        offset: u64,
    },
    /// A path or a link target exceeds the longest possible path.
    #[error(
        "path or link target of entry {entry} at byte {offset} has {found} bytes, limit is {limit}"
    )]
    PathTooLong {
        /// Offset of the entry's header.
        offset: u64,
        /// The first bytes of the path.
        entry: String,
        /// Length in bytes.
        found: usize,
        /// [`Limits::path_bytes_max`](crate::Limits::path_bytes_max).
        limit: usize,
    },
    /// A directory, link, device or pipe that declares content. Readers disagree on whether the
    /// content follows.
    #[error("{kind} {entry} at byte {offset} declares {found} bytes of content but can have none")]
    UnexpectedContent {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Kind of the entry.
        kind: MemberKind,
        /// The declared size.
        found: u64,
    },
    /// The PAX header and the entry's own header disagree on where the entry ends.
    #[error(
        "entry {entry} at byte {offset} has two sizes: {found} in its header, \
         {pax} in its PAX header"
    )]
    SizeConflict {
        /// Offset of the entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Size in the header.
        found: u64,
        /// Size in the PAX header.
        pax: u64,
    },
    /// A Solaris extended header: similar to PAX but incompatible. No snapshot writer produces it.
    #[error("Solaris extended header (type 'X') at byte {offset} is not supported")]
    SolarisExtension {
        /// Offset of the extension's header.
        offset: u64,
    },
    /// A construct of one tar format under the magic of another. Readers disagree on whether it
    /// applies.
    #[error("header type '{flag}' at byte {offset} does not exist in the {format} format")]
    ForeignType {
        /// Offset of the header block.
        offset: u64,
        /// Its typeflag.
        flag: char,
        /// The format identified by its magic.
        format: &'static str,
    },
    /// An extension that exceeds its limit.
    #[error("extension of type '{flag}' at byte {offset} has {found} bytes, limit is {limit}")]
    ExtensionTooLarge {
        /// Offset of the extension's header.
        offset: u64,
        /// Its typeflag.
        flag: char,
        /// Its declared size.
        found: u64,
        /// The limit that applies.
        limit: u64,
    },
    /// Two extensions of the same type for one entry. Readers disagree on which one applies.
    #[error("second extension of type '{flag}' for the same entry at byte {offset}")]
    DuplicateExtension {
        /// Offset of the second extension's header.
        offset: u64,
        /// Its typeflag.
        flag: char,
    },
    /// A GNU long name and a PAX record for the same property. Readers disagree on which one
    /// applies.
    #[error("entry has both a GNU extension of type '{flag}' and a PAX {key} at byte {offset}")]
    ConflictingExtensions {
        /// Offset of the later of the two.
        offset: u64,
        /// Typeflag of the GNU extension.
        flag: char,
        /// Key of the PAX record.
        key: &'static str,
    },
    /// An extension without an entry after it.
    #[error("extension header at byte {offset} is not followed by the entry it belongs to")]
    DanglingExtension {
        /// Offset of the first extension header that has no entry.
        offset: u64,
    },
    /// A GNU long name that is not text followed only by NULs.
    #[error(
        "GNU extension of type '{flag}' at byte {offset} does not hold one NUL-terminated name"
    )]
    LongName {
        /// Offset of the name's first byte.
        offset: u64,
        /// Typeflag of the extension.
        flag: char,
    },
    /// A PAX record that is malformed or that sets something an archive must not set.
    #[error("PAX record at byte {offset}: {problem}")]
    Pax {
        /// Offset of the record's first byte.
        offset: u64,
        /// The defect of the record.
        problem: PaxProblem,
    },
    /// A sparse map that exceeds its limit.
    #[error("sparse map of entry {entry} before byte {offset} is longer than {limit} blocks")]
    SparseMapTooLong {
        /// End of the last block that was read.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// [`Limits::sparse_map_blocks_max`](crate::Limits::sparse_map_blocks_max).
        limit: u32,
    },
    /// One zero block where two end the archive. Some readers stop here, others continue.
    #[error("single zero block before byte {offset}, but the archive continues")]
    StrayZeroBlock {
        /// Offset of the block after the zero block.
        offset: u64,
    },
    /// Non-zero data after the end of the archive.
    #[error("data after the end of the archive: byte {offset} is {found:#04x}")]
    TrailingData {
        /// Offset of the first byte that is not zero.
        offset: u64,
        /// Its value.
        found: u8,
    },
    /// More zeros after the end of the archive than any writer appends.
    #[error("more than {limit} zero bytes follow the end of the archive at byte {offset}")]
    PaddingTooLong {
        /// Offset of the end of the archive.
        offset: u64,
        /// The number of zero bytes that are accepted.
        limit: u64,
    },
    /// An end marker without an entry before it, and more zeros after it than a writer pads with.
    /// An archive without entries and with the usual padding is valid.
    #[error("the archive has no entries, it begins with zeros: is it a preallocated download?")]
    NoEntries {
        /// Offset of the end of the archive.
        offset: u64,
    },
    /// The stream ended inside a header.
    #[error(
        "archive is truncated at byte {offset}, inside a header: \
         {found} of {expected} bytes present"
    )]
    TruncatedHeader {
        /// Length of the stream.
        offset: u64,
        /// Path of the entry, if the end lies after its first header block.
        entry: Option<String>,
        /// Bytes of the block that arrived.
        found: u64,
        /// Length of a block.
        expected: u64,
    },
    /// The stream ended inside an extension.
    #[error(
        "archive is truncated at byte {offset}, inside an extension of type '{flag}': \
         {found} of {expected} bytes present"
    )]
    TruncatedExtension {
        /// Length of the stream.
        offset: u64,
        /// Typeflag of the extension.
        flag: char,
        /// Bytes that arrived.
        found: u64,
        /// Bytes that the extension's header declares.
        expected: u64,
    },
    /// The stream ended inside a payload.
    #[error(
        "archive is truncated at byte {offset}, inside {entry}: {found} of {expected} bytes present"
    )]
    TruncatedPayload {
        /// Length of the stream.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Payload bytes that arrived.
        found: u64,
        /// Payload bytes that its header declares.
        expected: u64,
    },
    /// The stream ended between two entries. Most tar readers accept this as the end of the
    /// archive.
    #[error(
        "archive ends at byte {offset} without an end marker ({found} of {expected} zero blocks, \
         entries read: {entries}): it was truncated or is still being written"
    )]
    MissingEnd {
        /// Length of the stream.
        offset: u64,
        /// The last entry that was read.
        entry: Option<String>,
        /// Number of entries that were read.
        entries: u64,
        /// Zero blocks found.
        found: u8,
        /// Zero blocks that end an archive.
        expected: u8,
    },
    /// The walker was used again after it had refused the archive.
    #[error("archive was already refused before byte {offset}")]
    AlreadyRefused {
        /// Bytes consumed so far.
        offset: u64,
    },
}

impl TarError {
    /// Returns the offset in the decoded stream at which the archive went wrong.
    pub fn raw_offset(&self) -> u64 {
        match self {
            Self::Checksum { offset, .. }
            | Self::Magic { offset, .. }
            | Self::Number { offset, .. }
            | Self::EmptyPath { offset }
            | Self::PathTooLong { offset, .. }
            | Self::UnexpectedContent { offset, .. }
            | Self::SizeConflict { offset, .. }
            | Self::SolarisExtension { offset }
            | Self::ForeignType { offset, .. }
            | Self::ExtensionTooLarge { offset, .. }
            | Self::DuplicateExtension { offset, .. }
            | Self::ConflictingExtensions { offset, .. }
            | Self::DanglingExtension { offset }
            | Self::LongName { offset, .. }
            | Self::Pax { offset, .. }
            | Self::SparseMapTooLong { offset, .. }
            | Self::StrayZeroBlock { offset }
            | Self::TrailingData { offset, .. }
            | Self::TruncatedHeader { offset, .. }
            | Self::TruncatedExtension { offset, .. }
            | Self::TruncatedPayload { offset, .. }
            | Self::MissingEnd { offset, .. }
            | Self::PaddingTooLong { offset, .. }
            | Self::NoEntries { offset }
            | Self::AlreadyRefused { offset } => *offset,
        }
    }

    /// Returns the path of the entry concerned, escaped for display, if it is known. For
    /// [`TarError::MissingEnd`] this is the last entry read.
    pub fn entry(&self) -> Option<&str> {
        match self {
            Self::PathTooLong { entry, .. }
            | Self::UnexpectedContent { entry, .. }
            | Self::SizeConflict { entry, .. }
            | Self::SparseMapTooLong { entry, .. }
            | Self::TruncatedPayload { entry, .. } => Some(entry),
            Self::Number { entry, .. }
            | Self::TruncatedHeader { entry, .. }
            | Self::MissingEnd { entry, .. } => entry.as_deref(),
            _ => None,
        }
    }
}

/// The reason why a numeric field of a header is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NumberProblem {
    /// Neither octal digits nor a binary number.
    #[error("not a number")]
    Malformed,
    /// A binary number below zero.
    #[error("negative")]
    Negative,
    /// More than a signed 64-bit number holds.
    #[error("too large")]
    TooLarge,
}

fn at_entry(entry: Option<&str>, offset: u64) -> String {
    match entry {
        Some(entry) => format!("entry {entry} at byte {offset}"),
        None => format!("the header at byte {offset}"),
    }
}
