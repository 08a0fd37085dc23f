//! Reader of parts of the decoded stream.

use std::{
    io,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use unsnap_decode::ReadAt;

use crate::{
    FrameTable, IndexError,
    ahead::{Ahead, StopAtEnd},
    decoder::{self, FrameReader, bad},
    plan::{Batch, Plan, Unit, length},
    reading::read_into,
};

/// Decoded bytes that are handled at a time when a frame is streamed.
const STREAM_BYTES: usize = 256 << 10;

/// Options for reading parts.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Frames separated by at most this many bytes of the archive are read together.
    pub coalesce_gap: u64,
    /// Threads that read and decode. At least 1.
    pub threads: usize,
    /// Memory for data read and decoded ahead, in bytes. One frame is always admitted: up to 256
    /// MiB.
    pub memory_bytes: u64,
}

impl ReadOptions {
    /// Largest gap that is worth reading across: 48 KiB. At this gap one longer read takes as long
    /// as two reads on the development machine's virtual disk (`examples/gaps.rs`, "Looking into
    /// archives" in BENCHMARKS.md).
    pub const COALESCE_GAP: u64 = 48 << 10;
}

impl Default for ReadOptions {
    /// Returns two threads and 256 MiB.
    fn default() -> Self {
        Self { coalesce_gap: Self::COALESCE_GAP, threads: 2, memory_bytes: 256 << 20 }
    }
}

/// Cost of reading parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Number of read system calls.
    pub reads: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Part of these bytes that lies between frames, read because another read would have taken
    /// longer.
    pub extra_bytes: u64,
    /// Number of reads saved that way.
    pub reads_saved: u64,
    /// Number of decoded frames. The last one may be incomplete.
    pub frames: u64,
    /// Number of requested bytes.
    pub wanted_bytes: u64,
}

impl ReadCounts {
    /// Adds the cost of another read.
    pub fn add(&mut self, other: Self) {
        self.reads += other.reads;
        self.bytes_read += other.bytes_read;
        self.extra_bytes += other.extra_bytes;
        self.reads_saved += other.reads_saved;
        self.frames += other.frames;
        self.wanted_bytes += other.wanted_bytes;
    }
}

