//! The side-car: a file beside an archive that stores its index.
//!
//! ```text
//!   0   8  "UNSNAPIX"
//!   8   4  version, 1
//!  12   1  encoding of frames: 1 zstd, 2 lz4, 3 none
//!  13   3  zero
//!  16   8  size of the archive                32  16  XXH3 of the archive
//!  24   8  decoded size                       48  16  XXH3 of its samples
//!  64   8  frames                             72   8  bytes of their section
//!  80   8  entries                            88   8  bytes of their section
//!  96      frames: size × 2, plus 1 if it is skippable; decoded size if not
//!   …      entries: see the module entries
//!   …  16  XXH3 of all bytes before
//! ```
//!
//! Numbers of fixed width are little-endian, those of the sections are LEB128. The side-car of a
//! mainnet archive takes about 6 MB. Anyone who can write beside the archive can write a side-car,
//! and it may be damaged. So it is as untrusted as the archive, and no allocation exceeds what its
//! own length justifies.

use std::path::{Path, PathBuf};

use unsnap_source::{Digest, DigestKind};

use crate::{Encoding, EntryTable, FRAMES_MAX, FrameTable, IndexError, identity::Identity, varint};

const MAGIC: [u8; 8] = *b"UNSNAPIX";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 96;
const CHECKSUM_BYTES: usize = 16;

/// Suffix appended to an archive's name.
const SUFFIX: &str = ".unsnap-index";

/// Largest side-car that is read: twice the size for twenty million frames and five million
/// entries.
pub const SIDE_CAR_BYTES_MAX: u64 = 512 << 20;

/// Returns the path of an archive's index, which lies beside it.
pub fn side_car_path(archive: &Path) -> PathBuf {
    let mut path = archive.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Frames and entries of an archive, recorded in a pass over all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Identity of the archive.
    pub identity: Identity,
    /// Its frames.
    pub frames: FrameTable,
    /// Its entries.
    pub entries: EntryTable,
}

impl Index {
    /// Combines the results of a pass. Refuses contradictory results.
    pub fn new(
        identity: Identity,
        frames: FrameTable,
        entries: EntryTable,
    ) -> Result<Self, IndexError> {
        let bad = IndexError::Inconsistent;
        if frames.archive_bytes() != identity.archive_bytes {
            return Err(bad("its frames do not add up to the size of the archive"));
        }
        if entries.raw_end() > frames.raw_bytes() {
            return Err(bad("its entries extend beyond its frames"));
        }
        Ok(Self { identity, frames, entries })
    }

    /// Returns the bytes of the side-car.
    pub fn encode(&self) -> Vec<u8> {
        let frames = encode_frames(&self.frames);
        let entries = self.entries.encode();
        let length = HEADER_BYTES + frames.len() + entries.len() + CHECKSUM_BYTES;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([encoding_code(self.frames.encoding()), 0, 0, 0]);
        bytes.extend(self.identity.archive_bytes.to_le_bytes());
        bytes.extend(self.frames.raw_bytes().to_le_bytes());
        bytes.extend(self.identity.digest.to_le_bytes());
        bytes.extend(self.identity.samples.to_le_bytes());
        for (count, section) in
            [(self.frames.frames().len(), &frames), (self.entries.entries().len(), &entries)]
        {
            bytes.extend((count as u64).to_le_bytes());
            bytes.extend((section.len() as u64).to_le_bytes());
        }
        bytes.extend(frames);
        bytes.extend(entries);
        let checksum = checksum(&bytes);
        bytes.extend(checksum);
        bytes
    }

    /// Parses a side-car. Accepts any bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, IndexError> {
        let bad = IndexError::Inconsistent;
        if bytes.len() as u64 > SIDE_CAR_BYTES_MAX {
            let (bytes, limit) = (bytes.len() as u64, SIDE_CAR_BYTES_MAX);
            return Err(IndexError::TooLarge { bytes, limit });
        }
        if !bytes.starts_with(&MAGIC) {
            return Err(IndexError::NotAnIndex("its magic number is wrong"));
        }
        let (content, stored) = match bytes.len().checked_sub(CHECKSUM_BYTES) {
            Some(length) if length >= HEADER_BYTES => bytes.split_at(length),
            _ => return Err(IndexError::NotAnIndex("it is too short")),
        };
        let field = Fields(content);
        let found = u32::from_le_bytes(field.at(8));
        if found != VERSION {
            return Err(IndexError::Version { found, expected: VERSION });
        }
        if checksum(content)[..] != *stored {
            return Err(IndexError::Checksum);
        }
        let [code, reserved @ ..] = field.at::<4>(12);
        let encoding = match (code, reserved) {
            (1, [0, 0, 0]) => Encoding::Zstd,
            (2, [0, 0, 0]) => Encoding::Lz4,
            (3, [0, 0, 0]) => Encoding::Plain,
            _ => return Err(bad("the encoding of its frames is unknown")),
        };
        let identity = Identity {
            archive_bytes: field.number(16),
            digest: u128::from_le_bytes(field.at(32)),
            samples: u128::from_le_bytes(field.at(48)),
        };
        let mut sections = varint::Reader::new(&content[HEADER_BYTES..]);
        let frames = decode_frames(encoding, field.number(64), sections.take(field.number(72))?)?;
        let (count, section) = (field.number(80), sections.take(field.number(88))?);
        let entries = EntryTable::decode(section, count)?;
        if !sections.is_empty() || frames.raw_bytes() != field.number(24) {
            return Err(bad("its sections do not add up to its size"));
        }
        Self::new(identity, frames, entries)
    }

    /// Returns the digest of the whole archive.
    pub fn digest(&self) -> Digest {
        Digest::Xxh3(self.identity.digest)
    }
}

fn encode_frames(table: &FrameTable) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in table.frames() {
        varint::put(&mut bytes, frame.bytes << 1 | u64::from(frame.skippable));
        if !frame.skippable {
            varint::put(&mut bytes, frame.raw_bytes);
        }
    }
    bytes
}

fn decode_frames(encoding: Encoding, count: u64, bytes: &[u8]) -> Result<FrameTable, IndexError> {
    let bad = IndexError::Inconsistent;
    if count > FRAMES_MAX {
        return Err(bad("it has too many frames"));
    }
    let mut reader = varint::Reader::new(bytes);
    let mut table = FrameTable::new(encoding);
    for _ in 0..count {
        let size = reader.number()?;
        let raw_bytes = if size & 1 == 0 { Some(reader.number()?) } else { None };
        table.push(size >> 1, raw_bytes)?;
    }
    if !reader.is_empty() {
        return Err(bad("there is data after its frames"));
    }
    if encoding == Encoding::Plain && table != FrameTable::plain(table.archive_bytes()) {
        return Err(bad("a plain tar must be one frame"));
    }
    Ok(table)
}

fn encoding_code(encoding: Encoding) -> u8 {
    match encoding {
        Encoding::Zstd => 1,
        Encoding::Lz4 => 2,
        Encoding::Plain => 3,
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = DigestKind::Xxh3.hasher();
    hasher.update(bytes);
    crate::identity::digest_of(&hasher).to_le_bytes()
}

/// The fields of a complete header.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn at<const BYTES: usize>(&self, at: usize) -> [u8; BYTES] {
        let field = self.0.get(at..).and_then(|rest| rest.first_chunk());
        field.copied().unwrap_or([0; BYTES])
    }

    fn number(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.at(at))
    }
}
