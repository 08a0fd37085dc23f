//! Scanner of one storage, piece by piece: validates every record and locates it.

use std::hint::black_box;

use thiserror::Error;
use unsnap_layout::append_vec::{
    ACCOUNT_DATA_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader, STORAGE_BYTES_MAX,
};

/// A defect of a storage, with the storage's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("accounts/{slot}.{id}: {problem}")]
pub struct StorageError {
    /// Slot in the storage's name.
    pub slot: u64,
    /// Number in the storage's name.
    pub id: u64,
    /// The expected and the actual content.
    pub problem: StorageProblem,
}

/// A defect of a storage. Offsets are relative to the storage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StorageProblem {
    /// A validator refuses to open an empty storage.
    #[error("it is empty")]
    Empty,
    /// A storage larger than a validator opens.
    #[error("it has {found} bytes, limit is {limit}")]
    TooLarge {
        /// Its size.
        found: u64,
        /// [`STORAGE_BYTES_MAX`].
        limit: u64,
    },
    /// A size that differs from the announced one.
    #[error("{expected} bytes were announced, but {found} arrived")]
    WrongSize {
        /// The announced size.
        expected: u64,
        /// Bytes that arrived. If more than the announced size arrived: the count up to the first
        /// excess piece.
        found: u64,
    },
    /// More data than an account can have.
    #[error("the account at offset {offset} has {found} bytes of data, limit is {limit}")]
    DataTooLong {
        /// Offset of its record.
        offset: u64,
        /// Its declared data length.
        found: u64,
        /// [`ACCOUNT_DATA_BYTES_MAX`].
        limit: u64,
    },
    /// A record that extends beyond the storage.
    #[error("the account at offset {offset} ends at {end}, but the storage ends at {size}")]
    RecordPastEnd {
        /// Offset of its record.
        offset: u64,
        /// Offset at which its data would end.
        end: u64,
        /// Size of the storage.
        size: u64,
    },
    /// An executable flag that is neither 0 nor 1.
    #[error("the account at offset {offset} has executable flag {found}, expected 0 or 1")]
    NotAFlag {
        /// Offset of its record.
        offset: u64,
        /// The value of the byte.
        found: u8,
    },
    /// Non-zero data after the last record.
    #[error("the byte at offset {offset}, after the last account, is {found:#04x}, expected 0")]
    NotZero {
        /// Offset of that byte.
        offset: u64,
        /// Its value.
        found: u8,
    },
}

/// A record that lies within one piece.
#[derive(Debug, Clone, Copy)]
pub struct Record<'piece> {
    /// Offset of the record in its storage.
    pub position: u64,
    /// Its header.
    pub header: &'piece RecordHeader,
    /// Its data.
    pub data: &'piece [u8],
    /// Offset of the record in the piece.
    pub piece_offset: usize,
}

