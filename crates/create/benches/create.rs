//! Benchmark of the file creators alone, on the file system of the build directory.
//!
//! Every iteration writes into a new directory, and nothing is deleted before the end: ext4
//! searches past recently deleted inodes, which would double the time of small files.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)] // criterion's macros and output
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{fs::File, path::Path, sync::Arc};

use criterion::{BatchSize, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use unsnap_arena::{Arena, OpenSegment, Pool};
use unsnap_create::{Assembler, CreateProgress, CreatorPool, Destination, NewMember, PoolConfig};
use unsnap_ring::{DirectMode, EngineKind, Pace, Syscalls, probe_uring};

const SEGMENT_BYTES: usize = 4 << 20;

/// Creates `count` files of `size` bytes, like a walk over segments that contain whole files.
fn create(
    directory: &Path,
    pool: &Pool,
    config: &PoolConfig,
    direct: DirectMode,
    count: usize,
    size: usize,
) {
    let handle = File::open(directory).unwrap().into();
    let destination =
        Destination::open(Syscalls::default(), handle, directory.to_owned(), direct).unwrap();
    let destinations = vec![destination];
    let creators =
        CreatorPool::start(&destinations, config, Arc::new(CreateProgress::default())).unwrap();
    // Direct I/O, if it is on, for files of any size, to show the crossover.
    let mut assembler = Assembler::new(destinations, &creators, Some(0));
    let stride = size.next_multiple_of(512);
    let (mut made, mut raw_offset) = (0, 0);
    while made < count {
        let files = (SEGMENT_BYTES / stride).clamp(1, count - made);
        let (mut open, _) = OpenSegment::allocate(pool, raw_offset, files * stride).unwrap();
        open.advance(files * stride);
        raw_offset += (files * stride) as u64;
        let view = open.seal().prepend(assembler.take_carry());
        for index in 0..files {
            let name = format!("{}.{}", 350_000_000 + made + index, made + index);
            let member = NewMember { destination: 0, path: &name, size: size as u64 };
            assembler.begin(member, &view).unwrap();
            assembler.payload(&view, index * stride..index * stride + size, true).unwrap();
        }
        assembler.end_segment(&view).unwrap();
        made += files;
    }
    assembler.finish().unwrap();
    creators.finish().unwrap();
}

fn bench(criterion: &mut Criterion) {
    let mut arena = Arena::builder().bytes(64 << 20).build().unwrap();
    let pool = arena.pool(64 << 20).unwrap();
    let mut engines = vec![EngineKind::Threads];
    match probe_uring() {
        Ok(()) => engines.push(EngineKind::Uring),
        Err(refused) => eprintln!("skipped for io_uring: {refused}"),
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (name, count, size) in
        [("8 KiB", 5000, 8000), ("128 KiB", 1000, 131_000), ("1 MiB", 200, 1_040_000)]
    {
        let mut group = criterion.benchmark_group(format!("create files of {name}"));
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        group.throughput(Throughput::Bytes((count * size) as u64));
        for engine in &engines {
            for direct in [DirectMode::Off, DirectMode::Auto] {
                let config = PoolConfig {
                    engine: engine.clone(),
                    cached_engine: engine.clone(),
                    streams: 1,
                    register: Some(arena.ranges()),
                    depth: None,
                    workers: None,
                    sink: None,
                    pace: Pace::new(),
                    priority: None,
                };
                group.bench_function(format!("{}, direct {direct:?}", engine.name()), |run| {
                    run.iter_batched(
                        || tempfile::tempdir_in(scratch.path()).unwrap().keep(),
                        |directory| create(&directory, &pool, &config, direct, count, size),
                        BatchSize::PerIteration,
                    );
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
