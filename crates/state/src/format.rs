//! The files from which a validator starts without unpacking an archive.
//!
//! A directory `<snapshots>/<slot>/` is loadable ("fastboot") if it holds, beside the accounts in
//! their own directories:
//!
//! | file | content |
//! |---|---|
//! | `<slot>` | the bank file of the newest archive |
//! | [`STATUS_CACHE`] | its status cache |
//! | [`VERSION`] | [`VERSION_TEXT`] |
//! | [`STORAGES_LIST`] | slot and id of every storage: [`Format::encode_storages`] |
//! | [`OBSOLETE_ACCOUNTS`] | what is not to be loaded of them: [`NO_OBSOLETE_ACCOUNTS`] |
//! | [`FASTBOOT_VERSION`] | [`Format::version`]; to be written last, it says that all is there |
//!
//! The forms are those of `solana-runtime` (`snapshot_utils.rs`, `storages_list.rs`): [`Format::V3`]
//! is what Agave 4.2 to 4.4 write, and what releases up to 4.5 load; [`Format::V5`] is that of 4.5.
//! Everything is little-endian with fixed widths.
//!
//! Encoders and decoders are here, files are not. The decoders are for what a directory was found to
//! hold: they accept what the encoders make and refuse the rest, with the position of what is wrong.

use std::fmt;

use thiserror::Error;
use unsnap_layout::{SNAPSHOT_VERSION, U64Set};
use unsnap_tarstream::printable;

/// The file with the status cache.
pub const STATUS_CACHE: &str = "status_cache";
/// The file with the version of the snapshot's format.
pub const VERSION: &str = "version";
/// What [`VERSION`] holds, without a line end.
pub const VERSION_TEXT: &str = SNAPSHOT_VERSION;
/// The file that lists the storages.
pub const STORAGES_LIST: &str = "storages_list";
/// The file that lists obsolete accounts.
pub const OBSOLETE_ACCOUNTS: &str = "obsolete_accounts";
/// The file with the version of all these.
pub const FASTBOOT_VERSION: &str = "fastboot_version";

/// [`OBSOLETE_ACCOUNTS`] of storages from archives: none. Writers of archives drop them. The form
/// is the same in all versions.
pub const NO_OBSOLETE_ACCOUNTS: [u8; 8] = [0; 8];

/// Longest [`STORAGES_LIST`]: 100 MiB, `MAX_STORAGES_LIST_FILE_SIZE` of `solana-runtime` 4.2.2.
pub const STORAGES_LIST_BYTES_MAX: u64 = 100 << 20;
/// Longest [`FASTBOOT_VERSION`] that is looked at: 64 bytes, a guess. Three numbers of 64 bits and
/// two dots have 62.
pub const FASTBOOT_VERSION_BYTES_MAX: u64 = 64;

/// The name of the bank file in the directory of a slot.
pub fn bank_file(slot: u64) -> String {
    slot.to_string()
}

/// How the lists are written.
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
    /// What distinguishes it from others of its slot.
    pub id: u32,
}

/// What [`FASTBOOT_VERSION`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes when older releases cannot load the directory.
    pub major: u64,
    /// Changes when something is added.
    pub minor: u64,
    /// Changes otherwise.
    pub patch: u64,
}

