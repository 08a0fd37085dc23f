//! Test support: runs the decoder on bytes in memory.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use unsnap_arena::{Arena, Block, Pool, Slice};
use unsnap_decode::{
    DecodeError, DecodeSummary, Decoded, Decoder, Job, Limits, MemoryPlan, Position, Tuning, start,
};
use unsnap_source::{Source, SourceError, SourceTraits, Span};
use unsnap_testkit::{
    compress::{
        lz4_frame, lz4_frame_independent, lz4_frame_large_blocks, lz4_frames, skippable_frame,
        skippable_frame_numbered, zstd_firedancer, zstd_frames, zstd_frames_unsized,
        zstd_one_frame, zstd_raw_blocks, zstd_rle_blocks,
    },
    content::{Content, fill_segment},
    tar::{TarBuilder, snapshot_tar},
};

/// Parameters of a decoding test.
#[derive(Clone, Debug)]
pub struct Setup {
    pub threads: usize,
    /// Length of the source's spans in bytes.
    pub span_bytes: usize,
    /// Length in bytes of the reads that the spans are parts of.
    pub chunk_bytes: usize,
    pub budget: usize,
    pub segment_bytes: Option<usize>,
    pub decoder: Decoder,
    /// Number of chunks that the own decoder has at a time, and most blocks in a chunk.
    pub chunks: Option<usize>,
    pub chunk_blocks_max: Option<usize>,
    pub limits: Limits,
    /// Number of bytes after which the source fails.
    pub fails_at: Option<usize>,
    /// Whether the source reserves memory in front of its reads.
    pub headroom: bool,
}

impl Setup {
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            span_bytes: 1 << 20,
            chunk_bytes: 64 << 10,
            budget: 64 << 20,
            segment_bytes: None,
            decoder: Decoder::Libzstd,
            chunks: None,
            chunk_blocks_max: None,
            limits: Limits::default(),
            fails_at: None,
            headroom: false,
        }
    }

    /// Uses the own decoder with so many chunks at a time, each of so many blocks at most.
    pub fn own(self, chunks: usize, blocks: usize) -> Self {
        let (chunks, chunk_blocks_max) = (Some(chunks), Some(blocks));
        Self { decoder: Decoder::Own, chunks, chunk_blocks_max, ..self }
    }

    pub fn spans(self, span_bytes: usize) -> Self {
        Self { span_bytes, ..self }
    }

    pub fn segments(self, segment_bytes: usize) -> Self {
        Self { segment_bytes: Some(segment_bytes), ..self }
    }

    /// Returns this setup for both decoders.
    pub fn both(&self) -> [Self; 2] {
        // With one block in a chunk, everything is carried from chunk to chunk all the time.
        let blocks = if self.threads == 1 { 1 } else { 1000 };
        [self.clone(), self.clone().own(self.threads, blocks)]
    }

    /// Starts decoding with new memory.
    pub fn start(&self, archive: &[u8]) -> Running {
        self.start_with(archive, reserve)
    }

    /// Starts decoding with the memory for reading and for segments from `memory`.
    pub fn start_with(
        &self,
        archive: &[u8],
        memory: impl FnOnce(&MemoryPlan) -> (Pool, Pool),
    ) -> Running {
        let head = &archive[..archive.len().min(512)];
        let Self { segment_bytes, decoder, chunks, chunk_blocks_max, .. } = *self;
        let tuning =
            Tuning { segment_bytes, decoder, chunks, chunk_blocks_max, ..Tuning::default() };
        let plan = MemoryPlan::new(self.budget, self.threads, head, &self.limits, tuning);
        let (read, segments) = memory(&plan);
        let progress = Arc::new(AtomicU64::new(0));
        let source = Memory {
            rest: archive.to_vec(),
            at: 0,
            chunk: None,
            fails_at: self.fails_at.unwrap_or(usize::MAX),
            span_bytes: self.span_bytes,
            chunk_bytes: self.chunk_bytes.min(read.bytes()),
            pool: read.clone(),
            headroom_bytes: if self.headroom { 4096 } else { 0 },
            headroom: None,
        };
        let decoded = start(Job {
            source: Box::new(source),
            segments: segments.clone(),
            plan,
            limits: self.limits.clone(),
            threads: self.threads,
            progress: Arc::clone(&progress),
            begin: Position::default(),
            frame_starts: Arc::default(),
        })
        .unwrap();
        Running { decoded, read, segments, progress }
    }

    /// Decodes to the end or to an error, and checks the invariants of every run.
    #[track_caller]
    pub fn decode(&self, archive: &[u8]) -> Outcome {
        let Running { mut decoded, read, segments, progress, .. } =
            self.start_with(archive, reserved);
        let mut bytes = Vec::new();
        let mut before = Position::default();
        let mut count = 0;
        let result = loop {
            let piece = match decoded.next() {
                Ok(Some(piece)) => piece,
                Ok(None) => break Ok(decoded.summary().unwrap().clone()),
                Err(error) => break Err(error),
            };
            let (segment, at) = (&piece.segment, piece.at);
            assert!(!segment.is_empty());
            assert_eq!(segment.raw_offset(), bytes.len() as u64, "gaps or overlaps");
            assert_eq!(at.raw_offset, segment.raw_offset());
            let address = segment.bytes().as_ptr().addr() as u64;
            assert_eq!(address % 512, segment.raw_offset() % 512);
            assert!(at.frame >= before.frame && at.compressed_offset >= before.compressed_offset);
            assert!(at.compressed_offset <= archive.len() as u64);
            before = at;
            bytes.extend_from_slice(segment.bytes());
            count += 1;
        };
        match &result {
            Ok(summary) => {
                assert_eq!(summary.bytes_decoded, bytes.len() as u64);
                assert_eq!(summary.bytes_read, archive.len() as u64);
                assert_eq!(progress.load(Ordering::Relaxed), archive.len() as u64);
                assert!(decoded.next().unwrap().is_none(), "the end stays the end");
            }
            Err(error) => assert!(!matches!(error, DecodeError::Cancelled), "a thread died"),
        }
        let times = decoded.join();
        assert_eq!(times.len(), 1 + if self.threads > 1 { self.threads } else { 0 });
        assert_whole(&read);
        assert_whole(&segments);
        Outcome { bytes, segments: count, result }
    }
}

