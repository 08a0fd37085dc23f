//! The second look: reads records again that may have newer or older versions.

use std::{
    collections::HashMap, error::Error, fs::File, io, ops::Range, os::unix::fs::FileExt as _,
};

use thiserror::Error;
use unsnap_layout::append_vec::{ACCOUNT_DATA_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader};

/// Bytes of a record that are read from a file at once: the header and the data of most accounts. A
/// guess.
const FIRST_READ_BYTES: u64 = 1024;

/// A storage of one of the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StorageId {
    /// Number of the stream that it came in. The first is 0.
    pub stream: usize,
    /// Slot in its name.
    pub slot: u64,
    /// Number in its name.
    pub id: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// A record to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The storage that holds it.
    pub storage: StorageId,
    /// Offset of the record in the storage.
    pub offset: u64,
}

/// Callback for a record, identified by its index among the wanted records.
pub type Take<'a> = dyn FnMut(usize, &RecordHeader, &[u8]) + 'a;

/// Reads records again.
pub trait SecondLook {
    /// Reads all of `wanted` and passes each record to `take`, in any order.
    ///
    /// The records of one storage are adjacent and in its order. Storages are in the order in which
    /// they began. Called once, or several times if memory does not suffice for all records.
    fn look(&mut self, wanted: &[Wanted], take: &mut Take<'_>) -> Result<(), LookError>;
}

/// The reason why a record could not be read again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LookError {
    /// Its file could not be opened or read.
    #[error("accounts/{slot}.{id} could not be read again at offset {offset}")]
    File {
        /// Slot of the storage.
        slot: u64,
        /// Number of the storage.
        id: u64,
        /// Offset of the record.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The bytes differ from those that were verified.
    #[error("accounts/{slot}.{id} has changed at offset {offset} since it was verified")]
    Changed {
        /// Slot of the storage.
        slot: u64,
        /// Number of the storage.
        id: u64,
        /// Offset of the record.
        offset: u64,
    },
    /// The second pass over the archives failed.
    #[error("the archives could not be read a second time")]
    Pass(#[source] Box<dyn Error + Send + Sync>),
}

impl Wanted {
    pub(super) fn changed(&self) -> LookError {
        let StorageId { slot, id, .. } = self.storage;
        LookError::Changed { slot, id, offset: self.offset }
    }

    fn failed(&self, source: io::Error) -> LookError {
        let StorageId { slot, id, .. } = self.storage;
        LookError::File { slot, id, offset: self.offset, source }
    }

    /// Returns the length of the record's data, if the record is unchanged in its place.
    fn data_len(&self, header: &RecordHeader) -> Result<usize, LookError> {
        let end = self.offset.saturating_add(header.record_bytes());
        if header.data_len > ACCOUNT_DATA_BYTES_MAX || end > self.storage.size {
            return Err(self.changed());
        }
        Ok(usize::try_from(header.data_len).unwrap_or(usize::MAX))
    }
}

/// A second look that reads nothing. Suitable only if no account occurs twice.
#[derive(Debug)]
pub struct NoLook;

impl SecondLook for NoLook {
    fn look(&mut self, wanted: &[Wanted], _: &mut Take<'_>) -> Result<(), LookError> {
        let said = format!(
            "{} records have to be read again, but this caller cannot do that",
            wanted.len()
        );
        Err(LookError::Pass(said.into()))
    }
}

/// Reads records from the files that storages were unpacked to.
#[derive(Debug)]
pub struct FileLook<F> {
    open: F,
}

impl<F: FnMut(&StorageId) -> io::Result<File>> FileLook<F> {
    /// Creates a second look at files. `open` opens the file of a storage. It is called once per
    /// storage, and each file is closed before the next one is opened.
    pub fn new(open: F) -> Self {
        Self { open }
    }
}

impl<F: FnMut(&StorageId) -> io::Result<File>> SecondLook for FileLook<F> {
    fn look(&mut self, wanted: &[Wanted], take: &mut Take<'_>) -> Result<(), LookError> {
        let mut bytes = Vec::new();
        let mut first = 0;
        for storage in wanted.chunk_by(|one, other| one.storage == other.storage) {
            let file =
                (self.open)(&storage[0].storage).map_err(|error| storage[0].failed(error))?;
            for (index, record) in (first..).zip(storage) {
                let rest = record.storage.size.saturating_sub(record.offset);
                bytes.resize(rest.min(FIRST_READ_BYTES) as usize, 0); // at most 1024
                file.read_exact_at(&mut bytes, record.offset)
                    .map_err(|error| record.failed(error))?;
                let header = RecordHeader::parse_at(&bytes, 0).ok_or_else(|| record.changed())?;
                let end = RECORD_HEADER_BYTES + record.data_len(&header)?;
                if end > bytes.len() {
                    let had = bytes.len();
                    bytes.resize(end, 0);
                    file.read_exact_at(&mut bytes[had..], record.offset + had as u64)
                        .map_err(|error| record.failed(error))?;
                }
                take(index, &header, &bytes[RECORD_HEADER_BYTES..end]);
            }
            first += storage.len();
        }
        Ok(())
    }
}

/// Reads records from the archives in a second pass.
#[derive(Debug)]
pub struct StreamLook<F> {
    pass: F,
}

impl<F> StreamLook<F>
where
    F: FnMut(&mut Picker<'_, '_>) -> Result<(), Box<dyn Error + Send + Sync>>,
{
    /// Creates a second look at streams. `pass` goes through all streams again, one after the
    /// other, and passes their storages to the [`Picker`].
    pub fn new(pass: F) -> Self {
        Self { pass }
    }
}

impl<F> SecondLook for StreamLook<F>
where
    F: FnMut(&mut Picker<'_, '_>) -> Result<(), Box<dyn Error + Send + Sync>>,
{
    fn look(&mut self, wanted: &[Wanted], take: &mut Take<'_>) -> Result<(), LookError> {
        let mut storages: HashMap<_, Range<usize>> = HashMap::new();
        for (index, Wanted { storage, .. }) in wanted.iter().enumerate() {
            storages.entry(*storage).or_insert(index..index).end = index + 1;
        }
        let mut picker = Picker {
            wanted,
            storages,
            take,
            left: 0..0,
            position: 0,
            gathered: Vec::new(),
            failure: None,
        };
        (self.pass)(&mut picker).map_err(LookError::Pass)?;
        picker.failure.map_or(Ok(()), Err)
    }
}

/// Picks the wanted records out of storages that pass by. Holds at most one record.
pub struct Picker<'a, 't> {
    wanted: &'a [Wanted],
    /// Index range of the wanted records of each storage.
    storages: HashMap<StorageId, Range<usize>>,
    take: &'a mut Take<'t>,
    /// The wanted records of the current storage that have not arrived yet.
    left: Range<usize>,
    /// Bytes of the current storage that have arrived.
    position: u64,
    /// The beginning of the first record in `left`.
    gathered: Vec<u8>,
    failure: Option<LookError>,
}

impl Picker<'_, '_> {
    /// Begins a storage. Returns whether any of its records is wanted; if not, its pieces may be
    /// skipped.
    pub fn begin(&mut self, storage: &StorageId) -> bool {
        self.left = self.storages.get(storage).cloned().unwrap_or(0..0);
        self.position = 0;
        self.gathered.clear();
        !self.left.is_empty()
    }

    /// Consumes the next bytes of the storage, in pieces of any size.
    pub fn piece(&mut self, piece: &[u8]) {
        let base = self.position;
        self.position += piece.len() as u64;
        while self.failure.is_none() && !self.left.is_empty() {
            let record = &self.wanted[self.left.start];
            // The gathered bytes end where this piece begins.
            let at = record.offset.saturating_sub(base);
            let Some(rest) = usize::try_from(at).ok().and_then(|at| piece.get(at..)) else {
                return;
            };
            match self.record(record, rest) {
                Ok(true) => self.left.start += 1,
                Ok(false) => return,
                Err(error) => self.failure = Some(error),
            }
        }
    }

    /// Continues a record with the bytes of a piece that belong to it. Returns whether it is
    /// complete.
    fn record(&mut self, record: &Wanted, mut rest: &[u8]) -> Result<bool, LookError> {
        if self.gathered.is_empty()
            && let Some(header) = RecordHeader::parse_at(rest, 0)
        {
            let data_len = record.data_len(&header)?;
            if let Some(data) = rest[RECORD_HEADER_BYTES..].get(..data_len) {
                (self.take)(self.left.start, &header, data);
                return Ok(true);
            }
        }
        let mut gather = |gathered: &mut Vec<u8>, until: usize| {
            let (taken, left) = rest.split_at((until - gathered.len()).min(rest.len()));
            gathered.extend_from_slice(taken);
            rest = left;
            gathered.len() == until
        };
        if self.gathered.len() < RECORD_HEADER_BYTES
            && !gather(&mut self.gathered, RECORD_HEADER_BYTES)
        {
            return Ok(false);
        }
        let Some(header) = RecordHeader::parse_at(&self.gathered, 0) else { return Ok(false) };
        let end = RECORD_HEADER_BYTES + record.data_len(&header)?;
        if !gather(&mut self.gathered, end) {
            return Ok(false);
        }
        (self.take)(self.left.start, &header, &self.gathered[RECORD_HEADER_BYTES..]);
        self.gathered.clear();
        Ok(true)
    }
}

impl std::fmt::Debug for Picker<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picker").field("left", &self.left).finish_non_exhaustive()
    }
}