/// Why a file is not what it should be. `offset` is a position in the file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A file longer than a validator reads.
    #[error("{file} has {found} bytes, limit is {limit}")]
    TooLarge {
        /// Which file.
        file: &'static str,
        /// Its length.
        found: u64,
        /// The greatest length.
        limit: u64,
    },
    /// A file that ends too early.
    #[error("{file} ends at byte {offset}, expected {expected} bytes at least")]
    Truncated {
        /// Which file.
        file: &'static str,
        /// Its length.
        offset: u64,
        /// The least length that it says it has.
        expected: u64,
    },
    /// A file that goes on where it should end.
    #[error("{file} goes on at byte {offset}, where it should end")]
    TrailingBytes {
        /// Which file.
        file: &'static str,
        /// Where it should end.
        offset: u64,
    },
    /// A storage of two files, which no archive contains and unsnap does not write.
    #[error("{STORAGES_LIST} has {storage} at byte {offset} as a split storage: not unsnap's")]
    Split {
        /// Where the storage's tag is.
        offset: u64,
        /// The storage.
        storage: Storage,
    },
    /// A storage of a kind that is not known.
    #[error("{STORAGES_LIST} has a storage of kind {found} at byte {offset}, expected 0")]
    UnknownKind {
        /// Where the tag is.
        offset: u64,
        /// The tag.
        found: u32,
    },
    /// A slot or an id that is there twice. Validators refuse to load such a list.
    #[error("{STORAGES_LIST} has {storage} at byte {offset}, but its {what} has been there before")]
    Duplicate {
        /// Where the second storage is.
        offset: u64,
        /// The second storage.
        storage: Storage,
        /// `slot` or `id`.
        what: &'static str,
    },
    /// Obsolete accounts, which storages from archives do not have.
    #[error("{OBSOLETE_ACCOUNTS} lists accounts of {storages} storages, expected 0: not unsnap's")]
    ObsoleteAccounts {
        /// The number of storages.
        storages: u64,
    },
    /// A version that is not three numbers.
    #[error("{file} is \"{found}\", expected a version such as {expected}")]
    BadVersion {
        /// Which file.
        file: &'static str,
        /// Its content, printable.
        found: String,
        /// What it could be.
        expected: &'static str,
    },
    /// A version whose lists cannot be read here.
    #[error("{FASTBOOT_VERSION} is {found}, only 3 and 5 are known")]
    UnknownVersion {
        /// The version.
        found: Version,
    },
}

impl Format {
    /// What [`FASTBOOT_VERSION`] holds, without a line end.
    pub fn version(self) -> &'static str {
        match self {
            Self::V3 => "3.0.0",
            Self::V5 => "5.0.0",
        }
    }

    /// The form of a directory with this version: the major number decides.
    pub fn of(version: Version) -> Result<Self, FormatError> {
        match version.major {
            3 => Ok(Self::V3),
            5 => Ok(Self::V5),
            _ => Err(FormatError::UnknownVersion { found: version }),
        }
    }

    /// [`STORAGES_LIST`] of these storages, in their order. Fails if it were longer than
    /// [`STORAGES_LIST_BYTES_MAX`]: 8,738,132 storages in the one form, 6,553,599 in the other.
    ///
    /// That no slot and no id is there twice is the caller's to see to.
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

    /// Reads [`STORAGES_LIST`]. Takes memory in proportion to `bytes`, which are no more than
    /// [`STORAGES_LIST_BYTES_MAX`].
    pub fn decode_storages(self, bytes: &[u8]) -> Result<Vec<Storage>, FormatError> {
        within(STORAGES_LIST, bytes.len() as u64, STORAGES_LIST_BYTES_MAX)?;
        let mut fields = Fields { file: STORAGES_LIST, bytes, offset: 0 };
        let count = u64::from_le_bytes(fields.take()?);
        let expected = count.saturating_mul(self.storage_bytes() as u64).saturating_add(8);
        let mut storages = Vec::new();
        let (mut slots, mut ids) = (U64Set::new(), U64Set::new());
        for _ in 0..count {
            // Before the length: a split storage has another one.
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

/// Checks that [`VERSION`] holds [`VERSION_TEXT`]. A directory's is held to more than an archive's:
/// it was written by the validator or by unsnap.
pub fn check_version_file(bytes: &[u8]) -> Result<(), FormatError> {
    let length = bytes.len() as u64;
    within(VERSION, length, FASTBOOT_VERSION_BYTES_MAX)?;
    if bytes == VERSION_TEXT.as_bytes() {
        return Ok(());
    }
    Err(FormatError::BadVersion { file: VERSION, found: printable(bytes), expected: VERSION_TEXT })
}

impl Version {
    /// Reads [`FASTBOOT_VERSION`]: three plain numbers with dots between them. White space around
    /// them is taken off, as validators do.
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
    /// The file's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot, self.id)
    }
}

/// Digits without leading zeros, like semantic versions have them.
fn plain_number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zeros = text.len() > 1 && text.starts_with('0');
    if plain && !leading_zeros { text.parse().ok() } else { None }
}

/// The length, if it is within the limit.
fn within(file: &'static str, found: u64, limit: u64) -> Result<usize, FormatError> {
    let length = usize::try_from(found).ok().filter(|_| found <= limit);
    length.ok_or(FormatError::TooLarge { file, found, limit })
}

/// The fields of a file, one after the other.
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

/// The kinds of storages in the list of [`Format::V5`].
const APPEND_VEC: u32 = 0;
const SPLIT: u32 = 1;