fn reserve(plan: &MemoryPlan) -> (Pool, Pool) {
    let mut arena = Arena::builder().bytes(plan.total_bytes()).populate(false).build().unwrap();
    (arena.pool(plan.read_bytes).unwrap(), arena.pool(plan.segments_bytes).unwrap())
}

/// Returns memory that later runs reuse, since reserving it takes longer than a small decoding.
fn reserved(plan: &MemoryPlan) -> (Pool, Pool) {
    thread_local! {
        static RESERVED: RefCell<Vec<(Pool, Pool)>> = const { RefCell::new(Vec::new()) };
    }
    RESERVED.with_borrow_mut(|reserved| {
        let suits = |(read, segments): &&(Pool, Pool)| {
            (read.bytes(), segments.bytes()) == (plan.read_bytes, plan.segments_bytes)
        };
        if let Some(pools) = reserved.iter().find(suits) {
            return pools.clone();
        }
        let pools = reserve(plan);
        reserved.push(pools.clone());
        pools
    })
}

/// A running decoder and its memory.
pub struct Running {
    pub decoded: Decoded,
    pub read: Pool,
    pub segments: Pool,
    pub progress: Arc<AtomicU64>,
}

pub struct Outcome {
    pub bytes: Vec<u8>,
    /// Number of segments.
    pub segments: usize,
    pub result: Result<DecodeSummary, DecodeError>,
}

impl Outcome {
    #[track_caller]
    pub fn expect(self, expected: &[u8]) -> DecodeSummary {
        let summary = self.result.unwrap();
        assert_same(&self.bytes, expected);
        summary
    }
}

/// Asserts that every byte has been returned to the pool.
#[track_caller]
pub fn assert_whole(pool: &Pool) {
    assert!(pool.try_allocate(pool.bytes()).is_some(), "memory is still lent");
}

/// Like `assert_eq`, but does not print megabytes.
#[track_caller]
pub fn assert_same(found: &[u8], expected: &[u8]) {
    let differ = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert_eq!(differ, None, "first difference");
    assert_eq!(found.len(), expected.len());
}

/// Runs `body` and fails if it hangs.
pub fn watched(body: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let body = thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_mins(3)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        _ => body.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Source of bytes in memory: reads of `chunk_bytes`, returned in spans of `span_bytes`.
struct Memory {
    rest: Vec<u8>,
    at: usize,
    chunk: Option<Slice>,
    fails_at: usize,
    span_bytes: usize,
    chunk_bytes: usize,
    pool: Pool,
    headroom_bytes: usize,
    headroom: Option<Block>,
}

impl Source for Memory {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        let end = self.rest.len().min(self.fails_at);
        if self.at == end {
            let expected = self.rest.len() as u64;
            return if end == self.rest.len() {
                Ok(None)
            } else {
                Err(SourceError::Shrank { path: "memory".into(), expected, found: end as u64 })
            };
        }
        let chunk = if let Some(chunk) = self.chunk.take() {
            chunk
        } else {
            let bytes = self.headroom_bytes + self.chunk_bytes;
            let (mut block, _) = self.pool.allocate(bytes).map_err(|_| SourceError::Cancelled)?;
            let headroom = block.split_to(self.headroom_bytes);
            self.headroom = Some(headroom).filter(|headroom| !headroom.is_empty());
            let len = (end - self.at).min(self.chunk_bytes);
            block[..len].copy_from_slice(&self.rest[self.at..self.at + len]);
            block.freeze().slice(..len)
        };
        let len = chunk.len().min(self.span_bytes);
        let span = Span { offset: self.at as u64, bytes: chunk.slice(..len) };
        self.at += len;
        self.chunk = Some(chunk.slice(len..)).filter(|rest| !rest.is_empty());
        Ok(Some(span))
    }

    fn headroom(&mut self) -> Option<Block> {
        self.headroom.take()
    }

    fn len(&self) -> Option<u64> {
        Some(self.rest.len() as u64)
    }

    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    fn traits(&self) -> SourceTraits {
        SourceTraits::default()
    }
}

