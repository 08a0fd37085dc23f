//! The accounts lattice hash, whose checksum is part of a snapshot's name.
//!
//! Each account has a hash of 1024 elements of 16 bits: 2048 bytes of BLAKE3 output over `lamports
//! ‖ data ‖ executable ‖ owner ‖ public key`, read as little-endian numbers. The hash of a set of
//! accounts is the sum of their hashes, element by element and modulo 2¹⁶. So it does not depend on
//! any order, and an account that was added can be subtracted again. An account without lamports
//! has the hash zero. The name of an archive holds the BLAKE3 hash of the sum, in base58.
//!
//! Source: `lt_hash.rs` of `solana-lattice-hash` 4.2.2 and `lt_hash_account` of
//! `solana-accounts-db`.

mod hasher;
mod lanes;

pub(crate) use hasher::AccountInParts;
pub use hasher::{LatticeHasher, Vectors};

use std::fmt;

/// Number of elements in a lattice hash.
const ELEMENTS: usize = 1024;

/// The lattice hash of an account or of a set of accounts.
#[derive(Clone, PartialEq, Eq)]
pub struct LatticeHash(pub [u16; ELEMENTS]);

impl LatticeHash {
    /// Length of a lattice hash in bytes.
    pub const BYTES: usize = ELEMENTS * 2;

    /// The hash of the empty set.
    pub const ZERO: Self = Self([0; ELEMENTS]);

    /// Parses a hash in the bank file's format: elements in order, little-endian.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (elements, _) = bytes.as_chunks::<2>();
        Self(std::array::from_fn(|index| u16::from_le_bytes(elements[index])))
    }

    /// Returns the hash in the bank file's format.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (elements, _) = bytes.as_chunks_mut::<2>();
        for (bytes, element) in elements.iter_mut().zip(self.0) {
            *bytes = element.to_le_bytes();
        }
        bytes
    }

    /// Adds the accounts that `other` is the hash of.
    pub fn add(&mut self, other: &Self) {
        for (sum, element) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(element);
        }
    }

    /// Subtracts the accounts that `other` is the hash of.
    pub fn subtract(&mut self, other: &Self) {
        for (sum, element) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_sub(element);
        }
    }

    /// Returns the 32 bytes whose base58 form is in the name of an archive.
    pub fn checksum(&self) -> [u8; 32] {
        blake3::hash(&self.to_bytes()).into()
    }
}

impl fmt::Debug for LatticeHash {
    /// Writes the checksum: 1024 numbers would help nobody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LatticeHash({})", bs58::encode(self.checksum()).into_string())
    }
}

#[cfg(test)]
mod tests;
