//! Benchmark of sequential reads of a file that is not in the page cache.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)] // criterion's macros
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{
    fs::File,
    hint::black_box,
    io::{BufReader, Read, Write},
    path::Path,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rustix::fs::Advice;
use unsnap_arena::Arena;
use unsnap_ring::{DirectMode, EngineKind, probe_uring};
use unsnap_source::{ArchiveFile, SequentialFileReader, Source, SourceError};
use unsnap_testkit::random::Random;

const MIB: usize = 1 << 20;
const FILE_BYTES: usize = 256 * MIB;

fn write_file(path: &Path) {
    let mut file = File::create(path).unwrap();
    let mut random = Random::new(1);
    let mut chunk = vec![0; MIB];
    for _ in 0..FILE_BYTES / MIB {
        random.fill(&mut chunk);
        file.write_all(&chunk).unwrap();
    }
    file.sync_all().unwrap();
}

/// Times `read` after dropping the file's pages from the page cache. The device may have its own
/// cache.
fn cold(path: &Path, iterations: u64, mut read: impl FnMut()) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..iterations {
        rustix::fs::fadvise(File::open(path).unwrap(), 0, None, Advice::DontNeed).unwrap();
        let started = Instant::now();
        read();
        spent += started.elapsed();
    }
    spent
}

fn bench(criterion: &mut Criterion) {
    // Below the target directory rather than in /tmp, which may be a tmpfs.
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = scratch.path().join("file");
    write_file(&path);
    let mut arena = Arena::builder().bytes(16 * MIB).build().unwrap();
    let pool = arena.pool(16 * MIB).unwrap();

    let mut group = criterion.benchmark_group("sequential read");
    group.throughput(Throughput::Bytes(FILE_BYTES as u64)).sample_size(10);
    group.bench_function("std BufReader", |run| {
        run.iter_custom(|iterations| {
            cold(&path, iterations, || {
                let mut reader = BufReader::with_capacity(MIB, File::open(&path).unwrap());
                let mut buffer = vec![0; MIB];
                let mut total = 0;
                loop {
                    match reader.read(&mut buffer).unwrap() {
                        0 => break,
                        count => total += black_box(&buffer[..count]).len(),
                    }
                }
                assert_eq!(total, FILE_BYTES);
            })
        });
    });

    let mut engines = vec![EngineKind::Threads];
    match probe_uring() {
        Ok(()) => engines.push(EngineKind::Uring),
        Err(refused) => eprintln!("skipped for io_uring: {refused}"),
    }
    for engine in engines {
        for (name, direct) in [("buffered", DirectMode::Off), ("direct", DirectMode::On)] {
            let open = || {
                SequentialFileReader::builder(pool.clone())
                    .engine(engine.clone())
                    .register(arena.ranges())
                    .build(ArchiveFile::open(&engine.syscalls(), &path, direct)?)
            };
            if let Err(SourceError::DirectRefused { reason, .. }) = open() {
                eprintln!("skipped: {reason}");
                continue;
            }
            group.bench_function(format!("{}, {name}", engine.name()), |run| {
                run.iter_custom(|iterations| {
                    cold(&path, iterations, || {
                        let mut reader = open().unwrap();
                        let mut total = 0;
                        while let Some(span) = reader.next_span().unwrap() {
                            total += black_box(&span.bytes).len();
                        }
                        assert_eq!(total, FILE_BYTES);
                    })
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