/// An archive and its decoded bytes.
pub struct Shape {
    pub name: &'static str,
    pub archive: Vec<u8>,
    pub raw: Vec<u8>,
}

/// Returns `len` bytes like those of account files.
pub fn content(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill_segment(Content::Huffman, 7, 0, 0, &mut bytes);
    bytes
}

/// Returns a tar archive of 2 KB.
pub fn small_tar() -> Vec<u8> {
    TarBuilder::new().account("accounts/1.2", &content(400)).finish()
}

/// Returns a small snapshot of about `bytes` bytes.
pub fn snapshot(bytes: usize) -> Vec<u8> {
    let storages = [(90, 1, 0.5), (95, 2, 0.1), (100, 3, 0.4)].map(|(slot, id, share)| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        #[allow(clippy::cast_precision_loss)]
        let len = (bytes as f64 * share) as usize;
        (slot, id, content(len.max(136)))
    });
    snapshot_tar(100, &storages)
}

/// Returns archives of every shape, of a snapshot of about `bytes` bytes.
pub fn shapes(bytes: usize) -> Vec<Shape> {
    shapes_of(&snapshot(bytes))
}

/// Returns archives of every shape, of this tar archive.
pub fn shapes_of(raw: &[u8]) -> Vec<Shape> {
    let (half, rest) = raw.split_at(raw.len() / 2);
    let empty = || [zstd_one_frame(&[], 1, None, true, true), zstd_raw_blocks(&[], 9)].concat();
    let sized = |raw: &[u8], checksum| zstd_one_frame(raw, 1, None, checksum, true);
    let streamed = |raw: &[u8], checksum| zstd_one_frame(raw, 1, None, checksum, false);
    let note = || skippable_frame(&[9; 300]);
    let zeros = vec![7; raw.len()];
    let lz4_notes = [lz4_frame(half), note(), lz4_frame(&[]), lz4_frame(rest), note()];
    let shape = |name, archive: Vec<u8>| Shape { name, archive, raw: raw.to_vec() };
    vec![
        shape("one frame", streamed(raw, false)),
        shape("one frame, checksum", streamed(raw, true)),
        shape("one sized frame", sized(raw, false)),
        shape("one sized frame, checksum", sized(raw, true)),
        shape("sized frames of 1 KiB", zstd_frames(raw, 1 << 10, 1)),
        shape("sized frames of 5000", zstd_frames(raw, 5000, 1)),
        shape("sized frames of 64 KiB", zstd_frames(raw, 64 << 10, 1)),
        shape("sized frames of 300 KiB", zstd_frames(raw, 300 << 10, 1)),
        shape("unsized frames", zstd_frames_unsized(raw, 100_000, 1)),
        shape("raw blocks", zstd_raw_blocks(raw, 777)),
        shape("largest raw blocks", zstd_raw_blocks(raw, 128 << 10)),
        Shape {
            name: "runs",
            archive: zstd_rle_blocks(7, raw.len(), 128 << 10),
            raw: zeros.clone(),
        },
        Shape { name: "sized runs", archive: zstd_frames(&zeros, 10_000, 1), raw: zeros },
        shape("firedancer", zstd_firedancer(raw, 1)),
        shape(
            "empty frames",
            [empty(), sized(half, false), empty(), streamed(rest, true), empty()].concat(),
        ),
        shape("skippable first", [skippable_frame(b""), streamed(raw, false)].concat()),
        shape(
            "skippable everywhere",
            [note(), sized(half, true), note(), note(), sized(rest, true), note()].concat(),
        ),
        shape(
            "skippable last",
            [streamed(raw, true), skippable_frame_numbered(15, b"the end")].concat(),
        ),
        shape("sized, unsized, sized", {
            let (first, second) = half.split_at(half.len() / 3);
            [sized(first, false), streamed(second, false), sized(rest, true)].concat()
        }),
        shape("lz4", lz4_frame(raw)),
        shape("lz4 frames", lz4_frames(raw, 20_000)),
        shape("lz4, independent blocks", lz4_frame_independent(raw, raw.len())),
        shape("lz4, independent short blocks", lz4_frame_independent(raw, 5001)),
        shape("lz4, large linked blocks", lz4_frame_large_blocks(raw, true)),
        shape("lz4, large independent blocks", lz4_frame_large_blocks(raw, false)),
        shape("lz4 with skippable", lz4_notes.concat()),
        shape("tar", raw.to_vec()),
    ]
}
