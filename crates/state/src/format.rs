//! The files from which a validator starts without unpacking an archive.
//!
//! A directory `<snapshots>/<slot>/` is loadable ("fastboot") if it holds these files. The accounts
//! are in directories of their own.
//!
//! | file | content |
//! |---|---|
//! | `<slot>` | the bank file of the newest archive |
//! | [`STATUS_CACHE`] | its status cache |
//! | [`VERSION`] | [`VERSION_TEXT`] |
//! | [`STORAGES_LIST`] | slot and id of every storage: [`Format::encode_storages`] |
//! | [`OBSOLETE_ACCOUNTS`] | accounts in storages that are not loaded: [`NO_OBSOLETE_ACCOUNTS`] |
//! | [`FASTBOOT_VERSION`] | [`Format::version`]; validators write it last, so it marks the directory as complete |
//!
//! The formats are those of `solana-runtime` (`snapshot_utils.rs`, `storages_list.rs`). Agave 4.2
//! to 4.4 write [`Format::V3`], and releases up to 4.5 load it; Agave 4.5 writes [`Format::V5`].
//! All integers are little-endian with fixed widths.
//!
//! This module encodes and decodes bytes and opens no files. The decoders check existing
//! directories: they accept the output of the encoders and refuse everything else, with the
//! position of the error.

use std::fmt;

use thiserror::Error;
use unsnap_layout::{SNAPSHOT_VERSION, U64Set};
use unsnap_tarstream::printable;

/// Name of the status cache.
pub const STATUS_CACHE: &str = "status_cache";
/// Name of the file with the version of the snapshot's format.
pub const VERSION: &str = "version";
/// Content of [`VERSION`], without a line end.
pub const VERSION_TEXT: &str = SNAPSHOT_VERSION;
/// Name of the list of storages.
pub const STORAGES_LIST: &str = "storages_list";
/// Name of the list of obsolete accounts.
pub const OBSOLETE_ACCOUNTS: &str = "obsolete_accounts";
/// Name of the file with the version of all these.
pub const FASTBOOT_VERSION: &str = "fastboot_version";

/// Content of [`OBSOLETE_ACCOUNTS`] for storages from archives: an empty list, since writers of
/// archives drop obsolete accounts. The format is the same in all versions.
pub const NO_OBSOLETE_ACCOUNTS: [u8; 8] = [0; 8];

/// Longest [`STORAGES_LIST`]: 100 MiB, `MAX_STORAGES_LIST_FILE_SIZE` of `solana-runtime` 4.2.2.
pub const STORAGES_LIST_BYTES_MAX: u64 = 100 << 20;
/// Longest [`FASTBOOT_VERSION`] that is read: 64 bytes, a guess. Three numbers of 64 bits and two
/// dots have 62.
pub const FASTBOOT_VERSION_BYTES_MAX: u64 = 64;

/// Returns the name of the bank file in the directory of a slot.
pub fn bank_file(slot: u64) -> String {
    slot.to_string()
}

/// Format of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// 3.0.0: each storage has 12 bytes, slot and id.
    V3,
    /// 5.0.0: each storage has 16 bytes, a tag, id and slot.
    V5,
}

/// A storage: the file `<slot>.<id>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Storage {
    /// Slot of all its accounts.
    pub slot: u64,
    /// Id, which distinguishes the storages of a slot.
    pub id: u32,
}

/// Version in [`FASTBOOT_VERSION`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes if older releases cannot load the directory.
    pub major: u64,
    /// Changes if something is added.
    pub minor: u64,
    /// Changes otherwise.
    pub patch: u64,
}

