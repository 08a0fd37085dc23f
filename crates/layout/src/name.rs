//! Names of snapshot archives.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use unsnap_tarstream::printable;

/// The parsed file name of an archive.
///
/// ```text
///   snapshot-<slot>-<hash>.tar.zst
///   incremental-snapshot-<base slot>-<slot>-<hash>.tar.lz4
/// ```
///
/// Agave's grammar (`agave-snapshots`, `paths.rs`): decimal slots, a hash of 32 bytes in base58,
/// and one of two compressions. Agave accepts slots with leading zeros. This parser refuses them,
/// so that each name has one spelling and [`Display`](fmt::Display) returns the original name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArchiveName {
    /// All accounts at a slot.
    Full {
        /// The slot of the snapshot.
        slot: u64,
        /// Hash of all accounts.
        hash: ArchiveHash,
        /// Compression format of the archive.
        compression: Compression,
    },
    /// The accounts that changed since a full snapshot.
    Incremental {
        /// The slot of the full snapshot that it is based on. Less than `slot`.
        base_slot: u64,
        /// The slot of the snapshot.
        slot: u64,
        /// Hash of all accounts, including those of the full snapshot.
        hash: ArchiveHash,
        /// Compression format of the archive.
        compression: Compression,
    },
}

/// The hash in an archive's name: 32 bytes, displayed in base58.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArchiveHash([u8; 32]);

/// Compression format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// `.tar.zst`
    Zstd,
    /// `.tar.lz4`
    Lz4,
}

/// The reason why a file name is not that of a snapshot archive. `name` is escaped for display.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// An unknown prefix. Names that start with `tmp-` belong to archives still being written.
    #[error("{name} is not a snapshot archive: it starts with neither {FULL} nor {INCREMENTAL}")]
    Prefix {
        /// The file name.
        name: String,
    },
    /// An unknown suffix.
    #[error("{name} is not a snapshot archive: it ends with neither .tar.zst nor .tar.lz4")]
    Extension {
        /// The file name.
        name: String,
    },
    /// A name with too few dashes.
    #[error("{name} is not a snapshot archive: expected {expected}")]
    Parts {
        /// The file name.
        name: String,
        /// The expected form.
        expected: &'static str,
    },
    /// A slot that is not a number, exceeds 64 bits, or has leading zeros.
    #[error("{name} is not a snapshot archive: its {field} is not a plain number: \"{found}\"")]
    Slot {
        /// The file name.
        name: String,
        /// The name of the slot field.
        field: &'static str,
        /// The text in its place, escaped for display.
        found: String,
    },
    /// A hash that is not 32 bytes in base58.
    #[error("{name} is not a snapshot archive: its hash is not 32 bytes in base58: \"{found}\"")]
    Hash {
        /// The file name.
        name: String,
        /// The text in its place, escaped for display.
        found: String,
    },
    /// An incremental snapshot whose slot does not exceed its base slot.
    #[error("{name}: base slot {base_slot} is not less than slot {slot}")]
    BaseNotBelowSlot {
        /// The file name.
        name: String,
        /// Slot of the full snapshot.
        base_slot: u64,
        /// Slot of the incremental snapshot.
        slot: u64,
    },
}

impl ArchiveName {
    /// Parses a file name without any directory.
    pub fn parse(file_name: &str) -> Result<Self, NameError> {
        let name = || printable(file_name.as_bytes());
        let parts = |expected| move || NameError::Parts { name: name(), expected };
        let (stem, compression) = [Compression::Zstd, Compression::Lz4]
            .into_iter()
            .find_map(|known| Some((file_name.strip_suffix(known.extension())?, known)))
            .ok_or_else(|| NameError::Extension { name: name() })?;

        if let Some(rest) = stem.strip_prefix(FULL) {
            let (slot, hash) = rest.split_once('-').ok_or_else(parts("snapshot-<slot>-<hash>"))?;
            let slot = parse_slot(file_name, "slot", slot)?;
            let hash = parse_hash(file_name, hash)?;
            return Ok(Self::Full { slot, hash, compression });
        }
        let Some(rest) = stem.strip_prefix(INCREMENTAL) else {
            return Err(NameError::Prefix { name: name() });
        };
        let (base_slot, (slot, hash)) = rest
            .split_once('-')
            .and_then(|(base_slot, rest)| Some((base_slot, rest.split_once('-')?)))
            .ok_or_else(parts("incremental-snapshot-<base slot>-<slot>-<hash>"))?;
        let base_slot = parse_slot(file_name, "base slot", base_slot)?;
        let slot = parse_slot(file_name, "slot", slot)?;
        let hash = parse_hash(file_name, hash)?;
        if base_slot >= slot {
            return Err(NameError::BaseNotBelowSlot { name: name(), base_slot, slot });
        }
        Ok(Self::Incremental { base_slot, slot, hash, compression })
    }

