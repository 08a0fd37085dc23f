//! Effect of a run on a reader on the same disk: random direct reads of 4 KiB, one at a time and
//! eight at a time, alone, beside a run without limits, and beside runs with limits.
//!
//! ```sh
//! cargo run --release -p unsnap-unpack --example neighbour -- <ARCHIVE> <DIRECTORY> [ROUNDS] [SECONDS]
//! ```
//!
//! `DIRECTORY` receives the file that is read (1 GiB) and the unpacked files; both are removed
//! again. The program prints tables in Markdown: medians of the rounds, which are interleaved, and
//! their ranges.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{
    env,
    fs::{self, File},
    io::Write,
    num::NonZeroU64,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags};
use unsnap_pass::{Archive, Handles, IoPriority, Pace, Phase};
use unsnap_source::DigestKind;
use unsnap_unpack::{DigestUse, Options, Single, Tree, Unpacker};

const FILE_BYTES: u64 = 1 << 30;
const READ_BYTES: usize = 4096;
const DEPTHS: [usize; 2] = [1, 8];

/// Work beside the reader.
#[derive(Clone, Copy)]
struct Beside {
    what: &'static str,
    unpacks: bool,
    rate: u64,
    idle: bool,
}

const BESIDE: [Beside; 4] = [
    Beside { what: "nothing", unpacks: false, rate: 0, idle: false },
    Beside { what: "unpacking, no limit", unpacks: true, rate: 0, idle: false },
    Beside { what: "unpacking, 100 MB/s", unpacks: true, rate: 100_000_000, idle: false },
    Beside {
        what: "unpacking, 100 MB/s, I/O class idle",
        unpacks: true,
        rate: 100_000_000,
        idle: true,
    },
];

/// Results of one round.
struct Round {
    /// Latencies in microseconds, ascending.
    latencies: Vec<f64>,
    seconds: f64,
    /// Bytes per second that the run wrote in the meantime.
    written: f64,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [archive, directory, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: neighbour <ARCHIVE> <DIRECTORY> [ROUNDS] [SECONDS]");
        std::process::exit(2);
    };
    let number = |at: usize, default| rest.get(at).map_or(default, |word| word.parse().unwrap());
    let (rounds, seconds) = (number(0, 5), Duration::from_secs(number(1, 6)));
    let directory = PathBuf::from(directory);
    let file = directory.join("neighbour-reads-this");
    make_file(&file);
    let mut results: Vec<Vec<Round>> = Vec::new();
    results.resize_with(DEPTHS.len() * BESIDE.len(), Vec::new);
    for round in 0..rounds {
        for (case, results) in results.iter_mut().enumerate() {
            let (depth, beside) = (DEPTHS[case / BESIDE.len()], BESIDE[case % BESIDE.len()]);
            eprintln!("round {round}: {} reads at a time beside {}", depth, beside.what);
            results.push(measure(&file, Path::new(archive), &directory, depth, beside, seconds));
        }
    }
    fs::remove_file(&file).unwrap();
    println!("| reads at a time | beside | p50 µs | p99 µs | p99.9 µs | reads/s | unpacked MB/s |");
    println!("|---|---|---|---|---|---|---|");
    for (case, rounds) in results.iter().enumerate() {
        let (depth, beside) = (DEPTHS[case / BESIDE.len()], BESIDE[case % BESIDE.len()]);
        let column = |of: &dyn Fn(&Round) -> f64| median_and_range(rounds.iter().map(of).collect());
        let quantile = |part: f64| {
            column(&move |round: &Round| {
                round.latencies[((round.latencies.len() - 1) as f64 * part) as usize]
            })
        };
        println!(
            "| {depth} | {} | {} | {} | {} | {} | {} |",
            beside.what,
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            column(&|round: &Round| round.latencies.len() as f64 / round.seconds),
            if beside.unpacks { column(&|round| round.written / 1e6) } else { "–".to_owned() },
        );
    }
}

fn median_and_range(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("{:.0} ({least:.0}–{most:.0})", values[values.len() / 2])
}

/// Makes a file whose blocks are all on the disk.
fn make_file(path: &Path) {
    let mut file = File::create(path).unwrap();
    let block: Vec<u8> =
        (0..1 << 20).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for _ in 0..FILE_BYTES >> 20 {
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
}

fn measure(
    file: &Path,
    archive: &Path,
    directory: &Path,
    depth: usize,
    beside: Beside,
    time: Duration,
) -> Round {
    let output = directory.join("neighbour-unpacks-here");
    let source = Single::snapshot(Archive::File(archive.to_owned()));
    let digest = DigestUse::Report(DigestKind::Xxh3);
    let mut options = Options::for_tree(source, Tree::new(&output), digest);
    options.pass.neighbour.io_priority = beside.idle.then_some(IoPriority::IDLE);
    let pace = Pace::new();
    pace.set_rate(NonZeroU64::new(beside.rate));
    options.pass.neighbour.pace = Some(pace);
    let unpacker = Unpacker::new(options);
    let Handles { progress, cancel } = unpacker.handles();
    let unpacking = beside.unpacks.then(|| thread::spawn(move || unpacker.run()));
    while beside.unpacks && progress.snapshot().files < 20 {
        thread::sleep(Duration::from_millis(1));
    }
    let (before, since) = (progress.snapshot().bytes_written, Instant::now());
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..depth as u64)
        .map(|seed| {
            let (file, over) = (open_direct(file), Arc::clone(&over));
            thread::spawn(move || read(&file, seed + 1, &over))
        })
        .collect();
    // Measures only while the run is unpacking.
    let goes_on = || !beside.unpacks || progress.snapshot().phase == Phase::Unpacking;
    while since.elapsed() < time && goes_on() {
        thread::sleep(Duration::from_millis(5));
    }
    let written = progress.snapshot().bytes_written - before;
    let seconds = since.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    let latencies = readers.into_iter().flat_map(|reader| reader.join().unwrap());
    let mut latencies: Vec<f64> = latencies.collect();
    latencies.sort_by(f64::total_cmp);
    cancel.cancel();
    if let Some(unpacking) = unpacking {
        let _ = unpacking.join().unwrap();
    }
    let _ = fs::remove_dir_all(&output);
    // Remaining write-back must not affect the next round.
    rustix::fs::sync();
    Round { latencies, seconds, written: written as f64 / seconds }
}

fn open_direct(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).unwrap()
}

/// Reads random blocks, one after the other. Returns the latency of each in microseconds.
fn read(file: &OwnedFd, seed: u64, over: &AtomicBool) -> Vec<f64> {
    let mut memory = vec![0_u8; 2 * READ_BYTES];
    let start = memory.as_ptr().addr().wrapping_neg() % READ_BYTES;
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut latencies = Vec::with_capacity(1 << 18);
    while !over.load(Ordering::Relaxed) {
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let offset = random % (FILE_BYTES / READ_BYTES as u64) * READ_BYTES as u64;
        let since = Instant::now();
        let buffer = &mut memory[start..start + READ_BYTES];
        assert_eq!(rustix::io::pread(file, buffer, offset).unwrap(), READ_BYTES);
        latencies.push(since.elapsed().as_secs_f64() * 1e6);
    }
    latencies
}