/// Error in a file of a state. `offset` is a position in the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A file is longer than a validator reads.
    #[error("{file} has {found} bytes, limit is {limit}")]
    TooLarge {
        /// Name of the file.
        file: &'static str,
        /// Length of the file.
        found: u64,
        /// Greatest length.
        limit: u64,
    },
    /// A file ends too early.
    #[error("{file} ends at byte {offset}, expected {expected} bytes at least")]
    Truncated {
        /// Name of the file.
        file: &'static str,
        /// Length of the file.
        offset: u64,
        /// Least length according to the file itself.
        expected: u64,
    },
    /// A file continues where it should end.
    #[error("{file} continues at byte {offset}, where it should end")]
    TrailingBytes {
        /// Name of the file.
        file: &'static str,
        /// Offset at which it should end.
        offset: u64,
    },
    /// A storage consists of two files. No archive contains such a storage, and unsnap does not
    /// write one.
    #[error("{STORAGES_LIST} has {storage} at byte {offset} as a split storage: not unsnap's")]
    Split {
        /// Offset of the storage's tag.
        offset: u64,
        /// The storage.
        storage: Storage,
    },
    /// A storage is of an unknown kind.
    #[error("{STORAGES_LIST} has a storage of kind {found} at byte {offset}, expected 0")]
    UnknownKind {
        /// Offset of the tag.
        offset: u64,
        /// The tag.
        found: u32,
    },
    /// A slot or an id occurs twice. Validators refuse to load such a list.
    #[error("{STORAGES_LIST} has {storage} at byte {offset}, but its {what} occurs before")]
    Duplicate {
        /// Offset of the second storage.
        offset: u64,
        /// The second storage.
        storage: Storage,
        /// `slot` or `id`.
        what: &'static str,
    },
    /// The list of obsolete accounts is not empty, as it is for storages from archives.
    #[error("{OBSOLETE_ACCOUNTS} lists accounts of {storages} storages, expected 0: not unsnap's")]
    ObsoleteAccounts {
        /// The number of storages.
        storages: u64,
    },
    /// A version does not consist of three numbers.
    #[error("{file} is \"{found}\", expected a version such as {expected}")]
    BadVersion {
        /// Name of the file.
        file: &'static str,
        /// Content of the file, printable.
        found: String,
        /// Example of a valid version.
        expected: &'static str,
    },
    /// The version is unknown, so the lists cannot be read.
    #[error("{FASTBOOT_VERSION} is {found}, only 3 and 5 are known")]
    UnknownVersion {
        /// The version.
        found: Version,
    },
}

impl Format {
    /// Returns the content of [`FASTBOOT_VERSION`], without a line end.
    pub fn version(self) -> &'static str {
        match self {
            Self::V3 => "3.0.0",
            Self::V5 => "5.0.0",
        }
    }

    /// Returns the format of a directory with this version, which depends on the major number.
    pub fn of(version: Version) -> Result<Self, FormatError> {
        match version.major {
            3 => Ok(Self::V3),
            5 => Ok(Self::V5),
            _ => Err(FormatError::UnknownVersion { found: version }),
        }
    }

    /// Encodes the [`STORAGES_LIST`] of these storages, in their order. The caller must make sure
    /// that no slot and no id occurs twice.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooLarge`] if the list exceeds [`STORAGES_LIST_BYTES_MAX`], which is
    /// 8,738,132 storages in [`Format::V3`] and 6,553,599 in [`Format::V5`].
    pub fn encode_storages(self, storages: &[Storage]) -> Result<Vec<u8>, FormatError> {
        let count = storages.len() as u64;
        let length = count.saturating_mul(self.storage_bytes() as u64).saturating_add(8);
        let length = within(STORAGES_LIST, length, STORAGES_LIST_BYTES_MAX)?;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&count.to_le_bytes());
        for Storage { slot, id } in storages {
            match self {
                Self::V3 => {
                    bytes.extend_from_slice(&slot.to_le_bytes());
                    bytes.extend_from_slice(&id.to_le_bytes());
                }
                Self::V5 => {
                    bytes.extend_from_slice(&APPEND_VEC.to_le_bytes());
                    bytes.extend_from_slice(&id.to_le_bytes());
                    bytes.extend_from_slice(&slot.to_le_bytes());
                }
            }
        }
        Ok(bytes)
    }

    /// Decodes a [`STORAGES_LIST`] of at most [`STORAGES_LIST_BYTES_MAX`]. Takes memory in
    /// proportion to `bytes`.
    pub fn decode_storages(self, bytes: &[u8]) -> Result<Vec<Storage>, FormatError> {
        within(STORAGES_LIST, bytes.len() as u64, STORAGES_LIST_BYTES_MAX)?;
        let mut fields = Fields { file: STORAGES_LIST, bytes, offset: 0 };
        let count = u64::from_le_bytes(fields.take()?);
        let expected = count.saturating_mul(self.storage_bytes() as u64).saturating_add(8);
        let mut storages = Vec::new();
        let (mut slots, mut ids) = (U64Set::new(), U64Set::new());
        for _ in 0..count {
            // Decoded before the total length is checked, since a split storage has another length.
            let offset = fields.offset as u64;
            let storage = self.decode_storage(&mut fields).map_err(|error| match error {
                FormatError::Truncated { file, offset, .. } => {
                    FormatError::Truncated { file, offset, expected }
                }
                error => error,
            })?;
            for (what, new) in
                [("slot", slots.insert(storage.slot)), ("id", ids.insert(storage.id.into()))]
            {
                if !new {
                    return Err(FormatError::Duplicate { offset, storage, what });
                }
            }
            storages.push(storage);
        }
        fields.end()?;
        Ok(storages)
    }

    fn decode_storage(self, fields: &mut Fields<'_>) -> Result<Storage, FormatError> {
        let offset = fields.offset as u64;
        match self {
            Self::V3 => {
                let slot = u64::from_le_bytes(fields.take()?);
                Ok(Storage { slot, id: u32::from_le_bytes(fields.take()?) })
            }
            Self::V5 => {
                let kind = u32::from_le_bytes(fields.take()?);
                if kind == SPLIT {
                    let [_has_data] = fields.take()?;
                } else if kind != APPEND_VEC {
                    return Err(FormatError::UnknownKind { offset, found: kind });
                }
                let id = u32::from_le_bytes(fields.take()?);
                let storage = Storage { slot: u64::from_le_bytes(fields.take()?), id };
                if kind == SPLIT {
                    return Err(FormatError::Split { offset, storage });
                }
                Ok(storage)
            }
        }
    }

    fn storage_bytes(self) -> usize {
        match self {
            Self::V3 => 8 + 4,
            Self::V5 => 4 + 4 + 8,
        }
    }
}

