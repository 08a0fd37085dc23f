//! The full check: whether the accounts of an archive, or of a full and an incremental one
//! together, have the hash in the snapshot's name.
//!
//! ```text
//!  stream ──pieces──▶ queue ──storages──▶ workers: follow the records ──batches──▶ queue
//!  (its thread only   (bounded           workers: hash, add up, remember ◀───────────┘
//!   hands over)        in bytes)                               │ 16 bytes an account
//!                                                              ▼
//!  sum ◀──subtract older versions── second look ◀──equal── sort by fingerprint (memory, file)
//! ```
//!
//! Only the newest version of each account counts, and which version that is becomes known only at
//! the end. So every version is added as it passes, and 16 bytes of it are kept: a keyed 64-bit
//! fingerprint of its public key, and its place. At the end the fingerprints are sorted. Records
//! with a unique fingerprint are done. The others are read a second time ([`SecondLook`]), their
//! public keys are compared, and older versions are subtracted. An account whose newest version has
//! no lamports no longer exists.
//!
//! # Memory
//!
//! | use | bytes |
//! |---|---|
//! | pieces that wait or are being processed | [`AccountsConfig::queue_bytes_max`] |
//! | entries | [`AccountsConfig::memory_bytes_max`]; the rest goes to the file |
//! | each worker | 400 KiB for accounts that wait for a lane, 512 KiB of gathered entries |
//! | each storage | 32, for its name |
//! | candidates for the second look | 64 to 113 each, see below |
//!
//! The candidates of a round take [`AccountsConfig::memory_bytes_max`], or three times that for
//! archives of nothing but duplicates.

mod duplicates;
pub mod entries;
mod error;
mod look;
mod pool;
mod progress;
mod scan;
mod shared;

pub use error::AccountsError;
pub use look::{
    FileLook, LookError, NoLook, Picker, SecondLook, StorageId, StreamLook, Take, Wanted,
};

use std::{
    collections::VecDeque,
    fs::File,
    io,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    lattice::{LatticeHash, Vectors},
    structure::StorageScanner,
};
use entries::{Entries, Fingerprints};
use pool::{Piece, Queue, Storage, StorageState, lock};
use progress::Scan;
use scan::{Sums, Worker};
use shared::Shared;

/// Limit on the storages of all streams together: twice the number that one archive may hold.
const STORAGES_MAX: u32 = 10_000_000;

/// Configuration of the accounts check.
#[derive(Debug)]
pub struct AccountsConfig {
    /// Threads that hash. By default one per core.
    pub workers: NonZeroUsize,
    /// Bytes that may wait for workers or be processed at a time. Streams wait while no more fit.
    /// At least 64 KiB; a piece larger than half of this counts as half of it.
    ///
    /// 256 MiB, eight of the largest segments. A guess.
    pub queue_bytes_max: u64,
    /// Bytes for the entries, 16 for each record of the archives. 1 GiB, enough for 67 million;
    /// larger archives need `spill`.
    pub memory_bytes_max: usize,
    /// File for the entries that do not fit in memory. It must be open for reading and writing and
    /// not used by anything else; an unnamed file is best (`O_TMPFILE`). Grows to 16 bytes for each
    /// record.
    pub spill: Option<File>,
    /// Vector instructions used for hashing.
    pub vectors: Vectors,
}

impl Default for AccountsConfig {
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            queue_bytes_max: 256 << 20,
            memory_bytes_max: 1 << 30,
            spill: None,
            vectors: Vectors::detect(),
        }
    }
}

/// Result of a check: hash and totals of the accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountsSummary {
    /// The accounts lattice hash.
    pub hash: LatticeHash,
    /// The total of all balances, in lamports.
    pub capitalization: u64,
    /// Accounts with lamports.
    pub accounts: u64,
    /// Accounts whose newest version has no lamports.
    pub closed_accounts: u64,
    /// Records of all storages: accounts, closed accounts and older versions.
    pub records: u64,
    /// Records superseded by a newer one of the same account.
    pub older_versions: u64,
    /// Records that were read a second time.
    pub looked_at: u64,
    /// Bytes that were written to the file.
    pub spilt_bytes: u64,
    /// Storages of all streams.
    pub storages: u64,
    /// Time from the last account's hash to the result: sorting and the second look.
    pub resolving: Duration,
}

