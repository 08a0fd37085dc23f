//! External sort of what the check remembers about each account, in memory or in a file.
//!
//! Entries go into [`PARTITIONS`] partitions by the uppermost bits of their sort key
//! ([`Remembered::sort_bits`]). Partitions that outgrow the memory go to the file. At the end they
//! are taken out one by one, each small enough to be sorted in memory.

use std::{
    fs::File,
    hash::{BuildHasher as _, RandomState},
    io,
    os::unix::fs::FileExt as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{AccountsError, pool::lock};

/// Number of partitions that entries are sorted into, by the uppermost bits of their fingerprints.
/// 1.2 billion accounts give partitions of 19 MB, small enough for each thread to sort one.
pub const PARTITIONS: usize = 1 << PARTITION_BITS;
const PARTITION_BITS: u32 = 10;

/// Entries that a worker gathers for a partition before it takes the partition's lock. With entries
/// of 16 bytes this is 512 KiB for all partitions together, half of a core's second-level cache. A
/// guess.
const GATHERED_MAX: usize = 32;

/// Entries encoded at a time: reads and writes of 64 KiB, or a few times that for larger entries. A
/// guess.
const IO_ENTRIES: usize = 4096;

/// A fixed-size entry of an external sort.
pub trait Remembered: Copy + Send {
    /// Encoded length in bytes.
    const BYTES: usize;

    /// Returns the sort key. Its uppermost bits select the partition, so keys should be spread
    /// evenly: otherwise a partition may grow larger than the memory for sorting.
    fn sort_bits(&self) -> u64;

    /// Appends the encoded entry, [`BYTES`](Self::BYTES) bytes.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Decodes an entry from the bytes that [`encode`](Self::encode) wrote.
    fn decode(bytes: &[u8]) -> Self;
}

/// An account record that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Keyed hash of the public key.
    pub(super) fingerprint: u64,
    pub(super) place: Place,
}

impl Remembered for Entry {
    const BYTES: usize = 16;

    fn sort_bits(&self) -> u64 {
        self.fingerprint
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.fingerprint.to_le_bytes());
        bytes.extend(self.place.0.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self { fingerprint: u64_at(bytes, 0), place: Place(u64_at(bytes, 8)) }
    }
}

/// Returns the 8 bytes at `at` as a little-endian number.
///
/// # Panics
/// If fewer than 8 bytes are left.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// Position of a record: 32 bits storage number, 32 bits offset in units of 8 bytes (a storage has
/// at most 16 GiB). Places sort in the order of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64);

impl Place {
    /// Creates the place of the record at `offset` of a storage. The offset is a multiple of 8.
    pub fn new(storage: u32, offset: u64) -> Self {
        Self(u64::from(storage) << 32 | offset >> 3)
    }

