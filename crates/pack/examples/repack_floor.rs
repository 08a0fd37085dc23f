//! Speed of `repack`, of its compressor alone, and of the least work that repacking needs: all from
//! memory, with the same number of threads, in interleaved rounds.
//!
//! ```sh
//! cargo run --release -p unsnap-pack --example repack_floor -- <ARCHIVE> <DIRECTORY> [ROUNDS] [LEVEL]...
//! ```
//!
//! "compressor" only compresses the frames of `repack`, without reading, decoding, proving, writing
//! or syncing. "floor" decodes each frame, compresses it, decodes it again and compares. `repack`
//! reads the archive and publishes its result in `DIRECTORY`, durably; the result is removed again.
//! The whole tar stream is held in memory. The table is in Markdown: medians of the rounds, and
//! their ranges.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![allow(clippy::cast_precision_loss)] // for people
#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use unsnap_pack::{PackOptions, repack};
use unsnap_pass::{Archive, Handles};
use unsnap_ring::Syscalls;
use unsnap_unpack::{CheckOutputs, Options, Single};
use zstd_safe::{CCtx, CParameter, DCtx};

const TITLE: &str = "\
| level | compressed to | repack MB/s | compressor | floor | repack / compressor | repack / floor |
|---|---|---|---|---|---|---|";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [archive, directory, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: repack_floor <ARCHIVE> <DIRECTORY> [ROUNDS] [LEVEL]...");
        std::process::exit(2);
    };
    let numbers: Vec<i32> = rest.iter().map(|word| word.parse().unwrap()).collect();
    let (rounds, levels) =
        numbers.split_first().map_or((5, &[][..]), |(rounds, levels)| (*rounds, levels));
    println!("{TITLE}");
    for level in if levels.is_empty() { &[1] } else { levels } {
        let options = PackOptions { level: *level, ..PackOptions::default() };
        let case = Case { archive: archive.into(), directory: directory.into(), options };
        println!("{}", case.row(rounds.unsigned_abs()));
    }
}

/// A measurement.
struct Case {
    archive: PathBuf,
    directory: PathBuf,
    options: PackOptions,
}

impl Case {
    /// Measures, and returns a row of the table.
    fn row(&self, rounds: u32) -> String {
        // Not counted: this run produces the frames and fills the page cache.
        let (result, _) = self.repack();
        let frames = frames(&fs::read(&result).unwrap());
        let compressed = fs::metadata(&result).unwrap().len();
        fs::remove_file(&result).unwrap();
        let bytes: usize = frames.iter().map(|frame| frame.raw.len()).sum();
        let mut rates = [const { Vec::new() }; 3];
        for round in 0..rounds as usize {
            // The first of the three alternates.
            for which in (0..3).map(|index| (round + index) % 3) {
                let seconds = match which {
                    0 => {
                        let (result, seconds) = self.repack();
                        fs::remove_file(result).unwrap();
                        seconds
                    }
                    1 => self.alone(&frames, Contexts::compress),
                    _ => self.alone(&frames, |contexts, frame| {
                        contexts.decode(&frame.compressed);
                        contexts.compress(frame);
                        contexts.prove(frame);
                    }),
                };
                rates[which].push(bytes as f64 / seconds / 1e6);
            }
        }
        let [repack, compressor, floor] = &rates;
        let ratio = |to: &[f64]| -> Vec<f64> {
            repack.iter().zip(to).map(|(ours, to)| ours / to).collect()
        };
        format!(
            "| {} | {:.4} | {} | {} | {} | {} | {} |",
            self.options.level,
            compressed as f64 / bytes as f64,
            spread(repack, 0),
            spread(compressor, 0),
            spread(floor, 0),
            spread(&ratio(compressor), 2),
            spread(&ratio(floor), 2),
        )
    }

    /// Repacks the archive. Returns the path of the result and the seconds until it was published.
    fn repack(&self) -> (PathBuf, f64) {
        let output: &Path = &self.directory;
        let read = Options::check(
            Single::snapshot(Archive::File(self.archive.clone())),
            CheckOutputs::default(),
        );
        let begun = Instant::now();
        let (calls, handles) = (Syscalls::default(), Handles::default());
        let report = repack(&read, output, &self.options, &calls, &handles).unwrap();
        (report.pack.output.into(), begun.elapsed().as_secs_f64())
    }

    /// Calls `work` with all frames. Returns the seconds that this took.
    fn alone(&self, frames: &[Frame], work: impl Fn(&mut Contexts, &Frame) + Sync) -> f64 {
        let next = AtomicUsize::new(0);
        let begun = Instant::now();
        thread::scope(|scope| {
            for _ in 0..self.options.threads.get() {
                scope.spawn(|| {
                    let mut contexts = Contexts::new(self.options.level);
                    while let Some(frame) = frames.get(next.fetch_add(1, Ordering::Relaxed)) {
                        work(&mut contexts, frame);
                    }
                });
            }
        });
        begun.elapsed().as_secs_f64()
    }
}

/// A data frame and its content.
struct Frame {
    compressed: Vec<u8>,
    raw: Vec<u8>,
}

fn frames(mut archive: &[u8]) -> Vec<Frame> {
    let mut contexts = Contexts::new(1);
    let mut frames = Vec::new();
    while !archive.is_empty() {
        let length = zstd_safe::find_frame_compressed_size(archive).unwrap();
        let (frame, rest) = archive.split_at(length);
        archive = rest;
        contexts.decode(frame);
        frames.push(Frame { compressed: frame.to_vec(), raw: contexts.decoded.clone() });
    }
    frames
}

/// Contexts and buffers of a thread, reused for all frames.
struct Contexts {
    compressor: CCtx<'static>,
    decoder: DCtx<'static>,
    compressed: Vec<u8>,
    decoded: Vec<u8>,
}

impl Contexts {
    fn new(level: i32) -> Self {
        let mut compressor = CCtx::create();
        compressor.set_parameter(CParameter::CompressionLevel(level)).unwrap();
        let (compressed, decoded) = (Vec::new(), Vec::new());
        Self { compressor, decoder: DCtx::create(), compressed, decoded }
    }

    fn compress(&mut self, frame: &Frame) {
        self.compressed.clear();
        self.compressed.reserve(zstd_safe::compress_bound(frame.raw.len()));
        self.compressor.compress2(&mut self.compressed, &frame.raw).unwrap();
    }

    fn decode(&mut self, compressed: &[u8]) {
        let size = zstd_safe::get_frame_content_size(compressed).unwrap().unwrap();
        self.decoded.clear();
        self.decoded.reserve(usize::try_from(size).unwrap());
        self.decoder.decompress(&mut self.decoded, compressed).unwrap();
    }

    /// Decodes the compressed frame again and compares it with the input.
    fn prove(&mut self, frame: &Frame) {
        let compressed = std::mem::take(&mut self.compressed);
        self.decode(&compressed);
        assert!(self.decoded == frame.raw);
        self.compressed = compressed;
    }
}

/// Formats the median and the range.
fn spread(values: &[f64], digits: usize) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [first, .., last] = sorted.as_slice() else { return String::from("–") };
    let median = sorted[sorted.len() / 2];
    format!("{median:.digits$} [{first:.digits$}–{last:.digits$}]")
}