impl AccountsSummary {
    /// Compares the hash with the one in the archive's name.
    pub fn expect_checksum(&self, expected: &[u8; 32]) -> Result<(), AccountsError> {
        let found = self.hash.checksum();
        if found == *expected {
            return Ok(());
        }
        let [expected, found] = [expected, &found].map(|hash| bs58::encode(hash).into_string());
        Err(AccountsError::WrongHash { expected, found })
    }

    /// Compares the hash with the one in the bank file.
    pub fn expect_hash(&self, expected: &LatticeHash) -> Result<(), AccountsError> {
        self.expect_checksum(&expected.checksum())
    }

    /// Compares the total of balances with the one in the bank file.
    pub fn expect_capitalization(&self, expected: u64) -> Result<(), AccountsError> {
        let found = self.capitalization;
        if found == expected {
            return Ok(());
        }
        Err(AccountsError::WrongCapitalization { expected, found })
    }
}

/// A check in progress. Dropping it cancels the check.
///
/// `B` is the type of the pieces: a counted reference to memory.
#[derive(Debug)]
pub struct AccountsCheck<B: AsRef<[u8]> + Send + Sync + 'static> {
    shared: Arc<Shared<B>>,
    threads: Vec<JoinHandle<Option<Sums>>>,
}

impl<B: AsRef<[u8]> + Send + Sync + 'static> AccountsCheck<B> {
    /// Starts the workers, threads named `unsnap-hash-n`. Fails if a thread cannot be started.
    pub fn new(config: AccountsConfig) -> io::Result<Self> {
        Self::start(config, Fingerprints::new(64))
    }

    fn start(config: AccountsConfig, fingerprints: Fingerprints) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Queue::new(config.queue_bytes_max),
            entries: Entries::new(config.memory_bytes_max, config.spill),
            storages: Mutex::new(Vec::new()),
            streams: AtomicUsize::new(0),
            fingerprints,
            workers: config.workers,
            memory_bytes_max: config.memory_bytes_max,
            vectors: config.vectors,
        });
        let mut check = Self { shared, threads: Vec::new() };
        for index in 0..config.workers.get() {
            let shared = Arc::clone(&check.shared);
            let work = move || {
                let _guard = StopOnPanic(&shared.queue);
                Worker::new(&shared).run().map_err(|error| shared.queue.fail(error)).ok()
            };
            let builder = thread::Builder::new().name(format!("unsnap-hash-{index}"));
            check.threads.push(builder.spawn(work)?);
        }
        Ok(check)
    }

    /// Adds a stream of storages. The first is stream 0 in [`StorageId::stream`].
    pub fn stream(&self) -> AccountsStream<B> {
        let number = self.shared.streams.fetch_add(1, Ordering::Relaxed);
        AccountsStream { shared: Arc::clone(&self.shared), number, current: None }
    }

    /// Waits for the workers, finds the newest versions, and returns the result. Call it when all
    /// streams have ended. The second look happens on the calling thread.
    pub fn finish(mut self, look: &mut dyn SecondLook) -> Result<AccountsSummary, AccountsError> {
        self.shared.queue.close();
        let mut sums = Sums::new();
        for thread in self.threads.drain(..) {
            let worker = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if let Some(worker) = worker {
                sums.add(&worker);
            }
        }
        let shared = &*self.shared;
        if let Some(failure) = shared.queue.failure() {
            return Err(failure);
        }
        let unfinished = shared.queue.open_storages();
        if unfinished > 0 {
            return Err(AccountsError::Unfinished { storages: unfinished });
        }
        let storages = std::mem::take(&mut *lock(&shared.storages));
        let begun = Instant::now();
        let resolved = duplicates::resolve(shared, &storages, look)?;
        sums.hash.subtract(&resolved.older.hash);
        let lamports = sums.lamports - resolved.older.lamports;
        let capitalization = u64::try_from(lamports)
            .map_err(|_| AccountsError::TooManyLamports { found: lamports })?;
        Ok(AccountsSummary {
            hash: sums.hash,
            capitalization,
            accounts: sums.accounts - resolved.older.accounts,
            closed_accounts: sums.closed - resolved.older.closed,
            records: sums.records,
            older_versions: resolved.older.records,
            looked_at: resolved.looked_at,
            spilt_bytes: shared.entries.spilt_bytes(),
            storages: storages.len() as u64,
            resolving: begun.elapsed(),
        })
    }
}