/// Checks that [`OBSOLETE_ACCOUNTS`] lists none.
pub fn check_obsolete_accounts(bytes: &[u8]) -> Result<(), FormatError> {
    let mut fields = Fields { file: OBSOLETE_ACCOUNTS, bytes, offset: 0 };
    match u64::from_le_bytes(fields.take()?) {
        0 => fields.end(),
        storages => Err(FormatError::ObsoleteAccounts { storages }),
    }
}

/// Checks that [`VERSION`] holds [`VERSION_TEXT`]. This check is stricter than that of an archive's
/// version, since a validator or unsnap wrote the directory.
pub fn check_version_file(bytes: &[u8]) -> Result<(), FormatError> {
    let length = bytes.len() as u64;
    within(VERSION, length, FASTBOOT_VERSION_BYTES_MAX)?;
    if bytes == VERSION_TEXT.as_bytes() {
        return Ok(());
    }
    Err(FormatError::BadVersion { file: VERSION, found: printable(bytes), expected: VERSION_TEXT })
}

impl Version {
    /// Parses [`FASTBOOT_VERSION`]: three plain numbers separated by dots. White space around them
    /// is ignored, as validators do.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        within(FASTBOOT_VERSION, bytes.len() as u64, FASTBOOT_VERSION_BYTES_MAX)?;
        Self::from_text(bytes.trim_ascii()).ok_or_else(|| FormatError::BadVersion {
            file: FASTBOOT_VERSION,
            found: printable(bytes),
            expected: Format::V3.version(),
        })
    }

    fn from_text(text: &[u8]) -> Option<Self> {
        let mut numbers = str::from_utf8(text).ok()?.split('.').map(plain_number);
        let version =
            Self { major: numbers.next()??, minor: numbers.next()??, patch: numbers.next()?? };
        numbers.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Display for Storage {
    /// Formats the name of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.id)
    }
}

/// Parses digits without leading zeros, as in semantic versions.
fn plain_number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zeros = text.len() > 1 && text.starts_with('0');
    if plain && !leading_zeros { text.parse().ok() } else { None }
}

/// Returns the length, if it is within the limit.
fn within(file: &'static str, found: u64, limit: u64) -> Result<usize, FormatError> {
    let length = usize::try_from(found).ok().filter(|_| found <= limit);
    length.ok_or(FormatError::TooLarge { file, found, limit })
}

/// Reader of the fields of a file.
struct Fields<'a> {
    file: &'static str,
    bytes: &'a [u8],
    offset: usize,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let Self { file, bytes, offset } = *self;
        let field = bytes[offset..].first_chunk().ok_or(FormatError::Truncated {
            file,
            offset: bytes.len() as u64,
            expected: (offset + N) as u64,
        })?;
        self.offset += N;
        Ok(*field)
    }

    fn end(&self) -> Result<(), FormatError> {
        let Self { file, bytes, offset } = *self;
        if offset == bytes.len() {
            return Ok(());
        }
        Err(FormatError::TrailingBytes { file, offset: offset as u64 })
    }
}

/// Kinds of storages in the list of [`Format::V5`].
const APPEND_VEC: u32 = 0;
const SPLIT: u32 = 1;
