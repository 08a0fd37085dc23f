//! Benchmark of the tar walk alone, over a decoded stream in memory.
#![allow(missing_docs, clippy::unwrap_used)] // criterion's macros

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use unsnap_tarstream::{Event, Limits, Walker};
use unsnap_testkit::{
    archive::write_archive,
    spec::{ArchiveSpec, Compression, FileSizes},
};

fn stream(total_bytes: u64, file_sizes: FileSizes) -> Vec<u8> {
    let spec = ArchiveSpec {
        total_bytes,
        file_sizes,
        compression: Compression::None,
        ..ArchiveSpec::default()
    };
    let mut bytes = Vec::new();
    write_archive(&spec, &mut bytes).unwrap();
    bytes
}

fn walk(bytes: &[u8], segment_bytes: usize) -> u64 {
    let mut walker = Walker::new(Limits::default());
    let mut members = 0;
    for segment in bytes.chunks(segment_bytes) {
        let mut rest = segment;
        while !rest.is_empty() {
            let step = walker.step(rest).unwrap();
            members += u64::from(matches!(step.event, Event::Member(_)));
            rest = &rest[step.consumed..];
        }
    }
    walker.finish().unwrap();
    members
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tar walk");
    for (name, file_sizes) in
        [("8 KiB files", FileSizes::Fixed(8 << 10)), ("mainnet-like files", FileSizes::Mainnet)]
    {
        let bytes = stream(128 << 20, file_sizes);
        for segment_bytes in [64 << 10, 4 << 20, 32 << 20] {
            let members = walk(&bytes, segment_bytes);
            group.throughput(Throughput::Elements(members));
            group.bench_function(
                format!("{name}, segments of {} KiB", segment_bytes >> 10),
                |run| {
                    run.iter(|| black_box(walk(&bytes, segment_bytes)));
                },
            );
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
