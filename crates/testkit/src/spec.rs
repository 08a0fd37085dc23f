//! Specification of a generated archive: [`ArchiveSpec`].

use crate::content::{Content, RECORD_BYTES_MIN};
use crate::size::{BadSize, parse_size};
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::str::FromStr;
use thiserror::Error;

/// Everything that determines an archive's bytes, and the number of threads, which does not.
///
/// ```
/// use unsnap_testkit::spec::{ArchiveSpec, FileSizes, Frames};
///
/// let many_small = ArchiveSpec {
///     total_bytes: 1_640_000_000,
///     file_sizes: FileSizes::Fixed(8192),
///     frames: Frames::AGAVE,
///     ..ArchiveSpec::default()
/// };
/// assert!(many_small.name().starts_with("snapshot-350000000-"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSpec {
    /// Total size of all account files in bytes. Tar headers and padding, the bank file and the
    /// status cache add about half a percent.
    pub total_bytes: u64,
    /// Sizes of the account files.
    pub file_sizes: FileSizes,
    /// Number of account files. By default as many as the total requires.
    pub files: Option<u64>,
    /// Kind of account data.
    pub content: Content,
    /// Compression of the tar archive.
    pub compression: Compression,
    /// Division of the compressed stream into frames.
    pub frames: Frames,
    /// Compression level of zstd. Validators use 1.
    pub level: i32,
    /// Whether zstd frames end in a checksum. Those of validators do not.
    pub checksum: bool,
    /// Seed of all random content.
    pub seed: u64,
    /// Slot of the snapshot.
    pub slot: u64,
    /// Slot of the full snapshot that this one is based on. `None` generates a full snapshot.
    pub base_slot: Option<u64>,
    /// Source of the hash and total of all accounts.
    pub lattice_hash: LatticeHash,
    /// Threads that generate content and compress. By default one per processor. Each holds about
    /// 2.5 frames in memory.
    pub threads: Option<NonZeroUsize>,
}

impl Default for ArchiveSpec {
    /// Returns a full snapshot of 16 MB as Agave 4.2 writes it.
    fn default() -> Self {
        Self {
            total_bytes: 16_000_000,
            file_sizes: FileSizes::Mainnet,
            files: None,
            content: Content::Tokens,
            compression: Compression::Zstd,
            frames: Frames::One,
            level: 1,
            checksum: false,
            seed: 0,
            slot: 350_000_000,
            base_slot: None,
            lattice_hash: LatticeHash::Random,
            threads: None,
        }
    }
}

impl ArchiveSpec {
    /// Returns the number of threads to use.
    pub fn thread_count(&self) -> NonZeroUsize {
        self.threads
            .or_else(|| std::thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }
}

/// Source of the hash and the capitalization in a bank file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LatticeHash {
    /// Random bytes that depend on the seed, and a fixed capitalization: enough for the bank file
    /// to prove the archive's name.
    #[default]
    Random,
    /// The values of the archive's accounts, which are correct for a full archive. All accounts are
    /// generated and hashed, twice, whenever the name or the archive is requested, so this suits
    /// small archives only.
    OfAccounts,
    /// The correct values for an incremental archive: those of its accounts and this full archive's
    /// together.
    OfAccountsUpon(Box<ArchiveSpec>),
}

/// Sizes of account files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSizes {
    /// A few hundred bytes to tens of MB with a mean of about 730 KB, as on mainnet.
    Mainnet,
    /// The same size for all, in bytes.
    Fixed(u64),
}

/// Compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// zstd: the default of validators.
    Zstd,
    /// lz4: an option of validators.
    Lz4,
    /// No compression. Validators refuse this.
    None,
}

impl Compression {
    /// Returns the suffix of such an archive's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zstd => "tar.zst",
            Self::Lz4 => "tar.lz4",
            Self::None => "tar",
        }
    }
}

/// Division of a compressed stream into frames. Without compression it has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// One frame, streamed: no content size, at level 1 a window of 512 KiB. Agave until 4.2.
    One,
    /// Independent frames of this many raw bytes, each compressed in one call and stating its
    /// content size.
    Sized(u64),
    /// Groups of frames for every entry, see [`firedancer`](crate::firedancer). zstd only.
    Firedancer,
}