/// Receives the records that a [`StorageScanner`] finds, in the order of the storage.
pub trait RecordSink {
    /// Receives a record that lies within one piece. Nothing is copied.
    fn whole(&mut self, record: &Record<'_>);

    /// Receives the header of a record that straddles pieces and begins at `position`. Its data
    /// follows in parts.
    fn begins(&mut self, position: u64, header: &RecordHeader);

    /// Receives some data of the current straddling record. May be empty.
    fn part(&mut self, data: &[u8]);

    /// Marks the current straddling record as complete.
    fn ends(&mut self);
}

/// Discards the records: they are only checked.
impl RecordSink for () {
    fn whole(&mut self, _: &Record<'_>) {}
    fn begins(&mut self, _: u64, _: &RecordHeader) {}
    fn part(&mut self, _: &[u8]) {}
    fn ends(&mut self) {}
}

/// Totals of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageSummary {
    /// Number of records.
    pub records: u64,
    /// Total length of their data.
    pub data_bytes: u64,
}

/// Length of a cache line in bytes. Only the speed depends on it.
const LINE_BYTES: usize = 64;

/// Distance in bytes between a record and the cache lines that are requested from memory while it
/// is checked. A record of a token account takes five lines, and its header must arrive before the
/// next one is known, so that a scan of uncached memory waits for the memory at each record: 0.39
/// to 0.47 s per GB. With the lines requested 2, 4 and 8 KiB ahead it took 0.07, 0.07 and 0.08 s (2
/// cores, shared, November 2026).
const AHEAD_BYTES: usize = 4 << 10;

/// Longest record in bytes that lines are requested behind. Longer ones are so few that waiting for
/// each costs less than reading all of their data.
const AHEAD_RECORD_BYTES_MAX: u64 = 2 << 10;

/// Validates a storage that arrives in pieces of any size, and locates its records.
///
/// It needs only the header of each record. It asks for memory ahead of the record that it checks,
/// since each header tells where the next one is, but not in time to load it. A header that straddles two pieces is assembled in 136 bytes; data is
/// never copied. The scanner is unusable after an error.
#[derive(Debug)]
pub struct StorageScanner {
    slot: u64,
    id: u64,
    size: u64,
    /// Bytes that have arrived.
    fed: u64,
    state: State,
    summary: StorageSummary,
}

#[derive(Debug)]
enum State {
    /// The next record begins at `position`, which may lie beyond the bytes that have arrived.
    Between { position: u64 },
    /// `carry` holds the first `filled` bytes of the header at `position`.
    InHeader { position: u64, carry: [u8; RECORD_HEADER_BYTES], filled: usize },
    /// `left` bytes of data have not arrived yet. The next record begins at `next`.
    InData { left: u64, next: u64 },
    /// No more records: only zeros may follow from `position` on.
    Behind { position: u64 },
}

impl StorageScanner {
    /// Starts the storage `accounts/<slot>.<id>` of `size` bytes.
    pub fn new(slot: u64, id: u64, size: u64) -> Result<Self, StorageError> {
        let state = State::Between { position: 0 };
        let summary = StorageSummary::default();
        let scanner = Self { slot, id, size, fed: 0, state, summary };
        match size {
            0 => Err(scanner.error(StorageProblem::Empty)),
            1..=STORAGE_BYTES_MAX => Ok(scanner),
            _ => {
                let problem = StorageProblem::TooLarge { found: size, limit: STORAGE_BYTES_MAX };
                Err(scanner.error(problem))
            }
        }
    }

    /// Consumes the next bytes of the storage.
    pub fn feed(&mut self, piece: &[u8], sink: &mut impl RecordSink) -> Result<(), StorageError> {
        let base = self.fed;
        // A piece has at most isize::MAX bytes, and the earlier bytes are within the size.
        self.fed += piece.len() as u64;
        if self.fed > self.size {
            return Err(self.wrong_size());
        }
        // Bytes of this piece that belong to a record from the previous one.
        let mut taken = 0;
        loop {
            match &mut self.state {
                State::Between { position } => {
                    let position = *position;
                    self.state = self.scan(piece, base, position, sink)?;
                    if !matches!(self.state, State::Behind { .. }) {
                        return Ok(());
                    }
                }
                State::InHeader { position, carry, filled } => {
                    taken = (RECORD_HEADER_BYTES - *filled).min(piece.len());
                    carry[*filled..*filled + taken].copy_from_slice(&piece[..taken]);
                    *filled += taken;
                    if *filled < RECORD_HEADER_BYTES {
                        return Ok(());
                    }
                    let (position, carry) = (*position, *carry);
                    let header = RecordHeader::parse(&carry);
                    if header.is_end() {
                        self.zeros_from(position, &carry)?;
                        self.state = State::Behind { position };
                    } else {
                        let next = self.check(position, &header)?;
                        self.state = State::InData { left: header.data_len, next };
                        sink.begins(position, &header);
                    }
                }
                State::InData { left, next } => {
                    let rest = &piece[taken..];
                    let part = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    sink.part(&rest[..part]);
                    *left -= part as u64;
                    if *left > 0 {
                        return Ok(());
                    }
                    sink.ends();
                    self.state = State::Between { position: *next };
                }
                State::Behind { position } => {
                    let from = position.saturating_sub(base).min(piece.len() as u64);
                    let from = usize::try_from(from).unwrap_or(piece.len());
                    return self.zeros_from(base + from as u64, &piece[from..]);
                }
            }
        }
    }

    /// Ends the storage. Returns its totals.
    pub fn finish(self) -> Result<StorageSummary, StorageError> {
        // A record that is not complete was refused at its header.
        if self.fed == self.size { Ok(self.summary) } else { Err(self.wrong_size()) }
    }