impl<B: AsRef<[u8]> + Send + Sync + 'static> Drop for AccountsCheck<B> {
    fn drop(&mut self) {
        self.shared.queue.fail(AccountsError::Stopped);
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // the thread itself has reported a panic
        }
    }
}

/// Ends the check if a worker panics: otherwise the others would wait for it forever.
struct StopOnPanic<'a, B>(&'a Queue<B>);

impl<B> Drop for StopOnPanic<'_, B> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(AccountsError::Stopped);
        }
    }
}

/// Takes the storages of one stream, one after the other. Each call only queues work. It waits only
/// while the workers' queue is full.
///
/// After a failure [`begin`](Self::begin) and [`piece`](Self::piece) return the first error of the
/// whole check, from whichever stream.
#[derive(Debug)]
pub struct AccountsStream<B> {
    shared: Arc<Shared<B>>,
    number: usize,
    current: Option<Arc<Storage<B>>>,
}

impl<B: AsRef<[u8]> + Send + Sync + 'static> AccountsStream<B> {
    /// Begins the storage `accounts/<slot>.<id>` of `size` bytes.
    ///
    /// # Panics
    /// If the previous storage has not ended.
    pub fn begin(&mut self, slot: u64, id: u64, size: u64) -> Result<(), AccountsError> {
        assert!(self.current.is_none(), "a storage begins before the last one has ended");
        let scanner = StorageScanner::new(slot, id, size).map_err(|error| self.fail(error))?;
        let charge = self.shared.queue.budget.charge(0).ok_or_else(|| self.failure())?;
        let number = {
            let mut storages = lock(&self.shared.storages);
            let number = storages.len();
            storages.push(StorageId { stream: self.number, slot, id, size });
            u32::try_from(number).ok().filter(|number| *number < STORAGES_MAX)
        };
        let number = number.ok_or(AccountsError::TooManyStorages { limit: STORAGES_MAX });
        let number = number.map_err(|error| self.fail(error))?;
        self.shared.queue.open();
        let state = StorageState {
            pieces: VecDeque::new(),
            ended: false,
            scan: Some(Box::new(Scan { scanner, base: 0, straddling: None })),
            scheduled: false,
        };
        let state = Mutex::new(state);
        self.current = Some(Arc::new(Storage { number, state, _charge: charge }));
        Ok(())
    }

    /// Passes the next bytes of the storage, in pieces of any size.
    ///
    /// # Panics
    /// If no storage has begun.
    pub fn piece(&mut self, bytes: B) -> Result<(), AccountsError> {
        let storage = self.current.as_ref().expect("a storage has begun");
        let len = bytes.as_ref().len() as u64;
        let charge = self.shared.queue.budget.charge(len).ok_or_else(|| self.failure())?;
        let piece = Arc::new(Piece { bytes, _charge: charge });
        self.shared.queue.schedule(storage, |state| state.pieces.push_back(piece));
        Ok(())
    }

    /// Ends the storage.
    ///
    /// # Panics
    /// If no storage has begun.
    pub fn end(&mut self) -> Result<(), AccountsError> {
        let storage = self.current.take().expect("a storage has begun");
        self.shared.queue.schedule(&storage, |state| state.ended = true);
        Ok(())
    }

    /// Ends the whole check with this error. Returns the first error.
    fn fail(&self, error: impl Into<AccountsError>) -> AccountsError {
        self.shared.queue.fail(error.into());
        self.failure()
    }

    fn failure(&self) -> AccountsError {
        self.shared.queue.failure().unwrap_or(AccountsError::Stopped)
    }
}

#[cfg(test)]
mod tests;