impl Frames {
    /// Agave from 4.3 on: frames of 32 MiB.
    pub const AGAVE: Self = Self::Sized(32 << 20);
    /// Longest supported frame, because every thread holds one in memory.
    pub const BYTES_MAX: u64 = 1 << 30;
}

/// A text that names none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not one of: {choices}")]
pub struct UnknownChoice {
    /// The given text.
    pub text: String,
    /// The valid choices.
    pub choices: &'static str,
}

impl FromStr for FileSizes {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        let unknown = |_: BadSize| UnknownChoice {
            text: text.to_owned(),
            choices: "mainnet, fixed:<SIZE> (such as fixed:8KiB)",
        };
        match text {
            "mainnet" => Ok(Self::Mainnet),
            _ => parse_size(text.strip_prefix("fixed:").unwrap_or_default())
                .map(Self::Fixed)
                .map_err(unknown),
        }
    }
}

impl FromStr for Compression {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        match text {
            "zstd" => Ok(Self::Zstd),
            "lz4" => Ok(Self::Lz4),
            "none" => Ok(Self::None),
            _ => Err(UnknownChoice { text: text.to_owned(), choices: "zstd, lz4, none" }),
        }
    }
}

impl FromStr for Frames {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        match text {
            "one" => Ok(Self::One),
            "agave" => Ok(Self::AGAVE),
            "firedancer" => Ok(Self::Firedancer),
            _ => match parse_size(text) {
                Ok(bytes @ 1..=Self::BYTES_MAX) => Ok(Self::Sized(bytes)),
                _ => Err(UnknownChoice {
                    text: text.to_owned(),
                    choices: "one, agave, firedancer, a size from 1B to 1GiB",
                }),
            },
        }
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Sized(bytes) => write!(f, "{bytes}B"),
            Self::Firedancer => f.write_str("firedancer"),
        }
    }
}

/// The reason why an archive was not generated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// More files than slots to name them after.
    #[error("{files} account files need as many slots, but only {slots} are available")]
    TooManyFiles {
        /// Number of files requested.
        files: u64,
        /// Number of slots after the base, up to the snapshot's.
        slots: u64,
    },
    /// No files at all.
    #[error("a snapshot needs at least one account file")]
    NoFiles,
    /// Account files too short for a record, or too long for a tar header.
    #[error(
        "an account file cannot have {bytes} bytes: it has at least {RECORD_BYTES_MIN} \
         and less than 8 GiB"
    )]
    FileSize {
        /// The requested size.
        bytes: u64,
    },
    /// A total that is too small for the files.
    #[error(
        "{files} account files of at least {RECORD_BYTES_MIN} bytes do not fit in {total_bytes}"
    )]
    TotalTooSmall {
        /// Number of files requested.
        files: u64,
        /// The requested total.
        total_bytes: u64,
    },
    /// An incremental snapshot that does not come after its base.
    #[error("the base slot {base_slot} is not below the slot {slot}")]
    BaseSlot {
        /// The requested base.
        base_slot: u64,
        /// The requested slot.
        slot: u64,
    },
    /// A level that libzstd does not support.
    #[error("zstd has no level {level}")]
    Level {
        /// The requested level.
        level: i32,
    },
    /// Firedancer's frames without zstd.
    #[error("Firedancer's frames require zstd")]
    FiredancerNeedsZstd,
    /// The archive could not be written.
    #[error("cannot write the archive")]
    Write(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read() {
        assert_eq!("mainnet".parse(), Ok(FileSizes::Mainnet));
        assert_eq!("fixed:8KiB".parse(), Ok(FileSizes::Fixed(8192)));
        assert_eq!("agave".parse(), Ok(Frames::Sized(32 << 20)));
        assert_eq!("1MiB".parse(), Ok(Frames::Sized(1 << 20)));
        assert_eq!("firedancer".parse(), Ok(Frames::Firedancer));
        assert_eq!("lz4".parse(), Ok(Compression::Lz4));
        for bad in ["", "fixed:", "fixed", "8KiB"] {
            assert!(bad.parse::<FileSizes>().is_err(), "{bad}");
        }
        for bad in ["", "0", "2GiB", "two"] {
            assert!(bad.parse::<Frames>().is_err(), "{bad}");
        }
        assert!("gzip".parse::<Compression>().is_err());
    }
}
