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

/// Returns the hash of blocks that are spread evenly from the first byte to the last. For a small
/// archive this covers all bytes.
fn samples(archive: &dyn ReadAt, archive_bytes: u64) -> Result<u128, IndexError> {
    let mut hasher = DigestKind::Xxh3.hasher();
    hasher.update(&archive_bytes.to_le_bytes());
    let mut block = [0; SAMPLE_BYTES];
    let block_bytes = SAMPLE_BYTES as u64;
    if archive_bytes <= SAMPLES * block_bytes {
        let mut offset = 0;
        while offset < archive_bytes {
            let piece = usize::try_from(archive_bytes - offset).unwrap_or(usize::MAX);
            let piece = &mut block[..piece.min(SAMPLE_BYTES)];
            read_into(archive, piece, offset)?;
            hasher.update(piece);
            offset += piece.len() as u64;
        }
        return Ok(digest_of(&hasher));
    }
    let last = archive_bytes - block_bytes;
    let place = |index: u64| {
        let at = u128::from(last) * u128::from(index) / u128::from(SAMPLES - 1);
        u64::try_from(at).unwrap_or(last)
    };
    (0..SAMPLES).for_each(|index| archive.will_read(place(index), block_bytes));
    for index in 0..SAMPLES {
        read_into(archive, &mut block, place(index))?;
        hasher.update(&block);
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
}
