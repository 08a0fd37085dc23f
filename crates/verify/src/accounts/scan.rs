//! The worker's tasks: following the records of storages, and hashing accounts.

use std::sync::Arc;

use unsnap_layout::append_vec::{RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader};

use super::{
    AccountsError,
    entries::{Entry, Gathered, Place},
    pool::{Batch, Piece, Storage, Work, lock},
    progress::Straddling,
    shared::Shared,
};
use crate::{
    lattice::{AccountInParts, LatticeHash, LatticeHasher},
    structure::{Record, RecordSink},
};

/// Records are batched up to this many bytes: some hundred accounts and a fraction of a millisecond
/// of work, against a lock that is taken twice. A guess.
const BATCH_BYTES: usize = 128 << 10;

/// Totals of a set of accounts.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    pub(super) hash: LatticeHash,
    pub(super) lamports: u128,
    /// Accounts with lamports.
    pub(super) accounts: u64,
    /// Accounts without lamports, which are closed.
    pub(super) closed: u64,
    /// All records.
    pub(super) records: u64,
}

impl Sums {
    pub(super) fn new() -> Self {
        Self { hash: LatticeHash::ZERO, lamports: 0, accounts: 0, closed: 0, records: 0 }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.hash.add(&other.hash);
        self.lamports += other.lamports; // 2⁶⁴ records of 2⁶⁴ lamports fit
        self.accounts += other.accounts;
        self.closed += other.closed;
        self.records += other.records;
    }

    pub(super) fn count(&mut self, header: &RecordHeader) {
        self.lamports += u128::from(header.lamports);
        self.accounts += u64::from(header.lamports > 0);
        self.closed += u64::from(header.lamports == 0);
        self.records += 1;
    }
}

/// A worker thread with its own part of the totals.
pub(super) struct Worker<'a, B> {
    shared: &'a Shared<B>,
    hasher: LatticeHasher,
    gathered: Gathered<Entry>,
    sums: Sums,
}

impl<'a, B: AsRef<[u8]>> Worker<'a, B> {
    pub(super) fn new(shared: &'a Shared<B>) -> Self {
        let hasher = LatticeHasher::with(shared.vectors);
        Self { shared, hasher, gathered: Gathered::new(), sums: Sums::new() }
    }

    /// Processes work until none is left.
    pub(super) fn run(mut self) -> Result<Sums, AccountsError> {
        while let Some(work) = self.shared.queue.next() {
            match work {
                Work::Hash(batch) => self.hash(&batch)?,
                Work::Scan(storage) => {
                    let done = self.scan(&storage);
                    // After an error too, or the others would wait for it.
                    self.shared.queue.scanned(matches!(done, Ok(true)));
                    done?;
                }
            }
        }
        self.gathered.flush(&self.shared.entries)?;
        self.sums.hash = self.hasher.take();
        Ok(self.sums)
    }

    /// Hashes whole records with checked headers.
    fn hash(&mut self, batch: &Batch<B>) -> Result<(), AccountsError> {
        let bytes = &batch.piece.bytes.as_ref()[..batch.range.end];
        let mut at = batch.range.start;
        while let Some(header) = RecordHeader::parse_at(bytes, at) {
            let position = batch.base + at as u64;
            let data = &bytes[at + RECORD_HEADER_BYTES..];
            let data = usize::try_from(header.data_len).ok().and_then(|len| data.get(..len));
            let Some(data) = data else { break };
            self.hasher.add(&header, data);
            self.account(batch.storage, position, &header)?;
            // Records are aligned within the storage, but the piece may begin anywhere.
            let end = position + header.record_bytes();
            let padding = end.next_multiple_of(RECORD_ALIGNMENT) - end; // at most 7
            at += RECORD_HEADER_BYTES + data.len() + usize::try_from(padding).unwrap_or(0);
        }
        Ok(())
    }

    /// Follows a storage through all pieces that have arrived. Returns whether it is done.
    fn scan(&mut self, storage: &Storage<B>) -> Result<bool, AccountsError> {
        // No other worker takes it: a storage is scheduled once at a time.
        let Some(mut scan) = lock(&storage.state).scan.take() else { return Ok(false) };
        loop {
            let mut state = lock(&storage.state);
            let Some(piece) = state.pieces.pop_front() else {
                if !state.ended {
                    state.scan = Some(scan);
                    state.scheduled = false;
                    return Ok(false);
                }
                drop(state);
                scan.scanner.finish()?;
                return Ok(true);
            };
            drop(state);
            let bytes = piece.bytes.as_ref();
            let mut cutter = Cutter {
                worker: self,
                storage: storage.number,
                piece: &piece,
                base: scan.base,
                batch: None,
                straddling: &mut scan.straddling,
                result: Ok(()),
            };
            scan.scanner.feed(bytes, &mut cutter)?;
            cutter.cut();
            cutter.result?;
            scan.base += bytes.len() as u64;
        }
    }

    /// Counts an account and stores its entry.
    fn account(
        &mut self,
        storage: u32,
        position: u64,
        header: &RecordHeader,
    ) -> Result<(), AccountsError> {
        self.sums.count(header);
        let fingerprint = self.shared.fingerprints.of(&header.pubkey);
        let entry = Entry { fingerprint, place: Place::new(storage, position) };
        self.gathered.push(entry, &self.shared.entries)
    }
}

/// Cuts the records of a piece into batches.
struct Cutter<'w, 'a, B> {
    worker: &'w mut Worker<'a, B>,
    storage: u32,
    piece: &'w Arc<Piece<B>>,
    base: u64,
    /// Begin and end of the records not yet pushed as a batch.
    batch: Option<(usize, usize)>,
    straddling: &'w mut Option<Straddling>,
    result: Result<(), AccountsError>,
}

impl<B: AsRef<[u8]>> Cutter<'_, '_, B> {
    fn cut(&mut self) {
        if let Some((start, end)) = self.batch.take() {
            let (storage, piece, base) = (self.storage, Arc::clone(self.piece), self.base);
            self.worker.shared.queue.push(Batch { storage, piece, base, range: start..end });
        }
    }
}

impl<B: AsRef<[u8]>> RecordSink for Cutter<'_, '_, B> {
    fn whole(&mut self, record: &Record<'_>) {
        let end = record.piece_offset + RECORD_HEADER_BYTES + record.data.len();
        let (start, _) = *self.batch.get_or_insert((record.piece_offset, end));
        self.batch = Some((start, end));
        if end - start >= BATCH_BYTES {
            self.cut();
        }
    }

    fn begins(&mut self, position: u64, header: &RecordHeader) {
        let hash = AccountInParts::begin(header);
        *self.straddling = Some(Straddling { position, header: *header, hash });
    }

    fn part(&mut self, data: &[u8]) {
        if let Some(Straddling { hash, .. }) = self.straddling {
            hash.part(data);
        }
    }

    fn ends(&mut self) {
        let Some(Straddling { position, header, hash }) = self.straddling.take() else { return };
        if header.lamports > 0 {
            self.worker.hasher.add_hash(&hash.end(&header));
        }
        if self.result.is_ok() {
            self.result = self.worker.account(self.storage, position, &header);
        }
    }
}
