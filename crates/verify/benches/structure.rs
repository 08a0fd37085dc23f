//! The scan of a storage's structure, against one that reads byte by byte.
#![allow(missing_docs, clippy::unwrap_used)] // criterion's macros

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use unsnap_layout::append_vec::RecordHeader;
use unsnap_verify::StorageScanner;

/// Half token accounts, the rest of 0 to 679 bytes: 230 bytes of data on average.
fn storage(bytes: usize) -> Vec<u8> {
    let mut random = blake3::Hasher::new().finalize_xof();
    let mut storage = Vec::with_capacity(bytes);
    while storage.len() + 1024 < bytes {
        let mut draw = [0; 64];
        random.fill(&mut draw);
        let choice = usize::from(draw[0]) * 256 + usize::from(draw[1]);
        let data_len = if choice % 2 == 0 { 165 } else { choice / 2 % 680 };
        let header = RecordHeader {
            data_len: data_len as u64,
            pubkey: *draw.first_chunk().unwrap(),
            lamports: 1,
            rent_epoch: u64::MAX,
            owner: *draw.last_chunk().unwrap(),
            executable: 0,
        };
        storage.extend(header.to_bytes());
        let end = storage.len() + data_len;
        storage.resize(end, 0x5a);
        storage.resize(end.next_multiple_of(8), 0);
    }
    storage
}

fn scan(storage: &[u8], piece_bytes: usize) -> u64 {
    let mut scanner = StorageScanner::new(1, 2, storage.len() as u64).unwrap();
    for piece in storage.chunks(piece_bytes) {
        scanner.feed(piece, &mut ()).unwrap();
    }
    scanner.finish().unwrap().records
}

/// The same checks, with each number put together from single bytes of a stream.
fn scan_by_bytes(storage: &[u8]) -> u64 {
    fn number(stream: &mut impl Iterator<Item = std::io::Result<u8>>) -> u64 {
        (0..8).fold(0, |sum, at| sum | u64::from(stream.next().unwrap().unwrap()) << (8 * at))
    }
    let (mut stream, mut records) = (storage.iter().map(|byte| Ok::<u8, std::io::Error>(*byte)), 0);
    while stream.len() >= 136 {
        let stream = &mut stream;
        number(stream);
        let data_len = number(stream);
        let key = (0..32).fold(0, |any, _| any | stream.next().unwrap().unwrap());
        let lamports = number(stream);
        number(stream);
        (0..32).for_each(|_| {
            black_box(stream.next().unwrap().unwrap());
        });
        let executable = stream.next().unwrap().unwrap();
        (0..39).for_each(|_| {
            black_box(stream.next().unwrap().unwrap());
        });
        assert!(executable <= 1 && data_len <= 10 << 20 && (lamports > 0 || key > 0));
        let data = usize::try_from(data_len.next_multiple_of(8)).unwrap();
        stream.nth(data - 1).unwrap().unwrap();
        records += 1;
    }
    records
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("structure");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    let storage = storage(64 << 20);
    let records = scan(&storage, storage.len());
    assert_eq!(records, scan_by_bytes(&storage));
    group.sample_size(20).throughput(Throughput::Bytes(storage.len() as u64));
    for piece_bytes in [64 << 10, 4 << 20, 64 << 20] {
        group.bench_function(format!("pieces of {} KiB", piece_bytes >> 10), |run| {
            run.iter(|| black_box(scan(&storage, piece_bytes)));
        });
    }
    group.bench_function("byte by byte", |run| run.iter(|| black_box(scan_by_bytes(&storage))));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
