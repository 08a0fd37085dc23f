//! Benchmark of lattice hashes, against the crate that a validator uses. It measures the thread's
//! CPU time, so that other work on the machine disturbs it as little as possible.
#![allow(missing_docs, clippy::unwrap_used)] // criterion's macros
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{fs, hint::black_box, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use solana_lattice_hash::lt_hash::LtHash;
use unsnap_layout::append_vec::RecordHeader;
use unsnap_verify::lattice::{LatticeHasher, Vectors};

const ACCOUNTS: usize = 1024;

fn accounts(data_len: usize) -> Vec<(RecordHeader, Vec<u8>)> {
    let mut bytes = blake3::Hasher::new().finalize_xof();
    let mut draw = |len| {
        let mut drawn = vec![0; len];
        bytes.fill(&mut drawn);
        drawn
    };
    (0..ACCOUNTS)
        .map(|_| {
            let header = RecordHeader {
                data_len: data_len as u64,
                pubkey: draw(32).try_into().unwrap(),
                lamports: 1,
                rent_epoch: 0,
                owner: draw(32).try_into().unwrap(),
                executable: 0,
            };
            (header, draw(data_len))
        })
        .collect()
}

/// Computes the hash as `lt_hash_account` of `solana-accounts-db` does.
fn one_by_one(accounts: &[(RecordHeader, Vec<u8>)]) -> LtHash {
    let mut sum = LtHash::identity();
    for (header, data) in accounts {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&header.lamports.to_le_bytes());
        hasher.update(data);
        hasher.update(&[header.executable]);
        hasher.update(&header.owner);
        hasher.update(&header.pubkey);
        sum.mix_in(&LtHash::with(&hasher));
    }
    sum
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
    let mut group = criterion.benchmark_group("lattice");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.sample_size(20).throughput(Throughput::Elements(ACCOUNTS as u64));
    for data_len in [0, 82, 165, 200, 679, 951, 952, 1000, 1500, 10_000] {
        let accounts = accounts(data_len);
        let expected = one_by_one(&accounts);
        group.bench_function(format!("{data_len} bytes, solana-lattice-hash"), |run| {
            run.iter_custom(|rounds| timed(rounds, || one_by_one(&accounts)));
        });
        for vectors in Vectors::available() {
            let mut hasher = LatticeHasher::with(vectors);
            let mut hash = || {
                for (header, data) in &accounts {
                    hasher.add(header, data);
                }
                hasher.take()
            };
            assert_eq!(hash().0, expected.0);
            group.bench_function(format!("{data_len} bytes, {vectors:?}"), |run| {
                run.iter_custom(|rounds| timed(rounds, &mut hash));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
