//! Benchmark of the structure scan, against one that reads byte by byte.
#![allow(missing_docs, clippy::unwrap_used)] // criterion's macros
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{fs, hint::black_box, io::BufRead, time::Duration};

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

/// Does the same checks with each number assembled from single bytes of a stream.
fn scan_by_bytes(stream: &mut dyn BufRead) -> u64 {
    fn byte(stream: &mut dyn BufRead) -> u8 {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        byte[0]
    }
    fn number(stream: &mut dyn BufRead) -> u64 {
        (0..8).fold(0, |number, at| number | u64::from(byte(stream)) << (8 * at))
    }
    fn skip(stream: &mut dyn BufRead, mut bytes: usize) {
        while bytes > 0 {
            let now = stream.fill_buf().unwrap().len().min(bytes);
            stream.consume(now);
            bytes -= now;
        }
    }
    let mut records = 0;
    while !stream.fill_buf().unwrap().is_empty() {
        skip(stream, 8);
        let data_len = number(stream);
        let key = (0..32).fold(0, |any, _| any | byte(stream));
        let lamports = number(stream);
        skip(stream, 40);
        let executable = byte(stream);
        assert!(executable <= 1 && data_len <= 10 << 20 && (lamports > 0 || key > 0));
        skip(stream, 39 + usize::try_from(data_len.next_multiple_of(8)).unwrap());
        records += 1;
    }
    records
}

/// Returns the CPU time of this thread.
fn on_core() -> Duration {
    let statistics = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(statistics.split(' ').next().unwrap().parse().unwrap())
}

fn timed<T>(rounds: u64, mut work: impl FnMut() -> T) -> Duration {
    let before = on_core();
    for _ in 0..rounds {
        black_box(work());
    }
    on_core().checked_sub(before).unwrap()
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("structure");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    let storage = storage(64 << 20);
    let records = scan(&storage, storage.len());
    assert_eq!(records, scan_by_bytes(&mut &storage[..]));
    group.sample_size(20).throughput(Throughput::Bytes(storage.len() as u64));
    for piece_bytes in [64 << 10, 4 << 20, 64 << 20] {
        group.bench_function(format!("pieces of {} KiB", piece_bytes >> 10), |run| {
            run.iter_custom(|rounds| timed(rounds, || scan(&storage, piece_bytes)));
        });
    }
    group.bench_function("byte by byte", |run| {
        run.iter_custom(|rounds| timed(rounds, || scan_by_bytes(&mut &storage[..])));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
