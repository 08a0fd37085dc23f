//! What is remembered of each account: 16 bytes, in memory or in a file.

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

/// Bytes of an entry, in memory and in the file.
pub(super) const ENTRY_BYTES: usize = 16;

/// Parts that entries are sorted in, by the uppermost bits of their fingerprints. 1.2 billion
/// accounts make parts of 19 MB, small enough to be sorted one for each thread.
pub(super) const PARTITIONS: usize = 1 << PARTITION_BITS;
const PARTITION_BITS: u32 = 10;

/// Entries that a worker gathers for a partition before it takes the partition's lock: 512 KiB for
/// all partitions together, half of a core's second-level cache. A guess.
const GATHERED_MAX: usize = 32;

/// Entries that are encoded at a time: writes and reads of 64 KiB. A guess.
const IO_ENTRIES: usize = 4096;

/// An account that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Keyed hash of the public key.
    pub(super) fingerprint: u64,
    pub(super) place: Place,
}

/// Where a record is: 32 bits number of the storage, 32 bits offset in units of 8 bytes (a storage
/// has at most 16 GiB).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

impl Place {
    pub(super) fn new(storage: u32, offset: u64) -> Self {
        Self(u64::from(storage) << 32 | offset >> 3)
    }

    pub(super) fn storage(self) -> usize {
        (self.0 >> 32) as usize
    }

    pub(super) fn offset(self) -> u64 {
        (self.0 & 0xffff_ffff) << 3
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
pub(super) struct Entries {
    partitions: Vec<Mutex<Partition>>,
    /// Entries of one partition that are kept in memory.
    partition_entries_max: usize,
    memory_bytes_max: usize,
    spill: Option<File>,
    spill_end: AtomicU64,
}

#[derive(Debug, Default)]
struct Partition {
    entries: Vec<Entry>,
    /// Offset in the file and number of entries of what was spilt.
    runs: Vec<(u64, usize)>,
    spilt: usize,
}

impl Entries {
    pub(super) fn new(memory_bytes_max: usize, spill: Option<File>) -> Self {
        let partition_entries_max = (memory_bytes_max / ENTRY_BYTES / PARTITIONS).max(1);
        let partitions = (0..PARTITIONS).map(|_| Mutex::default()).collect();
        let spill_end = AtomicU64::new(0);
        Self { partitions, partition_entries_max, memory_bytes_max, spill, spill_end }
    }

    /// Bytes in the file.
    pub(super) fn spilt_bytes(&self) -> u64 {
        self.spill_end.load(Ordering::Relaxed)
    }

    /// If there is anything in the file, puts the rest there too, so that the memory is free for
    /// sorting. Says how many entries the largest partition has.
    pub(super) fn settle(&self) -> Result<usize, AccountsError> {
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
    pub(super) fn take(&self, index: usize) -> Result<Vec<Entry>, AccountsError> {
        let partition = std::mem::take(&mut *lock(&self.partitions[index]));
        let mut entries = partition.entries;
        let Some(file) = self.spill.as_ref().filter(|_| partition.spilt > 0) else {
            return Ok(entries);
        };
        entries.reserve_exact(partition.spilt);
        let mut bytes = vec![0; IO_ENTRIES.min(partition.spilt) * ENTRY_BYTES];
        for (mut offset, mut count) in partition.runs {
            while count > 0 {
                let now = count.min(IO_ENTRIES);
                let bytes = &mut bytes[..now * ENTRY_BYTES];
                file.read_exact_at(bytes, offset).map_err(|source| failed("read", source))?;
                entries.extend(bytes.as_chunks().0.iter().map(decoded));
                (offset, count) = (offset + bytes.len() as u64, count - now);
            }
        }
        Ok(entries)
    }

    fn extend(&self, index: usize, gathered: &mut Vec<Entry>) -> Result<(), AccountsError> {
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

    fn spill(&self, partition: &mut Partition) -> Result<(), AccountsError> {
        let Some(file) = &self.spill else {
            return Err(AccountsError::NoSpillFile { memory_bytes_max: self.memory_bytes_max });
        };
        let count = partition.entries.len();
        let mut offset = self.spill_end.fetch_add((count * ENTRY_BYTES) as u64, Ordering::Relaxed);
        if count > 0 {
            partition.runs.push((offset, count));
        }
        let mut bytes = Vec::with_capacity(count.min(IO_ENTRIES) * ENTRY_BYTES);
        for entries in partition.entries.chunks(IO_ENTRIES) {
            bytes.clear();
            for entry in entries {
                bytes.extend(entry.fingerprint.to_le_bytes());
                bytes.extend(entry.place.0.to_le_bytes());
            }
            file.write_all_at(&bytes, offset).map_err(|source| failed("write", source))?;
            offset += bytes.len() as u64;
        }
        partition.spilt += count;
        partition.entries.clear();
        Ok(())
    }
}

/// What one worker has gathered.
#[derive(Debug)]
pub(super) struct Gathered(Vec<Vec<Entry>>);

impl Gathered {
    pub(super) fn new() -> Self {
        Self((0..PARTITIONS).map(|_| Vec::with_capacity(GATHERED_MAX)).collect())
    }

    pub(super) fn push(&mut self, entry: Entry, entries: &Entries) -> Result<(), AccountsError> {
        let index = (entry.fingerprint >> (64 - PARTITION_BITS)) as usize;
        let gathered = &mut self.0[index];
        gathered.push(entry);
        if gathered.len() == GATHERED_MAX { entries.extend(index, gathered) } else { Ok(()) }
    }

    pub(super) fn flush(&mut self, entries: &Entries) -> Result<(), AccountsError> {
        let mut partitions = self.0.iter_mut().enumerate();
        partitions.try_for_each(|(index, gathered)| entries.extend(index, gathered))
    }
}

fn decoded(bytes: &[u8; ENTRY_BYTES]) -> Entry {
    let number = |at: usize| {
        let mut field = [0; 8];
        field.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(field)
    };
    Entry { fingerprint: number(0), place: Place(number(8)) }
}

fn failed(doing: &'static str, source: io::Error) -> AccountsError {
    AccountsError::Spill { doing, source: Arc::new(source) }
}
