//! Benchmark of the whole check over synthetic accounts: time per account, and cost of the final
//! sort. Not a criterion benchmark, because it times the parts of a single run.
//!
//! `cargo bench -p unsnap-verify --bench accounts -- [MILLIONS [MEMORY_MIB]]`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{
    env,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use unsnap_layout::append_vec::RecordHeader;
use unsnap_verify::accounts::{AccountsCheck, AccountsConfig, LookError, SecondLook, Take, Wanted};

/// Data of 165 bytes, as in a token account, in storages of 4000 accounts: 1.2 MB, as on mainnet.
const DATA_BYTES: usize = 165;
const ACCOUNTS: usize = 4000;

fn storage(number: u64) -> Vec<u8> {
    let mut random = blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof();
    let mut storage = Vec::new();
    for _ in 0..ACCOUNTS {
        let mut draw = [0; 64 + DATA_BYTES];
        random.fill(&mut draw);
        let header = RecordHeader {
            data_len: DATA_BYTES as u64,
            pubkey: *draw.first_chunk().unwrap(),
            lamports: 1,
            rent_epoch: u64::MAX,
            owner: *draw[32..].first_chunk().unwrap(),
            executable: 0,
        };
        storage.extend(header.to_bytes());
        storage.extend(&draw[64..]);
        storage.resize(storage.len().next_multiple_of(8), 0);
    }
    storage
}

/// Returns the CPU time of this process, in ticks of 10 ms.
fn on_cores() -> Duration {
    let statistics = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = statistics.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Second look over repeated storages: every account is read again. Records when that began.
struct Repeated(Arc<Vec<Vec<u8>>>, Option<(Instant, Duration, u64)>);

impl SecondLook for Repeated {
    fn look(&mut self, wanted: &[Wanted], take: &mut Take<'_>) -> Result<(), LookError> {
        let looked = &mut self.1.get_or_insert((Instant::now(), on_cores(), 0)).2;
        *looked += wanted.len() as u64;
        for (index, record) in wanted.iter().enumerate() {
            let storage = &self.0[usize::try_from(record.storage.id).unwrap()];
            let at = usize::try_from(record.offset).unwrap();
            let header = RecordHeader::parse_at(storage, at).unwrap();
            take(index, &header, &storage[at + 136..at + 136 + DATA_BYTES]);
        }
        Ok(())
    }
}

fn main() {
    let numbers: Vec<usize> = env::args().filter_map(|word| word.parse().ok()).collect();
    let millions = numbers.first().copied().unwrap_or(2);
    let memory_mib = numbers.get(1).copied().unwrap_or(1024);
    // The storages are shown again and again, each time with another public key for every account.
    let storages: Arc<Vec<_>> = Arc::new((0..50).map(storage).collect());
    let count = millions * 1_000_000 / ACCOUNTS;
    for duplicates in [false, true] {
        let config = AccountsConfig {
            workers: NonZeroUsize::new(1).unwrap(),
            memory_bytes_max: memory_mib << 20,
            spill: Some(tempfile::tempfile().unwrap()),
            ..AccountsConfig::default()
        };
        let check = AccountsCheck::new(config).unwrap();
        let mut stream = check.stream();
        let (begun, cpu_begun) = (Instant::now(), on_cores());
        let mut shown = Duration::ZERO;
        for number in 0..count {
            let id = number % storages.len();
            let before = Instant::now();
            let mut bytes = storages[id].clone();
            if !duplicates {
                let record_bytes = bytes.len() / ACCOUNTS;
                for record in bytes.chunks_mut(record_bytes) {
                    record[16..24].copy_from_slice(&(number as u64).to_le_bytes());
                }
            }
            shown += before.elapsed();
            stream.begin(number as u64, id as u64, bytes.len() as u64).unwrap();
            stream.piece(bytes).unwrap();
            stream.end().unwrap();
        }
        let mut look = Repeated(Arc::clone(&storages), None);
        let summary = check.finish(&mut look).unwrap();
        let (took, cpu) = (begun.elapsed(), on_cores().checked_sub(cpu_begun).unwrap());
        let each = |time: Duration| time.as_nanos() / u128::from(summary.records);
        println!(
            "{} records, {} older: {took:.2?}, on cores {cpu:.2?} or {} ns each, of which {} ns \
             made the input; spilt {} bytes; read again {}; resolving {:.2?}",
            summary.records,
            summary.older_versions,
            each(cpu),
            each(shown),
            summary.spilt_bytes,
            summary.looked_at,
            summary.resolving
        );
        if let Some((since, cpu_before, looked)) = look.1 {
            let cpu = on_cores().checked_sub(cpu_before).unwrap();
            let looked = u128::from(looked.max(1));
            println!(
                "  since the first second look: {:.2?}, on cores {cpu:.2?} or {} ns for each \
                 record read again",
                since.elapsed(),
                cpu.as_nanos() / looked
            );
        }
    }
}