    /// Returns the number of the storage.
    pub fn storage(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Returns the offset of the record in the storage.
    pub fn offset(self) -> u64 {
        (self.0 & 0xffff_ffff) << 3
    }

    /// Returns the place as a number, for a file.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the place for a number from [`to_bits`](Self::to_bits).
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// Computes fingerprints. Each run uses a new random key, so nobody can construct an archive whose
/// keys collide.
#[derive(Debug, Clone)]
pub(super) struct Fingerprints {
    key: RandomState,
    mask: u64,
}

impl Fingerprints {
    /// Creates fingerprints of only the uppermost `bits` of 64, which gives tests their collisions.
    pub(super) fn new(bits: u32) -> Self {
        Self { key: RandomState::new(), mask: u64::MAX << (64 - bits.clamp(1, 64)) }
    }

    pub(super) fn of(&self, pubkey: &[u8; 32]) -> u64 {
        self.key.hash_one(pubkey) & self.mask
    }
}

/// All entries, by partition.
#[derive(Debug)]
pub struct Entries<E> {
    partitions: Vec<Mutex<Partition<E>>>,
    /// Number of entries of one partition that are kept in memory.
    partition_entries_max: usize,
    memory_bytes_max: usize,
    spill: Option<File>,
    spill_end: AtomicU64,
}

#[derive(Debug)]
struct Partition<E> {
    entries: Vec<E>,
    /// Offset in the file and number of entries of each spilled run.
    runs: Vec<(u64, usize)>,
    spilt: usize,
}

impl<E> Default for Partition<E> {
    fn default() -> Self {
        Self { entries: Vec::new(), runs: Vec::new(), spilt: 0 }
    }
}

impl<E: Remembered> Entries<E> {
    /// Creates an empty set that keeps at most this many bytes in memory. The rest goes to `spill`,
    /// which must be open for reading and writing and not used by anything else.
    pub fn new(memory_bytes_max: usize, spill: Option<File>) -> Self {
        let partition_entries_max = (memory_bytes_max / size_of::<E>() / PARTITIONS).max(1);
        let partitions = (0..PARTITIONS).map(|_| Mutex::default()).collect();
        let spill_end = AtomicU64::new(0);
        Self { partitions, partition_entries_max, memory_bytes_max, spill, spill_end }
    }

    /// Returns the number of bytes in the file.
    pub fn spilt_bytes(&self) -> u64 {
        self.spill_end.load(Ordering::Relaxed)
    }

    /// Moves the remaining entries to the file too, if anything is there, so that the memory is
    /// free for sorting. Returns the number of entries in the largest partition.
    pub fn settle(&self) -> Result<usize, AccountsError> {
        let mut largest = 0;
        for partition in &self.partitions {
            let mut partition = lock(partition);
            if self.spilt_bytes() > 0 {
                self.spill(&mut partition)?;
                partition.entries = Vec::new();
            }
            largest = largest.max(partition.spilt + partition.entries.len());
        }
        Ok(largest)
    }

    /// Removes and returns the entries of a partition, unordered.
    pub fn take(&self, index: usize) -> Result<Vec<E>, AccountsError> {
        let partition = std::mem::take(&mut *lock(&self.partitions[index]));
        let mut entries = partition.entries;
        let Some(file) = self.spill.as_ref().filter(|_| partition.spilt > 0) else {
            return Ok(entries);
        };
        entries.reserve_exact(partition.spilt);
        let mut bytes = vec![0; IO_ENTRIES.min(partition.spilt) * E::BYTES];
        for (mut offset, mut count) in partition.runs {
            while count > 0 {
                let now = count.min(IO_ENTRIES);
                let bytes = &mut bytes[..now * E::BYTES];
                file.read_exact_at(bytes, offset).map_err(|source| failed("read", source))?;
                entries.extend(bytes.chunks_exact(E::BYTES).map(E::decode));
                (offset, count) = (offset + bytes.len() as u64, count - now);
            }
        }
        Ok(entries)
    }

    fn extend(&self, index: usize, gathered: &mut Vec<E>) -> Result<(), AccountsError> {
        let mut partition = lock(&self.partitions[index]);
        for &entry in gathered.iter() {
            if partition.entries.len() == self.partition_entries_max {
                self.spill(&mut partition)?;
            }
            if partition.entries.capacity() == 0 {
                // Reserved at once: memory that is never touched costs nothing.
                partition.entries.reserve_exact(self.partition_entries_max);
            }
            partition.entries.push(entry);
        }
        gathered.clear();
        Ok(())
    }

    fn spill(&self, partition: &mut Partition<E>) -> Result<(), AccountsError> {
        let Some(file) = &self.spill else {
            return Err(AccountsError::NoSpillFile { memory_bytes_max: self.memory_bytes_max });
        };
        let count = partition.entries.len();
        let mut offset = self.spill_end.fetch_add((count * E::BYTES) as u64, Ordering::Relaxed);
        if count > 0 {
            partition.runs.push((offset, count));
        }
        let mut bytes = Vec::with_capacity(count.min(IO_ENTRIES) * E::BYTES);
        for entries in partition.entries.chunks(IO_ENTRIES) {
            bytes.clear();
            for entry in entries {
                entry.encode(&mut bytes);
            }
            file.write_all_at(&bytes, offset).map_err(|source| failed("write", source))?;
            offset += bytes.len() as u64;
        }
        partition.spilt += count;
        partition.entries.clear();
        Ok(())
    }
}

/// Ends the gathering. Returns how many partitions can be sorted at a time in at most a quarter of
/// the memory. Fails if that is less than one.
pub fn sorting<E: Remembered>(
    entries: &Entries<E>,
    memory_bytes_max: usize,
) -> Result<usize, AccountsError> {
    let largest = entries.settle()?.max(1);
    let sorting_bytes_max = memory_bytes_max / 4;
    let limit = (sorting_bytes_max / size_of::<E>()).max(1024);
    if largest > limit {
        return Err(AccountsError::PartitionTooLarge { entries: largest, limit });
    }
    Ok((sorting_bytes_max / (largest * size_of::<E>())).max(1))
}

/// Entries gathered by one worker.
#[derive(Debug)]
pub struct Gathered<E>(Vec<Vec<E>>);

impl<E: Remembered> Gathered<E> {
    /// Creates an empty set.
    #[allow(clippy::new_without_default)] // too large for a default: half a megabyte
    pub fn new() -> Self {
        Self((0..PARTITIONS).map(|_| Vec::with_capacity(GATHERED_MAX)).collect())
    }

    /// Gathers one entry. Full batches move on to `entries`.
    pub fn push(&mut self, entry: E, entries: &Entries<E>) -> Result<(), AccountsError> {
        let index = (entry.sort_bits() >> (64 - PARTITION_BITS)) as usize;
        let gathered = &mut self.0[index];
        gathered.push(entry);
        if gathered.len() == GATHERED_MAX { entries.extend(index, gathered) } else { Ok(()) }
    }

    /// Moves all gathered entries to `entries`.
    pub fn flush(&mut self, entries: &Entries<E>) -> Result<(), AccountsError> {
        let mut partitions = self.0.iter_mut().enumerate();
        partitions.try_for_each(|(index, gathered)| entries.extend(index, gathered))
    }
}

fn failed(doing: &'static str, source: io::Error) -> AccountsError {
    AccountsError::Spill { doing, source: Arc::new(source) }
}
