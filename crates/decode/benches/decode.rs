//! Benchmark of every decoding engine on an archive in memory, compared with libzstd's own
//! interfaces.
#![allow(missing_docs, clippy::unwrap_used)] // criterion's macros

use std::{
    collections::VecDeque,
    hint::black_box,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use unsnap_arena::{Arena, Pool, Slice};
use unsnap_decode::{Job, Limits, MemoryPlan, Position, Tuning, start};
use unsnap_source::{Source, SourceError, SourceTraits, Span};
use unsnap_testkit::{
    archive::write_archive,
    content::Content,
    spec::{ArchiveSpec, Compression, Frames},
};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

const MIB: usize = 1 << 20;
const TOTAL_BYTES: u64 = 256 << 20;

/// An archive in memory, in the spans that a file reader would return.
struct Archive {
    spans: VecDeque<Slice>,
    raw_bytes: u64,
}

impl Archive {
    fn new(content: Content, compression: Compression, frames: Frames) -> (Self, Vec<u8>) {
        let spec = ArchiveSpec {
            total_bytes: TOTAL_BYTES,
            content,
            compression,
            frames,
            ..ArchiveSpec::default()
        };
        let mut bytes = Vec::new();
        let raw_bytes = write_archive(&spec, &mut bytes).unwrap().raw_bytes;
        let pool = pool(bytes.len());
        let mut block = pool.try_allocate(bytes.len()).unwrap();
        block[..bytes.len()].copy_from_slice(&bytes);
        block.truncate(bytes.len());
        let whole = block.freeze();
        let span = |at: usize| whole.slice(at..(at + MIB).min(whole.len()));
        let spans = (0..whole.len()).step_by(MIB).map(span).collect();
        (Self { spans, raw_bytes }, bytes)
    }
}

struct Spans {
    left: VecDeque<Slice>,
    offset: u64,
}

impl Source for Spans {
    fn next_span(&mut self) -> Result<Option<Span>, SourceError> {
        let Some(bytes) = self.left.pop_front() else { return Ok(None) };
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        Ok(Some(Span { offset, bytes }))
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    fn traits(&self) -> SourceTraits {
        SourceTraits::default()
    }
}

fn pool(bytes: usize) -> Pool {
    Arena::builder().bytes(bytes).build().unwrap().pool(bytes).unwrap()
}

type Group<'a> = BenchmarkGroup<'a, criterion::measurement::WallTime>;

/// Measures the decoder of this crate, with a consumer that ignores the bytes.
fn engine(
    group: &mut Group<'_>,
    name: &str,
    archive: &Archive,
    threads: usize,
    segment_bytes: Option<usize>,
) {
    let limits = Limits::default();
    let tuning = Tuning { segment_bytes, ..Tuning::default() };
    let head = &archive.spans[0][..512];
    let budget = MemoryPlan::default_budget(threads);
    let plan = MemoryPlan::new(budget, threads, head, &limits, tuning);
    let segments = pool(plan.segments_bytes);
    group.throughput(Throughput::Bytes(archive.raw_bytes));
    group.bench_function(name, |run| {
        run.iter(|| {
            let mut decoded = start(Job {
                source: Box::new(Spans { left: archive.spans.clone(), offset: 0 }),
                segments: segments.clone(),
                plan: plan.clone(),
                limits: limits.clone(),
                threads,
                progress: Arc::new(AtomicU64::new(0)),
                begin: Position::default(),
                frame_starts: Arc::default(),
            })
            .unwrap();
            let mut total = 0;
            while let Some(piece) = decoded.next().unwrap() {
                total += black_box(piece.segment.len()) as u64;
            }
            decoded.join();
            assert_eq!(total, archive.raw_bytes);
        });
    });
}

/// Measures libzstd in one call and through its streaming interface.
fn baselines(group: &mut Group<'_>, archive: &[u8], raw_bytes: u64) {
    group.throughput(Throughput::Bytes(raw_bytes));
    let raw_bytes = usize::try_from(raw_bytes).unwrap();
    let mut context = DCtx::create();
    let mut whole = vec![1; raw_bytes];
    group.bench_function("libzstd, one call", |run| {
        run.iter(|| context.decompress(&mut whole[..], archive).unwrap());
    });
    drop(whole);
    let mut buffer = vec![1; 4 * MIB];
    group.bench_function("libzstd, streaming", |run| {
        run.iter(|| {
            let mut total = 0;
            for chunk in archive.chunks(MIB) {
                let mut source = InBuffer::around(chunk);
                loop {
                    let mut target = OutBuffer::around(&mut buffer[..]);
                    context.decompress_stream(&mut target, &mut source).unwrap();
                    total += target.pos();
                    if source.pos() == chunk.len() && target.pos() < target.capacity() {
                        break;
                    }
                }
            }
            assert_eq!(total, raw_bytes);
        });
    });
}

fn bench(criterion: &mut Criterion) {
    for (name, content) in [("tokens", Content::Tokens), ("huffman", Content::Huffman)] {
        let mut group = criterion.benchmark_group(format!("decode {name}"));
        group.sample_size(10);
        let archive = |compression, frames| Archive::new(content, compression, frames);

        let (one, bytes) = archive(Compression::Zstd, Frames::One);
        baselines(&mut group, &bytes, one.raw_bytes);
        drop(bytes);
        engine(&mut group, "one frame, in place", &one, 1, None);
        // Room for the window of level 1, but for no block in addition.
        engine(&mut group, "one frame, copied", &one, 1, Some(512 << 10));

        let (agave, _) = archive(Compression::Zstd, Frames::AGAVE);
        for threads in [1, 2] {
            engine(&mut group, &format!("32 MiB frames, {threads} threads"), &agave, threads, None);
        }
        let (firedancer, _) = archive(Compression::Zstd, Frames::Firedancer);
        for threads in [1, 2] {
            let name = format!("firedancer, {threads} threads");
            engine(&mut group, &name, &firedancer, threads, None);
        }
        let (lz4, _) = archive(Compression::Lz4, Frames::One);
        engine(&mut group, "lz4", &lz4, 1, None);
        let (tar, _) = archive(Compression::None, Frames::One);
        engine(&mut group, "tar", &tar, 1, None);
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
