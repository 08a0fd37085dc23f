//! Records of an archive's storages, in batches for worker threads.

use std::ops::ControlFlow;

use unsnap_arena::Slice;
use unsnap_layout::{
    Role,
    append_vec::{RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader},
};
use unsnap_pass::{Passing, Tap};
use unsnap_verify::{Record, RecordSink, StorageScanner};

/// Size of a batch in bytes: some thousand accounts, so that the cost of passing a batch through
/// two queues does not matter. A guess.
const BATCH_BYTES: usize = 1 << 20;

/// A storage of the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Its number in the archive, from 0.
    pub number: u32,
    /// Slot in its name.
    pub slot: u64,
    /// Number in its name.
    pub id: u32,
    /// Size in bytes.
    pub size: u64,
}

/// Listener to the content of storages.
pub trait StorageTap: Send {
    /// Takes the next bytes of the current storage.
    fn piece(&mut self, bytes: &[u8]);

    /// Ends the current storage.
    fn end(&mut self, storage: Storage);
}

/// Ignores everything.
impl StorageTap for () {
    fn piece(&mut self, _: &[u8]) {}
    fn end(&mut self, _: Storage) {}
}

/// Consecutive whole records of a storage.
#[derive(Debug)]
pub struct Batch {
    /// The storage.
    pub storage: Storage,
    /// Offset of the first record in the storage.
    position: u64,
    bytes: BatchBytes,
}

#[derive(Debug)]
enum BatchBytes {
    /// Records in the segment into which they were decoded.
    Shared(Slice),
    /// One record that was split over segments.
    Gathered(Vec<u8>),
}

impl Batch {
    /// Shows each record to `see`: its offset in the storage, its header and its data.
    pub fn each<'b>(&'b self, mut see: impl FnMut(u64, &RecordHeader, &'b [u8])) {
        let bytes: &[u8] = match &self.bytes {
            BatchBytes::Shared(slice) => slice,
            BatchBytes::Gathered(bytes) => bytes,
        };
        let (mut at, mut position) = (0, self.position);
        while let Some(header) = RecordHeader::parse_at(bytes, at) {
            let data = &bytes[at + RECORD_HEADER_BYTES..];
            let data = usize::try_from(header.data_len).ok().and_then(|len| data.get(..len));
            let Some(data) = data else { break };
            see(position, &header, data);
            // Records are aligned in the storage, but a batch may begin anywhere in memory.
            let end = position + header.record_bytes();
            let next = end.next_multiple_of(RECORD_ALIGNMENT);
            at += RECORD_HEADER_BYTES + data.len() + usize::try_from(next - end).unwrap_or(0);
            position = next;
        }
    }
}

/// Cuts storages into batches during the walk.
pub struct Records<'s, F> {
    /// Takes batches, in order. A break ends the run.
    take: F,
    storages: u32,
    current: Option<(Storage, StorageScanner)>,
    straddling: Straddling,
    listener: Option<&'s mut dyn StorageTap>,
}

/// An incomplete record that is split over segments.
#[derive(Debug, Default)]
struct Straddling {
    position: u64,
    bytes: Vec<u8>,
}

impl<'s, F: FnMut(Batch) -> ControlFlow<()> + Send> Records<'s, F> {
    /// Creates a tap that passes batches on to `take`.
    pub fn new(take: F) -> Self {
        let straddling = Straddling::default();
        Self { take, storages: 0, current: None, straddling, listener: None }
    }

    /// Shows the content of storages to a listener.
    pub fn storages_to(&mut self, listener: &'s mut dyn StorageTap) {
        self.listener = Some(listener);
    }

    fn begin(&mut self, slot: u64, id: u32, size: u64) -> ControlFlow<()> {
        let storage = Storage { number: self.storages, slot, id, size };
        self.storages += 1;
        // The run's own scanner has refused such a storage before.
        let Ok(scanner) = StorageScanner::new(slot, id.into(), size) else {
            return ControlFlow::Break(());
        };
        self.current = Some((storage, scanner));
        ControlFlow::Continue(())
    }

    fn piece(&mut self, piece: &Slice, last: bool) -> ControlFlow<()> {
        let Some((storage, scanner)) = &mut self.current else {
            return ControlFlow::Continue(());
        };
        let mut cutter = Cutter {
            storage: *storage,
            piece,
            run: None,
            straddling: &mut self.straddling,
            take: &mut self.take,
            flow: ControlFlow::Continue(()),
        };
        let fed = scanner.feed(piece, &mut cutter);
        cutter.cut();
        cutter.flow?;
        if let Some(listener) = &mut self.listener {
            listener.piece(piece);
            if last {
                listener.end(*storage);
            }
        }
        if last {
            self.current = None;
        }
        if fed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

impl<F: FnMut(Batch) -> ControlFlow<()> + Send> Tap for Records<'_, F> {
    fn take(&mut self, what: Passing<'_>, bytes: Slice) -> ControlFlow<()> {
        match what {
            Passing::Member { member, role: Some(Role::Storage { slot, id }) } => {
                self.begin(slot, id, member.size)
            }
            Passing::Payload { last } => self.piece(&bytes, last),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Cuts the records of one piece into batches.
struct Cutter<'a, F> {
    storage: Storage,
    piece: &'a Slice,
    /// Records not passed on yet: their offset in the storage, and their start and end in the
    /// piece.
    run: Option<(u64, usize, usize)>,
    straddling: &'a mut Straddling,
    take: &'a mut F,
    flow: ControlFlow<()>,
}

impl<F: FnMut(Batch) -> ControlFlow<()>> Cutter<'_, F> {
    fn cut(&mut self) {
        if let Some((position, start, end)) = self.run.take() {
            self.hand_on(position, BatchBytes::Shared(self.piece.slice(start..end)));
        }
    }

    fn hand_on(&mut self, position: u64, bytes: BatchBytes) {
        if self.flow.is_continue() {
            self.flow = (self.take)(Batch { storage: self.storage, position, bytes });
        }
    }
}

impl<F: FnMut(Batch) -> ControlFlow<()>> RecordSink for Cutter<'_, F> {
    fn whole(&mut self, record: &Record<'_>) {
        let end = record.piece_offset + RECORD_HEADER_BYTES + record.data.len();
        let begun = (record.position, record.piece_offset, end);
        let (position, start, _) = *self.run.get_or_insert(begun);
        self.run = Some((position, start, end));
        if end - start >= BATCH_BYTES {
            self.cut();
        }
    }

    fn begins(&mut self, position: u64, header: &RecordHeader) {
        // Earlier records are passed on first.
        self.cut();
        self.straddling.position = position;
        self.straddling.bytes.clear();
        self.straddling.bytes.extend(header.to_bytes());
    }

    fn part(&mut self, data: &[u8]) {
        self.straddling.bytes.extend(data);
    }

    fn ends(&mut self) {
        let position = self.straddling.position;
        let bytes = std::mem::take(&mut self.straddling.bytes);
        self.hand_on(position, BatchBytes::Gathered(bytes));
    }
}
