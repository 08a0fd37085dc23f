//! Everything that can be wrong with an archive's framing.

use crate::member::MemberKind;
use crate::pax::PaxProblem;
use thiserror::Error;

/// Why the stream is not an archive that this project trusts.
///
/// `offset` is a position in the decoded stream: of the block that is wrong, or of the stream's end
/// where the archive is cut. `entry` is the path as the archive gives it, made safe by
/// [`printable`](crate::printable).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TarError {
    /// The header's bytes do not add up: damage, or not a tar stream at all.
    #[error(
        "tar header at byte {offset} is damaged: its checksum is {stored}, \
         its bytes add up to {computed}"
    )]
    Checksum {
        /// The header block.
        offset: u64,
        /// The sum written in the header.
        stored: u64,
        /// The sum of the header's bytes, unsigned.
        computed: u64,
    },
    /// Neither GNU, nor POSIX, nor v7.
    #[error("tar header at byte {offset} is of an unknown format: its magic is \"{found}\"")]
    Magic {
        /// The header block.
        offset: u64,
        /// The eight bytes of magic and version, printable.
        found: String,
    },
    /// A numeric field cannot be used.
    #[error("{field} of {} is {problem}: \"{found}\"", at_entry(.entry.as_deref(), *.offset))]
    Number {
        /// The header block.
        offset: u64,
        /// Path of the entry, as far as it is known.
        entry: Option<String>,
        /// Name of the field.
        field: &'static str,
        /// The field's bytes, printable.
        found: String,
        /// What is wrong with them.
        problem: NumberProblem,
    },
    /// A header without a path.
    #[error("entry at byte {offset} has an empty path")]
    EmptyPath {
        /// The entry's header.
        offset: u64,
    },
    /// A path or a link target longer than any path can be.
    #[error("path or link of entry {entry} at byte {offset} has {found} bytes, limit is {limit}")]
    PathTooLong {
        /// The entry's header.
        offset: u64,
        /// The first bytes of the path.
        entry: String,
        /// Length in bytes.
        found: usize,
        /// [`Limits::path_bytes_max`](crate::Limits::path_bytes_max).
        limit: usize,
    },
    /// A directory, link, device or pipe that claims to have content. Readers disagree on whether
    /// it follows.
    #[error("{kind} {entry} at byte {offset} claims {found} bytes of content, it can have none")]
    UnexpectedContent {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// What it is.
        kind: MemberKind,
        /// The size it claims.
        found: u64,
    },
    /// The PAX header and the entry's own header disagree on where the entry ends.
    #[error(
        "entry {entry} at byte {offset} has two sizes: {found} in its header, \
         {pax} in its PAX header"
    )]
    SizeConflict {
        /// The entry's header.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Size in the header.
        found: u64,
        /// Size in the PAX header.
        pax: u64,
    },
    /// A Solaris extended header: like PAX, but not quite; nobody writes it for snapshots.
    #[error("Solaris extended header (type 'X') at byte {offset} is not supported")]
    SolarisExtension {
        /// The extension's header.
        offset: u64,
    },
    /// A construct of one tar format under the magic of another; readers disagree on whether it
    /// counts.
    #[error("header of type '{flag}' at byte {offset} does not belong in a {format} header")]
    ForeignType {
        /// The header block.
        offset: u64,
        /// Its typeflag.
        flag: char,
        /// The format its magic stands for.
        format: &'static str,
    },
    /// An extension larger than its limit.
    #[error("extension of type '{flag}' at byte {offset} has {found} bytes, limit is {limit}")]
    ExtensionTooLarge {
        /// The extension's header.
        offset: u64,
        /// Its typeflag.
        flag: char,
        /// Its declared size.
        found: u64,
        /// The limit that it exceeds.
        limit: u64,
    },
    /// Two extensions of the same type for one entry; readers disagree on which counts.
    #[error("second extension of type '{flag}' for one entry at byte {offset}")]
    DuplicateExtension {
        /// The second extension's header.
        offset: u64,
        /// Its typeflag.
        flag: char,
    },
    /// A GNU long name and a PAX record for the same property; readers disagree on which counts.
    #[error("entry has both a GNU extension of type '{flag}' and a PAX {key} at byte {offset}")]
    ConflictingExtensions {
        /// The later of the two.
        offset: u64,
        /// Typeflag of the GNU extension.
        flag: char,
        /// Key of the PAX record.
        key: &'static str,
    },
    /// An extension with no entry behind it.
    #[error("extension header at byte {offset} is not followed by the entry it belongs to")]
    DanglingExtension {
        /// The first extension header that waits for its entry.
        offset: u64,
    },
    /// A GNU long name that is not text followed by NULs to the end.
    #[error(
        "GNU extension of type '{flag}' at byte {offset} does not hold one NUL-terminated name"
    )]
    LongName {
        /// First byte of the name.
        offset: u64,
        /// Typeflag of the extension.
        flag: char,
    },
    /// A PAX record that is malformed, or that says something an archive may not say.
    #[error("PAX record at byte {offset}: {problem}")]
    Pax {
        /// First byte of the record.
        offset: u64,
        /// What is wrong with it.
        problem: PaxProblem,
    },
    /// A sparse map without end.
    #[error("sparse map of entry {entry} before byte {offset} is longer than {limit} blocks")]
    SparseMapTooLong {
        /// End of the last block that was read.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// [`Limits::sparse_map_blocks_max`](crate::Limits::sparse_map_blocks_max).
        limit: u32,
    },
    /// One zero block where the end of the archive takes two: some readers stop here, others go on.
    #[error("single zero block before byte {offset}, but the archive goes on")]
    StrayZeroBlock {
        /// The block behind the zero block.
        offset: u64,
    },
    /// Something other than zeros behind the end of the archive.
    #[error("data behind the end of the archive: byte {offset} is {found:#04x}")]
    TrailingData {
        /// The first byte that is not zero.
        offset: u64,
        /// Its value.
        found: u8,
    },
    /// The stream ended inside a header.
    #[error(
        "archive is cut at byte {offset}, inside a header: {found} of {expected} bytes are there"
    )]
    TruncatedHeader {
        /// Length of the stream.
        offset: u64,
        /// Path of the entry, where the cut is behind its first header block.
        entry: Option<String>,
        /// Bytes of the block that are there.
        found: u64,
        /// Bytes of a block.
        expected: u64,
    },
    /// The stream ended inside an extension.
    #[error(
        "archive is cut at byte {offset}, inside an extension of type '{flag}': \
         {found} of {expected} bytes are there"
    )]
    TruncatedExtension {
        /// Length of the stream.
        offset: u64,
        /// Typeflag of the extension.
        flag: char,
        /// Bytes that are there.
        found: u64,
        /// Bytes that the extension's header declares.
        expected: u64,
    },
    /// The stream ended inside a payload.
    #[error(
        "archive is cut at byte {offset}, inside {entry}: {found} of {expected} bytes are there"
    )]
    TruncatedPayload {
        /// Length of the stream.
        offset: u64,
        /// Path of the entry.
        entry: String,
        /// Payload bytes that are there.
        found: u64,
        /// Payload bytes that its header declares.
        expected: u64,
    },
    /// The stream ended between two entries. Most tar readers take this for the end of the archive.
    #[error(
        "archive ends at byte {offset} without its end mark ({found} of {expected} zero blocks, \
         entries read: {entries}): it was cut or is still being written"
    )]
    MissingEnd {
        /// Length of the stream.
        offset: u64,
        /// The last entry that was read.
        entry: Option<String>,
        /// Number of entries that were read.
        entries: u64,
        /// Zero blocks that are there.
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
    /// Where in the decoded stream the archive went wrong.
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
            | Self::AlreadyRefused { offset } => *offset,
        }
    }

    /// The path of the entry concerned, printable, where it is known. For [`TarError::MissingEnd`]
    /// the last one read.
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

/// Why a numeric field of a header cannot be used.
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
