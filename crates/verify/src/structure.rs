//! One storage, bit by bit: is every record what a record must be, and where is it.

use thiserror::Error;
use unsnap_layout::append_vec::{
    ACCOUNT_DATA_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader, STORAGE_BYTES_MAX,
};

/// What is wrong with a storage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("accounts/{slot}.{id}: {problem}")]
pub struct StorageError {
    /// Slot in the storage's name.
    pub slot: u64,
    /// Number in the storage's name.
    pub id: u64,
    /// What was expected and what was found.
    pub problem: StorageProblem,
}

/// What is wrong with a storage, apart from which it is. Offsets are in the storage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StorageProblem {
    /// A validator refuses to open an empty storage.
    #[error("it is empty")]
    Empty,
    /// Larger than a validator opens.
    #[error("it has {found} bytes, limit is {limit}")]
    TooLarge {
        /// Its size.
        found: u64,
        /// [`STORAGE_BYTES_MAX`].
        limit: u64,
    },
    /// Another number of bytes than was announced.
    #[error("{expected} bytes were announced, but {found} have come")]
    WrongSize {
        /// The announced size.
        expected: u64,
        /// What came; where more came, up to the first piece beyond the size.
        found: u64,
    },
    /// More data than an account can have.
    #[error("the account at offset {offset} has {found} bytes of data, limit is {limit}")]
    DataTooLong {
        /// Where its record begins.
        offset: u64,
        /// Its length of data.
        found: u64,
        /// [`ACCOUNT_DATA_BYTES_MAX`].
        limit: u64,
    },
    /// A record that is not all there.
    #[error("the account at offset {offset} ends at {end}, but the storage at {size}")]
    RecordPastEnd {
        /// Where its record begins.
        offset: u64,
        /// Where its data would end.
        end: u64,
        /// Size of the storage.
        size: u64,
    },
    /// A flag that is neither set nor unset.
    #[error("the account at offset {offset} has {found} as its executable flag, which is 0 or 1")]
    NotAFlag {
        /// Where its record begins.
        offset: u64,
        /// The byte.
        found: u8,
    },
    /// Something behind the last record.
    #[error("there is {found:#04x} at offset {offset}, behind the last account, expected zeros")]
    NotZero {
        /// Where that byte is.
        offset: u64,
        /// The byte.
        found: u8,
    },
}

/// A record that lies in one piece.
#[derive(Debug, Clone, Copy)]
pub struct Record<'piece> {
    /// Where it begins in its storage.
    pub position: u64,
    /// What stands in front of its data.
    pub header: &'piece RecordHeader,
    /// Its data.
    pub data: &'piece [u8],
    /// Where it begins in the piece.
    pub piece_offset: usize,
}

/// Takes what a [`StorageScanner`] finds. Records come in the order of the storage.
pub trait RecordSink {
    /// A record that lies in one piece; nothing is copied.
    fn whole(&mut self, record: &Record<'_>);

    /// A record that straddles pieces begins at `position`. Its data follows in parts.
    fn begins(&mut self, position: u64, header: &RecordHeader);

    /// Some data of the record that has begun. May be empty.
    fn part(&mut self, data: &[u8]);

    /// The record that has begun is complete.
    fn ends(&mut self);
}

/// Nobody wants the records: they are only checked.
impl RecordSink for () {
    fn whole(&mut self, _: &Record<'_>) {}
    fn begins(&mut self, _: u64, _: &RecordHeader) {}
    fn part(&mut self, _: &[u8]) {}
    fn ends(&mut self) {}
}

/// What a storage held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageSummary {
    /// Its records.
    pub records: u64,
    /// Their data.
    pub data_bytes: u64,
}

/// Checks a storage that comes in pieces of any size and says where its records are.
///
/// Of each record it looks at the header alone, so it is done with a piece long before memory could
/// have delivered all of it. A header that straddles two pieces is put together in 136 bytes; no
/// data is ever copied. After an error the scanner is of no more use.
#[derive(Debug)]
pub struct StorageScanner {
    slot: u64,
    id: u64,
    size: u64,
    /// Bytes that have come.
    fed: u64,
    state: State,
    summary: StorageSummary,
}

#[derive(Debug)]
enum State {
    /// The next record begins at `position`, which may lie behind what has come.
    Between { position: u64 },
    /// The first `filled` bytes of the header at `position` are in the carry.
    InHeader { position: u64, carry: [u8; RECORD_HEADER_BYTES], filled: usize },
    /// `left` bytes of data have not come yet; the next record begins at `next`.
    InData { left: u64, next: u64 },
    /// No more records; from `position` on there are only zeros.
    Behind { position: u64 },
}

impl StorageScanner {
    /// Begins with the storage `accounts/<slot>.<id>` of `size` bytes.
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

    /// Goes on with the next bytes of the storage.
    pub fn feed(&mut self, piece: &[u8], sink: &mut impl RecordSink) -> Result<(), StorageError> {
        let base = self.fed;
        // A piece is at most isize::MAX bytes, and what has come before is within the size.
        self.fed += piece.len() as u64;
        if self.fed > self.size {
            return Err(self.wrong_size());
        }
        // Bytes of the piece that the record that straddles into it has taken.
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

    /// Ends the storage.
    pub fn finish(self) -> Result<StorageSummary, StorageError> {
        // A record that is not complete has been refused by its header.
        if self.fed == self.size { Ok(self.summary) } else { Err(self.wrong_size()) }
    }

    /// Follows the records that begin in `piece`, the first at `position` of the storage, and says
    /// in which state its end leaves the scanner.
    fn scan(
        &mut self,
        piece: &[u8],
        base: u64,
        mut position: u64,
        sink: &mut impl RecordSink,
    ) -> Result<State, StorageError> {
        loop {
            if self.size.saturating_sub(position) < RECORD_HEADER_BYTES as u64 {
                return Ok(State::Behind { position });
            }
            // Positions never go back behind the piece, so this is how far it is into it.
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
            // At most 10 MiB, as has just been checked.
            let data_len = usize::try_from(header.data_len).unwrap_or(usize::MAX);
            let Some(data) = rest.get(..data_len) else {
                sink.begins(position, &header);
                sink.part(rest);
                return Ok(State::InData { left: header.data_len - rest.len() as u64, next });
            };
            sink.whole(&Record { position, header: &header, data, piece_offset: at });
            position = next;
        }
    }

    /// Checks a header and counts its record; says where the next one begins.
    #[inline]
    fn check(&mut self, offset: u64, header: &RecordHeader) -> Result<u64, StorageError> {
        let (found, limit) = (header.data_len, ACCOUNT_DATA_BYTES_MAX);
        // Neither overflows: the storage is at most 16 GiB, as is the offset in it.
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

#[cfg(test)]
mod tests;