/// Reads ranges of the decoded stream of an archive with a known frame table.
///
/// The reader maps requested ranges to frames, frames to ranges of the archive, and merges
/// neighbouring ranges into one read. A few threads decode whole frames ahead of the caller, in
/// order, within a memory budget. Frames larger than 128 MiB (the single frame of an archive from
/// Agave before 4.3) are streamed from their beginning by the caller's thread.
pub struct RangeReader<'a> {
    archive: &'a dyn ReadAt,
    table: &'a FrameTable,
    options: ReadOptions,
    is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> RangeReader<'a> {
    /// Creates a reader. `table` must be the table of this archive; a frame that decodes to another
    /// length is an error.
    pub fn new(archive: &'a dyn ReadAt, table: &'a FrameTable, options: ReadOptions) -> Self {
        Self { archive, table, options, is_cancelled: &|| false }
    }

    /// Ends with [`IndexError::Cancelled`] once this returns `true`.
    #[must_use]
    pub fn cancelled_by(mut self, is_cancelled: &'a (dyn Fn() -> bool + Sync)) -> Self {
        self.is_cancelled = is_cancelled;
        self
    }

    /// Passes the bytes of all ranges to `sink`, each byte once and in the order of the stream, in
    /// pieces of any size that lie within a frame, with the offset of each piece. Returns the first
    /// error of `sink` or of the archive.
    pub fn read<E: From<IndexError>>(
        &self,
        ranges: &[Range<u64>],
        mut sink: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<ReadCounts, E> {
        let plan = Plan::new(self.table, ranges, self.options.coalesce_gap)?;
        let counted = Counted::new(self.archive);
        let threads = self.options.threads.clamp(1, plan.batches.len().max(1));
        let mut consume = |batch: &Batch, done: Result<Pieces, IndexError>| -> Result<(), E> {
            if batch.streamed {
                return self.stream(&counted, &plan, &plan.units[batch.units.start], &mut sink);
            }
            done?.into_iter().try_for_each(|(offset, bytes)| sink(offset, &bytes))
        };
        if threads == 1 {
            let mut work = Worker::new(self, &counted, &plan)?;
            plan.batches.iter().try_for_each(|batch| consume(batch, work.batch(batch)))?;
        } else {
            self.read_ahead(&counted, &plan, threads, &mut consume)?;
        }
        Ok(ReadCounts {
            reads: counted.reads.load(Relaxed),
            bytes_read: counted.bytes.load(Relaxed),
            extra_bytes: plan.gap_bytes,
            reads_saved: plan.reads_saved,
            frames: plan.units.len() as u64,
            wanted_bytes: plan.wanted.iter().map(length).sum(),
        })
    }

    fn read_ahead<E: From<IndexError>>(
        &self,
        counted: &Counted<'_>,
        plan: &Plan,
        threads: usize,
        consume: &mut impl FnMut(&Batch, Result<Pieces, IndexError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let costs = plan.batches.iter().map(|batch| batch.cost).collect();
        let ahead = Ahead::new(costs, self.options.memory_bytes);
        thread::scope(|scope| {
            let stop = StopAtEnd(&ahead);
            for index in 0..threads {
                let mut work = Worker::new(self, counted, plan)?;
                let name = format!("unsnap-range-{index}");
                let ahead = &ahead;
                let body = move || {
                    // A panic must not leave the others waiting.
                    let stop = StopAtEnd(ahead);
                    while let Some(job) = ahead.begin() {
                        let done = plan.batches.get(job).map(|batch| work.batch(batch));
                        ahead.put(job, done.unwrap_or(Err(IndexError::Cancelled)));
                    }
                    // All jobs have started, but results of others are still needed.
                    std::mem::forget(stop);
                };
                let started = thread::Builder::new().name(name).spawn_scoped(scope, body);
                started.map_err(|error| IndexError::SetUp(error.to_string()))?;
            }
            for batch in &plan.batches {
                let done = ahead.take().ok_or_else(died)?;
                consume(batch, done)?;
                ahead.release();
            }
            drop(stop);
            Ok(())
        })
    }

    /// Decodes a frame from its beginning to the last requested byte.
    fn stream<E: From<IndexError>>(
        &self,
        counted: &Counted<'_>,
        plan: &Plan,
        unit: &Unit,
        sink: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut decoder = decoder::stream(self.table.encoding(), unit, counted)?;
        let end = plan.wanted_of(&unit.raw).last().map_or(unit.raw.start, |last| last.end);
        let mut buffer = vec![0; STREAM_BYTES];
        let mut at = unit.raw.start;
        while at < end {
            if (self.is_cancelled)() {
                return Err(IndexError::Cancelled.into());
            }
            let count = match decoder.read(&mut buffer) {
                Ok(0) => {
                    let held = at - unit.raw.start;
                    let reason =
                        format!("it decodes to {held} bytes instead of {}", length(&unit.raw));
                    return Err(bad(unit, reason).into());
                }
                Ok(count) => count as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(bad(unit, error.to_string()).into()),
            };
            for wanted in plan.wanted_of(&(at..(at + count).min(end))) {
                let bytes = part_of(&buffer, at, &wanted);
                sink(wanted.start, bytes)?;
            }
            at += count;
        }
        Ok(())
    }
}

/// The requested parts of a decoded batch, with offsets in the decoded stream.
type Pieces = Vec<(u64, Vec<u8>)>;

/// Reads and decodes batches.
struct Worker<'a> {
    archive: &'a Counted<'a>,
    plan: &'a Plan,
    decoder: FrameReader,
    buffer: Vec<u8>,
    is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> Worker<'a> {
    fn new(
        reader: &RangeReader<'a>,
        archive: &'a Counted<'a>,
        plan: &'a Plan,
    ) -> Result<Self, IndexError> {
        let decoder = FrameReader::new(reader.table.encoding())?;
        let is_cancelled = reader.is_cancelled;
        Ok(Self { archive, plan, decoder, buffer: Vec::new(), is_cancelled })
    }

    /// Returns the requested parts of a batch, or nothing if the batch is to be streamed.
    fn batch(&mut self, batch: &Batch) -> Result<Pieces, IndexError> {
        let mut pieces = Vec::new();
        if batch.streamed {
            return Ok(pieces);
        }
        if (self.is_cancelled)() {
            return Err(IndexError::Cancelled);
        }
        self.buffer.resize(usize::try_from(length(&batch.extent)).unwrap_or(0), 0);
        read_into(self.archive, &mut self.buffer, batch.extent.start)?;
        for unit in &self.plan.units[batch.units.clone()] {
            let compressed = part_of(&self.buffer, batch.extent.start, &unit.extent);
            let raw = self.decoder.decode(unit, compressed)?;
            let mut wanted = self.plan.wanted_of(&unit.raw).peekable();
            if wanted.peek() == Some(&unit.raw) {
                pieces.push((unit.raw.start, raw));
                continue;
            }
            pieces.extend(wanted.map(|part| {
                let bytes = part_of(&raw, unit.raw.start, &part).to_vec();
                (part.start, bytes)
            }));
        }
        Ok(pieces)
    }
}

/// Returns the part of `bytes` in `range`. `bytes` begin at `start`.
fn part_of<'b>(bytes: &'b [u8], start: u64, range: &Range<u64>) -> &'b [u8] {
    let index = |offset: u64| usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
    bytes.get(index(range.start)..index(range.end)).unwrap_or_default()
}

/// Returns the error for a thread that ended without an error, which only a panic causes.
fn died() -> IndexError {
    IndexError::SetUp("a decoding thread ended unexpectedly (a bug)".to_owned())
}

/// An archive that counts its reads.
struct Counted<'a> {
    archive: &'a dyn ReadAt,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl<'a> Counted<'a> {
    fn new(archive: &'a dyn ReadAt) -> Self {
        Self { archive, reads: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }
}

impl ReadAt for Counted<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.archive.read_at(buffer, offset)?;
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(count as u64, Relaxed);
        Ok(count)
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        self.archive.will_read(offset, bytes);
    }
}
