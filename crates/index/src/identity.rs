//! Check that an index belongs to an archive.
//!
//! An archive's identity is its digest, but computing that takes a read of every byte: 110 GB. So
//! there are two checks:
//!
//! | check | reads |
//! |---|---|
//! | [`Identity::check`], before every use | size and 64 spread blocks, both ends included |
//! | [`Identity::check_digest`], on request | everything |
//!
//! The first does not notice a change between these blocks that keeps the archive's size. Other
//! checks catch such changes: each frame must decode to exactly the length recorded in the index,
//! and each entry's content must follow a header with its name and size. So an index of another
//! archive causes an error and never returns wrong bytes under an entry's name, unless somebody has
//! changed the content of a frame and nothing else. For that case, and for archives of unknown
//! origin, there is the digest.
//!
//! The modification time is ignored: a copy has another one but is the same archive.

use unsnap_decode::ReadAt;
use unsnap_source::{Digest, DigestKind, Hasher};

use crate::{IndexError, reading::read_into};

/// Number of blocks that are checked before every use, and their size. 64 reads take a few
/// milliseconds on any disk without moving parts.
const SAMPLES: u64 = 64;
const SAMPLE_BYTES: usize = 4096;

/// Bytes per read when the whole archive is digested. A guess.
const DIGEST_READ_BYTES: usize = 4 << 20;

/// The identity of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its size.
    pub archive_bytes: u64,
    /// XXH3 (128 bits) of the whole archive, as `xxhsum -H2` prints it.
    pub digest: u128,
    /// XXH3 (128 bits) of the blocks that are checked before every use.
    pub samples: u128,
}

impl Identity {
    /// Creates the identity of an archive with a known digest.
    pub fn of(archive: &dyn ReadAt, archive_bytes: u64, digest: u128) -> Result<Self, IndexError> {
        Ok(Self { archive_bytes, digest, samples: samples(archive, archive_bytes)? })
    }

    /// Checks that an archive appears to be this one: see the module.
    pub fn check(&self, archive: &dyn ReadAt, archive_bytes: u64) -> Result<(), IndexError> {
        if archive_bytes != self.archive_bytes {
            return Err(IndexError::Stale("the archive's size differs"));
        }
        if samples(archive, archive_bytes)? != self.samples {
            return Err(IndexError::Stale("the archive's content has changed"));
        }
        Ok(())
    }

    /// Checks all bytes of an archive against its digest. `progress` receives the number of bytes
    /// read.
    pub fn check_digest(
        &self,
        archive: &dyn ReadAt,
        archive_bytes: u64,
        progress: &mut dyn FnMut(u64) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        self.check(archive, archive_bytes)?;
        let mut hasher = DigestKind::Xxh3.hasher();
        let mut buffer = vec![0; DIGEST_READ_BYTES];
        let mut offset = 0;
        while offset < archive_bytes {
            progress(offset)?;
            let left = usize::try_from(archive_bytes - offset).unwrap_or(usize::MAX);
            let piece = &mut buffer[..left.min(DIGEST_READ_BYTES)];
            read_into(archive, piece, offset)?;
            hasher.update(piece);
            offset += piece.len() as u64;
        }
        progress(offset)?;
        if digest_of(&hasher) == self.digest {
            return Ok(());
        }
        Err(IndexError::Stale("the archive's digest differs"))
    }
}

/// The blocks that are checked before every use, gathered while an archive passes by.
#[derive(Debug)]
pub struct Gathered {
    archive_bytes: u64,
    /// Offset and bytes of each block, in order. Blocks of a short archive overlap.
    blocks: Vec<(u64, Vec<u8>)>,
    /// Number of bytes that have passed by.
    passed: u64,
}

impl Gathered {
    /// Prepares for an archive of this size.
    pub fn new(archive_bytes: u64) -> Self {
        let blocks = places(archive_bytes).map(|(at, bytes)| (at, Vec::with_capacity(bytes)));
        Self { archive_bytes, blocks: blocks.collect(), passed: 0 }
    }

    /// Takes the next bytes of the archive.
    pub fn pass(&mut self, bytes: &[u8]) {
        let (first, end) = (self.passed, self.passed + bytes.len() as u64);
        for (at, block) in &mut self.blocks {
            let next = *at + block.len() as u64;
            if next < first || next >= end || block.len() == block.capacity() {
                continue;
            }
            let from = usize::try_from(next - first).unwrap_or(usize::MAX);
            let left = block.capacity() - block.len();
            block.extend_from_slice(&bytes[from..bytes.len().min(from.saturating_add(left))]);
        }
        self.passed = end;
    }