    /// Returns the slot of the snapshot.
    pub fn slot(&self) -> u64 {
        match *self {
            Self::Full { slot, .. } | Self::Incremental { slot, .. } => slot,
        }
    }

    /// Returns the slot of the full snapshot that an incremental one is based on.
    pub fn base_slot(&self) -> Option<u64> {
        match *self {
            Self::Full { .. } => None,
            Self::Incremental { base_slot, .. } => Some(base_slot),
        }
    }

    /// Returns `full` or `incremental`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Full { .. } => "full",
            Self::Incremental { .. } => "incremental",
        }
    }

    /// Returns the expected hash of the snapshot's accounts. For an incremental snapshot it
    /// includes those of its base.
    pub fn hash(&self) -> ArchiveHash {
        match *self {
            Self::Full { hash, .. } | Self::Incremental { hash, .. } => hash,
        }
    }

    /// Returns the name of the same snapshot with another compression.
    #[must_use]
    pub fn with_compression(mut self, new: Compression) -> Self {
        match &mut self {
            Self::Full { compression, .. } | Self::Incremental { compression, .. } => {
                *compression = new;
            }
        }
        self
    }

    /// Returns the compression format of the archive.
    pub fn compression(&self) -> Compression {
        match *self {
            Self::Full { compression, .. } | Self::Incremental { compression, .. } => compression,
        }
    }
}

impl FromStr for ArchiveName {
    type Err = NameError;

    fn from_str(file_name: &str) -> Result<Self, NameError> {
        Self::parse(file_name)
    }
}

impl fmt::Display for ArchiveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { slot, hash, compression } => {
                write!(f, "{FULL}{slot}-{hash}{}", compression.extension())
            }
            Self::Incremental { base_slot, slot, hash, compression } => {
                write!(f, "{INCREMENTAL}{base_slot}-{slot}-{hash}{}", compression.extension())
            }
        }
    }
}

impl ArchiveHash {
    /// Creates a hash from these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses a hash from base58. Each hash has exactly one text, so the text need not be stored.
    pub fn parse(text: &str) -> Option<Self> {
        // 32 bytes never take more. Longer texts are not worth decoding.
        if text.len() > HASH_TEXT_BYTES_MAX {
            return None;
        }
        let mut bytes = [0; 32];
        let decoded = bs58::decode(text).onto(&mut bytes).ok()?;
        (decoded == bytes.len()).then_some(Self(bytes))
    }

    /// Returns the bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ArchiveHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bs58::encode(self.0).into_string())
    }
}

impl fmt::Debug for ArchiveHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArchiveHash({self})")
    }
}

impl Compression {
    /// Returns the suffix of the archive's name, with its dots.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zstd => ".tar.zst",
            Self::Lz4 => ".tar.lz4",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        })
    }
}

fn parse_slot(file_name: &str, field: &'static str, text: &str) -> Result<u64, NameError> {
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let slot = if plain { text.parse().ok() } else { None };
    slot.ok_or_else(|| NameError::Slot {
        name: printable(file_name.as_bytes()),
        field,
        found: printable(text.as_bytes()),
    })
}

fn parse_hash(file_name: &str, text: &str) -> Result<ArchiveHash, NameError> {
    ArchiveHash::parse(text).ok_or_else(|| NameError::Hash {
        name: printable(file_name.as_bytes()),
        found: printable(text.as_bytes()),
    })
}

