//! The shadow of a state: second names of its storages, outside of the directory from which a
//! validator removes files.
//!
//! A validator that does not end by `agave-validator exit` may have removed or replaced storages of
//! the state from which it started, and then cannot start from it again. Validators never write to
//! storages that exist when they start, so a hard link is as good as a copy. A list beside the
//! links shows whether all of them exist with their original sizes.

use twox_hash::XxHash3_64;

use crate::format::Storage;

/// Name of the list in the directory of a shadow.
pub const SHADOW_LIST: &str = "unsnap-shadow.list";

/// First bytes of a list.
const MAGIC: &[u8; 16] = b"unsnap shadow 1\n";

/// Bytes of a storage: slot, id and size.
const ENTRY_BYTES: usize = 8 + 4 + 8;

/// Longest list that is read: one of 10 million storages, twice as many as an archive may have.
pub const SHADOW_LIST_BYTES_MAX: u64 = 32 + 8 + 10_000_000 * ENTRY_BYTES as u64;

/// List of the storages in a shadow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShadowList {
    /// Slot of the snapshot.
    pub slot: u64,
    /// Storages of this accounts path with their sizes in bytes.
    pub storages: Vec<(Storage, u64)>,
}

/// Error: the bytes are not a complete list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{SHADOW_LIST} is damaged")]
pub struct DamagedList;

impl ShadowList {
    /// Encodes the list. All integers are little-endian: the magic bytes, the slot, the number of
    /// storages, the slot, id and size of each storage, and the XXH3 hash of all bytes before.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(40 + self.storages.len() * ENTRY_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.slot.to_le_bytes());
        bytes.extend_from_slice(&(self.storages.len() as u64).to_le_bytes());
        for (Storage { slot, id }, size) in &self.storages {
            bytes.extend_from_slice(&slot.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
        }
        let hash = XxHash3_64::oneshot(&bytes);
        bytes.extend_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Decodes a list of at most [`SHADOW_LIST_BYTES_MAX`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DamagedList> {
        let (content, hash) = bytes.split_last_chunk::<8>().ok_or(DamagedList)?;
        if XxHash3_64::oneshot(content) != u64::from_le_bytes(*hash) {
            return Err(DamagedList);
        }
        let rest = content.strip_prefix(MAGIC).ok_or(DamagedList)?;
        let (slot, rest) = rest.split_first_chunk::<8>().ok_or(DamagedList)?;
        let (count, entries) = rest.split_first_chunk::<8>().ok_or(DamagedList)?;
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        if !rest.is_empty() || entries.len() as u64 != u64::from_le_bytes(*count) {
            return Err(DamagedList);
        }
        let entry = |entry: &[u8; ENTRY_BYTES]| {
            let number =
                |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap_or_default());
            let id = u32::from_le_bytes(entry[8..12].try_into().unwrap_or_default());
            (Storage { slot: number(0), id }, number(12))
        };
        let storages = entries.iter().map(entry).collect();
        Ok(Self { slot: u64::from_le_bytes(*slot), storages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_back_and_damage_is_noticed() {
        let storages = vec![(Storage { slot: 7, id: 3 }, 4096), (Storage { slot: 9, id: 0 }, 1)];
        for list in [ShadowList { slot: 9, storages }, ShadowList::default()] {
            let bytes = list.encode();
            assert_eq!(ShadowList::decode(&bytes), Ok(list));
            for end in 0..bytes.len() {
                assert_eq!(ShadowList::decode(&bytes[..end]), Err(DamagedList), "{end}");
                let mut changed = bytes.clone();
                changed[end] ^= 1;
                assert_eq!(ShadowList::decode(&changed), Err(DamagedList), "{end}");
            }
        }
    }
}