    /// Returns the identity of the archive, which has passed by whole.
    ///
    /// # Errors
    ///
    /// [`IndexError::Inconsistent`] if it has another size.
    pub fn identity(self, digest: u128) -> Result<Identity, IndexError> {
        let Self { archive_bytes, blocks, passed } = self;
        if passed != archive_bytes {
            return Err(IndexError::Inconsistent("the archive has another size than announced"));
        }
        let mut hasher = DigestKind::Xxh3.hasher();
        hasher.update(&archive_bytes.to_le_bytes());
        for (_, block) in &blocks {
            hasher.update(block);
        }
        Ok(Identity { archive_bytes, digest, samples: digest_of(&hasher) })
    }
}

/// Returns the places of the blocks that are checked, in order: spread evenly from the first byte to
/// the last. For a small archive they are all bytes.
fn places(archive_bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let block_bytes = SAMPLE_BYTES as u64;
    let is_small = archive_bytes <= SAMPLES * block_bytes;
    let count = if is_small { archive_bytes.div_ceil(block_bytes) } else { SAMPLES };
    let last = archive_bytes.saturating_sub(block_bytes);
    (0..count).map(move |index| {
        let at = if is_small {
            index * block_bytes
        } else {
            let at = u128::from(last) * u128::from(index) / u128::from(SAMPLES - 1);
            u64::try_from(at).unwrap_or(last)
        };
        let left = usize::try_from(archive_bytes - at).unwrap_or(usize::MAX);
        (at, left.min(SAMPLE_BYTES))
    })
}

/// Returns the hash of these blocks.
fn samples(archive: &dyn ReadAt, archive_bytes: u64) -> Result<u128, IndexError> {
    let mut hasher = DigestKind::Xxh3.hasher();
    hasher.update(&archive_bytes.to_le_bytes());
    let mut block = [0; SAMPLE_BYTES];
    places(archive_bytes).for_each(|(at, bytes)| archive.will_read(at, bytes as u64));
    for (at, bytes) in places(archive_bytes) {
        read_into(archive, &mut block[..bytes], at)?;
        hasher.update(&block[..bytes]);
    }
    Ok(digest_of(&hasher))
}

pub(crate) fn digest_of(hasher: &Hasher) -> u128 {
    match hasher.digest() {
        Digest::Xxh3(value) => value,
        Digest::Blake3(bytes) => {
            u128::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(archive: &[u8]) -> Identity {
        let mut hasher = DigestKind::Xxh3.hasher();
        hasher.update(archive);
        Identity::of(&archive, archive.len() as u64, digest_of(&hasher)).unwrap()
    }

    #[test]
    fn an_archive_is_recognised_and_another_is_not() {
        for length in [1, 5000, 262_144, 262_145, 3_000_000] {
            let archive: Vec<u8> =
                (0..length).map(|n: u32| (n.wrapping_mul(n) >> 7).to_le_bytes()[0]).collect();
            let (identity, bytes) = (identity(&archive), archive.len() as u64);
            identity.check(&archive.as_slice(), bytes).unwrap();
            identity.check_digest(&archive.as_slice(), bytes, &mut |_| Ok(())).unwrap();
            // Every byte of the ends is checked, and every byte of a small archive.
            for at in [0, archive.len() / 2, archive.len() - 1] {
                let mut other = archive.clone();
                other[at] ^= 1;
                let noticed = identity.check(&other.as_slice(), bytes).is_err();
                assert!(noticed || (length > 262_144 && at == archive.len() / 2), "{length} {at}");
                let digest = identity.check_digest(&other.as_slice(), bytes, &mut |_| Ok(()));
                assert!(matches!(digest, Err(IndexError::Stale(_))));
            }
            let longer = [&archive[..], &[0]].concat();
            assert!(identity.check(&longer.as_slice(), bytes + 1).is_err());
        }
    }

    #[test]
    fn an_archive_that_passes_by_in_pieces_has_the_same_identity() {
        for length in [1_usize, 4096, 5000, 262_144, 262_145, 262_200, 3_000_000] {
            let archive: Vec<u8> =
                (0..length).map(|n| (n.wrapping_mul(n) >> 7).to_le_bytes()[0]).collect();
            let expected = identity(&archive);
            for piece in [1, 7, 4096, 100_000, length] {
                let mut gathered = Gathered::new(length as u64);
                archive.chunks(piece.max(length / 5000)).for_each(|piece| gathered.pass(piece));
                assert_eq!(
                    gathered.identity(expected.digest).unwrap(),
                    expected,
                    "{length} {piece}"
                );
            }
            let mut cut = Gathered::new(length as u64);
            cut.pass(&archive[1..]);
            assert!(cut.identity(expected.digest).is_err());
        }
    }
}