    /// Follows the records that begin in `piece`, the first at `position` of the storage. Returns
    /// the scanner's state at the end of the piece.
    fn scan(
        &mut self,
        piece: &[u8],
        base: u64,
        mut position: u64,
        sink: &mut impl RecordSink,
    ) -> Result<State, StorageError> {
        let mut ahead = Ahead::default();
        loop {
            if self.size.saturating_sub(position) < RECORD_HEADER_BYTES as u64 {
                return Ok(State::Behind { position });
            }
            // Positions never move back before the piece, so this is the distance into it.
            let at = usize::try_from(position - base).unwrap_or(usize::MAX);
            let Some(rest) = piece.get(at..).filter(|rest| !rest.is_empty()) else {
                return Ok(State::Between { position });
            };
            let Some((header, rest)) = rest.split_first_chunk::<RECORD_HEADER_BYTES>() else {
                let mut carry = [0; RECORD_HEADER_BYTES];
                carry[..rest.len()].copy_from_slice(rest);
                return Ok(State::InHeader { position, carry, filled: rest.len() });
            };
            let header = RecordHeader::parse(header);
            if header.is_end() {
                return Ok(State::Behind { position });
            }
            let next = self.check(position, &header)?;
            // At most 10 MiB, as was just checked.
            let data_len = usize::try_from(header.data_len).unwrap_or(usize::MAX);
            let Some(data) = rest.get(..data_len) else {
                sink.begins(position, &header);
                sink.part(rest);
                return Ok(State::InData { left: header.data_len - rest.len() as u64, next });
            };
            sink.whole(&Record { position, header: &header, data, piece_offset: at });
            if next - position <= AHEAD_RECORD_BYTES_MAX {
                ahead.request(piece, at);
            }
            position = next;
        }
    }

    /// Checks a header and counts its record. Returns the position of the next record.
    #[inline]
    fn check(&mut self, offset: u64, header: &RecordHeader) -> Result<u64, StorageError> {
        let (found, limit) = (header.data_len, ACCOUNT_DATA_BYTES_MAX);
        // Neither overflows: the storage, and so any offset in it, is at most 16 GiB.
        let end = offset.saturating_add(header.record_bytes());
        let problem = if found > limit {
            StorageProblem::DataTooLong { offset, found, limit }
        } else if end > self.size {
            StorageProblem::RecordPastEnd { offset, end, size: self.size }
        } else if header.executable > 1 {
            StorageProblem::NotAFlag { offset, found: header.executable }
        } else {
            self.summary.records += 1;
            self.summary.data_bytes += found;
            return Ok(header.next_position(offset).unwrap_or(u64::MAX));
        };
        Err(self.error(problem))
    }

    /// Refuses any byte that is not zero. `bytes` are at `offset` of the storage.
    fn zeros_from(&self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        match bytes.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(index) => {
                let offset = offset + index as u64;
                Err(self.error(StorageProblem::NotZero { offset, found: bytes[index] }))
            }
        }
    }

    fn wrong_size(&self) -> StorageError {
        self.error(StorageProblem::WrongSize { expected: self.size, found: self.fed })
    }

    #[cold]
    fn error(&self, problem: StorageProblem) -> StorageError {
        StorageError { slot: self.slot, id: self.id, problem }
    }
}

/// Requests of cache lines ahead of a scan.
#[derive(Default)]
struct Ahead {
    /// Offset of the next line in the piece.
    next: usize,
}

impl Ahead {
    /// Requests the lines up to [`AHEAD_BYTES`] behind `at`, which rises, by loading a byte of each.
    /// Nothing depends on these bytes, so the processor does not wait for them.
    #[inline]
    fn request(&mut self, piece: &[u8], at: usize) {
        let end = piece.len().min(at.saturating_add(AHEAD_BYTES));
        let start = self.next.max(at);
        let Some(lines) = piece.get(start..end) else { return };
        let mut bytes = 0;
        for line in lines.chunks(LINE_BYTES) {
            bytes ^= line[0];
        }
        black_box(bytes);
        self.next = start + lines.len().next_multiple_of(LINE_BYTES);
    }
}

#[cfg(test)]
mod tests;