const FULL: &str = "snapshot-";
const INCREMENTAL: &str = "incremental-snapshot-";
const HASH_TEXT_BYTES_MAX: usize = 44;

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU";

    fn parse(name: &str) -> ArchiveName {
        ArchiveName::parse(name).expect("a name of an archive")
    }

    #[test]
    fn a_full_archive() {
        let text = format!("snapshot-39-{HASH}.tar.zst");
        let name = parse(&text);
        let hash = ArchiveHash::parse(HASH).expect("a hash");
        assert_eq!(name, ArchiveName::Full { slot: 39, hash, compression: Compression::Zstd });
        assert_eq!((name.slot(), name.base_slot(), name.kind()), (39, None, "full"));
        assert_eq!((name.hash(), name.compression()), (hash, Compression::Zstd));
        assert_eq!(name.to_string(), text);
    }

    #[test]
    fn an_incremental_archive() {
        let text =
            "incremental-snapshot-39-47-FgdisjK9WWpr26styZuQubshv1Du6YnWze9a6UPdY24Q.tar.lz4";
        let name = parse(text);
        assert_eq!((name.slot(), name.base_slot(), name.kind()), (47, Some(39), "incremental"));
        assert_eq!(name.compression(), Compression::Lz4);
        assert_eq!(name.to_string(), text);
        assert_eq!(text.parse(), Ok(name));
    }

    #[test]
    fn slots_at_the_ends_of_their_range() {
        for slot in [0, 1, 10, u64::MAX] {
            let text = format!("snapshot-{slot}-{HASH}.tar.zst");
            assert_eq!((parse(&text).slot(), parse(&text).to_string()), (slot, text));
        }
    }

    #[test]
    fn hashes() {
        // Zeros are written as ones in base58: exactly 32 of them.
        let zeros = "1".repeat(32);
        assert_eq!(ArchiveHash::parse(&zeros), Some(ArchiveHash::new([0; 32])));
        assert_eq!(ArchiveHash::new([0; 32]).to_string(), zeros);
        assert_eq!(ArchiveHash::new([0xff; 32]).to_string().len(), HASH_TEXT_BYTES_MAX);
        for bytes in [[0xff; 32], [1; 32], std::array::from_fn(|i| u8::try_from(i).expect("< 32"))]
        {
            let hash = ArchiveHash::new(bytes);
            assert_eq!(ArchiveHash::parse(&hash.to_string()), Some(hash));
            assert_eq!(hash.as_bytes(), &bytes);
        }
        for text in ["", "1", &"1".repeat(31), &"1".repeat(33), &"z".repeat(44), &"1".repeat(45)] {
            assert_eq!(ArchiveHash::parse(text), None, "{text}");
        }
        for letter in ["0", "O", "I", "l", "-", "é", " "] {
            assert_eq!(ArchiveHash::parse(&HASH.replacen('q', letter, 1)), None, "{letter}");
        }
    }

    #[test]
    fn malformed_names() {
        let problem = |name: String| match ArchiveName::parse(&name) {
            Err(error) => error,
            Ok(accepted) => panic!("{accepted}"),
        };
        let hash = HASH;
        for name in [
            format!("tmp-snapshot-1-{hash}.tar.zst"),
            format!("Snapshot-1-{hash}.tar.zst"),
            format!("dir/snapshot-1-{hash}.tar.zst"),
            ".tar.zst".to_owned(),
        ] {
            assert_eq!(problem(name.clone()), NameError::Prefix { name });
        }
        for extension in ["", ".tar", ".tar.bz2", ".tar.gz", ".zst", ".tar.zst ", ".tar.ZST"] {
            let name = format!("snapshot-1-{hash}{extension}");
            assert_eq!(problem(name.clone()), NameError::Extension { name });
        }
        for (name, expected) in [
            ("snapshot-1.tar.zst", "snapshot-<slot>-<hash>"),
            ("incremental-snapshot-1.tar.zst", "incremental-snapshot-<base slot>-<slot>-<hash>"),
            ("incremental-snapshot-1-2.tar.zst", "incremental-snapshot-<base slot>-<slot>-<hash>"),
        ] {
            assert_eq!(
                problem(name.to_owned()),
                NameError::Parts { name: name.to_owned(), expected }
            );
        }
        for found in ["", "x", "+1", "01", "00", "1_0", "18446744073709551616", "１"] {
            let field = "slot";
            let name = format!("snapshot-{found}-{hash}.tar.zst");
            let found = found.to_owned();
            assert_eq!(problem(name.clone()), NameError::Slot { name, field, found });
        }
        let name = format!("incremental-snapshot-x-1-{hash}.tar.zst");
        let (field, found) = ("base slot", "x".to_owned());
        assert_eq!(problem(name.clone()), NameError::Slot { name, field, found });

        let name = format!("snapshot-1-2-{hash}.tar.zst");
        let found = format!("2-{hash}");
        assert_eq!(problem(name.clone()), NameError::Hash { name, found });

        for (base_slot, slot) in [(2, 2), (3, 2)] {
            let name = format!("incremental-snapshot-{base_slot}-{slot}-{hash}.tar.zst");
            let expected = NameError::BaseNotBelowSlot { name: name.clone(), base_slot, slot };
            assert_eq!(problem(name), expected);
        }
        let error = problem("evil\x1b[2J.tar.zst".to_owned());
        assert!(!error.to_string().contains('\x1b'));
    }
}
