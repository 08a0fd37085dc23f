//! Runs of `unsnap-decode` over bytes in memory, in every configuration.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use unsnap_arena::{Arena, Pool, Slice};
use unsnap_decode::{
    DecodeError, DecodeSummary, Decoder, Job, Limits, MemoryPlan, Position, Tuning, start,
};
use unsnap_source::{Source, SourceError, SourceTraits, Span};

/// Memory for everything. Small, so that frames soon exceed it and go to another engine.
const BUDGET_BYTES: usize = 4 << 20;
/// Bytes per read. The source divides them into spans.
const CHUNK_BYTES: usize = 16 << 10;
/// Limit on decoded bytes, beyond which a run learns nothing new.
pub const RAW_BYTES_MAX: u64 = 2 << 20;
/// Limit on windows, above which libzstd's own memory would slow down each run.
pub const WINDOW_LOG_MAX: u32 = 23;

/// A decoder configuration.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Decoding threads. With one, everything is streamed.
    pub threads: usize,
    /// Length of the source's spans in bytes.
    pub span_bytes: usize,
    /// Length of a segment in bytes. By default that of the plan.
    pub segment_bytes: Option<usize>,
    pub decoder: Decoder,
    /// Number of chunks that the own decoder has at a time, and most blocks in a chunk.
    pub chunks: Option<usize>,
    pub chunk_blocks_max: Option<usize>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            threads: 1,
            span_bytes: 1 << 20,
            segment_bytes: None,
            decoder: Decoder::Libzstd,
            chunks: None,
            chunk_blocks_max: None,
        }
    }
}

/// The result of a run.
pub struct Outcome {
    pub bytes: Vec<u8>,
    pub result: Result<DecodeSummary, DecodeError>,
}

impl Outcome {
    /// Returns whether the input was refused only by our limits, not as invalid.
    pub fn is_limit(&self) -> bool {
        matches!(self.result, Err(DecodeError::Limit { .. } | DecodeError::WindowMemory { .. }))
    }

    /// Returns the kind of the result, and the frame that it concerns.
    pub fn verdict(&self) -> (&'static str, u64) {
        match &self.result {
            Ok(summary) => ("good", summary.frames + summary.skippable_frames),
            Err(DecodeError::Corrupt { at, .. }) => ("corrupt", at.frame),
            Err(DecodeError::Truncated { at, .. }) => ("truncated", at.frame),
            Err(DecodeError::TrailingBytes { at, .. }) => ("trailing", at.frame),
            Err(DecodeError::Limit { at, .. } | DecodeError::WindowMemory { at, .. }) => {
                ("limit", at.frame)
            }
            Err(DecodeError::Unsupported { at, .. }) => ("unsupported", at.frame),
            Err(DecodeError::UnknownFormat { .. }) => ("unknown", 0),
            Err(DecodeError::Empty) => ("empty", 0),
            Err(other) => panic!("{other}"),
        }
    }
}

impl Setup {
    /// Decodes to the end or to the refusal, and checks properties that hold for any archive.
    pub fn decode(self, archive: &[u8]) -> Outcome {
        let limits = Limits {
            raw_bytes_max: RAW_BYTES_MAX,
            window_bytes_max: 1 << WINDOW_LOG_MAX,
            ..Limits::default()
        };
        let head = &archive[..archive.len().min(512)];
        let Self { segment_bytes, decoder, chunks, chunk_blocks_max, .. } = self;
        let tuning =
            Tuning { segment_bytes, decoder, chunks, chunk_blocks_max, ..Tuning::default() };
        let plan = MemoryPlan::new(BUDGET_BYTES, self.threads, head, &limits, tuning);
        let (read, segments) = reserved(&plan);
        let progress = Arc::new(AtomicU64::new(0));
        let source = Memory {
            rest: archive.to_vec(),
            at: 0,
            chunk: None,
            span_bytes: self.span_bytes,
            pool: read.clone(),
        };
        let mut decoded = start(Job {
            source: Box::new(source),
            segments: segments.clone(),
            plan,
            limits,
            threads: self.threads,
            progress: Arc::clone(&progress),
            begin: Position::default(),
            frame_starts: Arc::default(),
        })
        .expect("there are threads and memory");

        let mut bytes = Vec::new();
        let mut before = Position::default();
        let result = loop {
            let piece = match decoded.next() {
                Ok(Some(piece)) => piece,
                Ok(None) => break Ok(decoded.summary().expect("known at the end").clone()),
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
        };
        match &result {
            Ok(summary) => {
                assert_eq!(summary.bytes_decoded, bytes.len() as u64);
                assert_eq!(summary.bytes_read, archive.len() as u64);
                assert_eq!(progress.load(Ordering::Relaxed), archive.len() as u64);
                assert!(matches!(decoded.next(), Ok(None)), "the end stays the end");
            }
            // A panic in a thread would be reported as an error of the machine.
            Err(error) => assert!(error.is_bad_archive(), "{error}"),
        }
        let _times = decoded.join();
        for pool in [&read, &segments] {
            assert!(pool.try_allocate(pool.bytes()).is_some(), "memory is still lent");
        }
        assert!(bytes.len() as u64 <= RAW_BYTES_MAX + CHUNK_BYTES as u64 * 128);
        Outcome { bytes, result }
    }
}

/// Memory reused by later runs, because reserving it costs more than decoding a little.
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
        assert!(reserved.len() < 16, "a budget has few divisions");
        let arena = Arena::builder().bytes(plan.total_bytes()).populate(false).build();
        let mut arena = arena.expect("there is memory");
        let mut pool = |bytes| arena.pool(bytes).expect("the arena is large enough");
        let pools = (pool(plan.read_bytes), pool(plan.segments_bytes));
        reserved.push(pools.clone());
        pools
    })
}

/// A source over bytes in memory: reads one chunk at a time and divides it into spans.
struct Memory {
    rest: Vec<u8>,
    at: usize,
    chunk: Option<Slice>,
    span_bytes: usize,
    pool: Pool,
}

impl Source for Memory {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        if self.at == self.rest.len() {
            return Ok(None);
        }
        let chunk = if let Some(chunk) = self.chunk.take() {
            chunk
        } else {
            let lent = self.pool.allocate(CHUNK_BYTES);
            let (mut block, _) = lent.map_err(|_| SourceError::Cancelled)?;
            let len = (self.rest.len() - self.at).min(CHUNK_BYTES);
            block[..len].copy_from_slice(&self.rest[self.at..self.at + len]);
            block.freeze().slice(..len)
        };
        let len = chunk.len().min(self.span_bytes);
        let span = Span { offset: self.at as u64, bytes: chunk.slice(..len) };
        self.at += len;
        self.chunk = Some(chunk.slice(len..)).filter(|rest| !rest.is_empty());
        Ok(Some(span))
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
