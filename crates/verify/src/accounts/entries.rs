//! What is remembered of each account, in memory or in a file, to be sorted at the end.
//!
//! An external sort: what passes is put into [`PARTITIONS`] parts by the uppermost bits of a number
//! that is its own ([`Remembered::sort_bits`]); parts that outgrow the memory go to the file. At the
//! end they are taken out one by one, each small enough to be sorted in memory.

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

/// Parts that entries are sorted in, by the uppermost bits of their fingerprints. 1.2 billion
/// accounts make parts of 19 MB, small enough to be sorted one for each thread.
pub const PARTITIONS: usize = 1 << PARTITION_BITS;
const PARTITION_BITS: u32 = 10;

/// Entries that a worker gathers for a partition before it takes the partition's lock: with those of
/// 16 bytes, 512 KiB for all partitions together, half of a core's second-level cache. A guess.
const GATHERED_MAX: usize = 32;

/// Entries that are encoded at a time: writes and reads of 64 KiB, or of some times that for larger
/// ones. A guess.
const IO_ENTRIES: usize = 4096;

/// What is remembered of something that has passed.
pub trait Remembered: Copy + Send {
    /// Bytes of it in the file.
    const BYTES: usize;

    /// By the uppermost bits of this it is put into parts. To be spread evenly, or a part may grow
    /// larger than what can be sorted at a time.
    fn sort_bits(&self) -> u64;

    /// Appends its [`BYTES`](Self::BYTES) bytes.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Makes it of the bytes that [`encode`](Self::encode) has given.
    fn decode(bytes: &[u8]) -> Self;
}

/// An account that has passed.
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

/// The 8 bytes at `at` as a number, little-endian.
///
/// # Panics
/// If there are fewer.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

/// Where a record is: 32 bits number of the storage, 32 bits offset in units of 8 bytes (a storage
/// has at most 16 GiB). Places are in the order of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64);

impl Place {
    /// The record at `offset` of a storage, which is a multiple of 8.
    pub fn new(storage: u32, offset: u64) -> Self {
        Self(u64::from(storage) << 32 | offset >> 3)
    }

    /// The number of the storage.
    pub fn storage(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// Where the record begins in it.
    pub fn offset(self) -> u64 {
        (self.0 & 0xffff_ffff) << 3
    }

    /// As a number, for a file.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// What [`to_bits`](Self::to_bits) has given.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// Makes fingerprints. Its key is drawn anew in each run, so that no archive can be made whose keys
/// collide.
#[derive(Debug, Clone)]
pub(super) struct Fingerprints {
    key: RandomState,
    mask: u64,
}

impl Fingerprints {
    /// Only the uppermost `bits` of 64 are used: tests have collisions this way.
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
    /// Entries of one partition that are kept in memory.
    partition_entries_max: usize,
    memory_bytes_max: usize,
    spill: Option<File>,
    spill_end: AtomicU64,
}

#[derive(Debug)]
struct Partition<E> {
    entries: Vec<E>,
    /// Offset in the file and number of entries of what was spilt.
    runs: Vec<(u64, usize)>,
    spilt: usize,
}

impl<E> Default for Partition<E> {
    fn default() -> Self {
        Self { entries: Vec::new(), runs: Vec::new(), spilt: 0 }
    }
}

impl<E: Remembered> Entries<E> {
    /// Keeps at most so many bytes in memory; what is more goes to `spill`, which is to be open for
    /// reading and writing, and used by nobody else.
    pub fn new(memory_bytes_max: usize, spill: Option<File>) -> Self {
        let partition_entries_max = (memory_bytes_max / size_of::<E>() / PARTITIONS).max(1);
        let partitions = (0..PARTITIONS).map(|_| Mutex::default()).collect();
        let spill_end = AtomicU64::new(0);
        Self { partitions, partition_entries_max, memory_bytes_max, spill, spill_end }
    }

    /// Bytes in the file.
    pub fn spilt_bytes(&self) -> u64 {
        self.spill_end.load(Ordering::Relaxed)
    }

    /// If there is anything in the file, puts the rest there too, so that the memory is free for
    /// sorting. Says how many entries the largest partition has.
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

    /// Takes out the entries of a partition, in no order.
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
                // All at once: memory that is never touched costs nothing.
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

/// Ends the gathering. Says how many partitions can be sorted at a time, so that they take at most a
/// quarter of the memory; fails if that is not even one.
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

/// What one worker has gathered.
#[derive(Debug)]
pub struct Gathered<E>(Vec<Vec<E>>);

impl<E: Remembered> Gathered<E> {
    /// Nothing yet.
    #[allow(clippy::new_without_default)] // half a megabyte is no default
    pub fn new() -> Self {
        Self((0..PARTITIONS).map(|_| Vec::with_capacity(GATHERED_MAX)).collect())
    }

    /// Gathers one more, to be handed on to `entries` with others.
    pub fn push(&mut self, entry: E, entries: &Entries<E>) -> Result<(), AccountsError> {
        let index = (entry.sort_bits() >> (64 - PARTITION_BITS)) as usize;
        let gathered = &mut self.0[index];
        gathered.push(entry);
        if gathered.len() == GATHERED_MAX { entries.extend(index, gathered) } else { Ok(()) }
    }

    /// Hands on what is left.
    pub fn flush(&mut self, entries: &Entries<E>) -> Result<(), AccountsError> {
        let mut partitions = self.0.iter_mut().enumerate();
        partitions.try_for_each(|(index, gathered)| entries.extend(index, gathered))
    }
}

fn failed(doing: &'static str, source: io::Error) -> AccountsError {
    AccountsError::Spill { doing, source: Arc::new(source) }
}
