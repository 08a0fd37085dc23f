//! What `repack` is measured against: the frames of an archive, compressed from memory by as many
//! threads and at the same level, and nothing else: no reading, decoding, proving or writing.
//!
//! ```sh
//! cargo run --release -p unsnap-pack --example compress_only -- <REPACKED ARCHIVE> <LEVEL> <THREADS> <ROUNDS>
//! ```

use std::{
    env, fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use zstd_safe::{CCtx, CParameter, DCtx};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [archive, level, threads, rounds] = arguments.as_slice() else {
        panic!("archive, level, threads and rounds are wanted");
    };
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let (level, threads, rounds) = (number(level), number(threads), number(rounds));
    let frames = frames(&fs::read(archive).expect("the archive can be read"));
    let bytes: usize = frames.iter().map(Vec::len).sum();
    for _ in 0..rounds {
        let begun = Instant::now();
        let compressed = compress(&frames, i32::try_from(level).expect("a level"), threads);
        let seconds = begun.elapsed().as_secs_f64();
        #[allow(clippy::cast_precision_loss)] // for people
        let rate = bytes as f64 / seconds / 1e6;
        #[allow(clippy::print_stdout)] // this is a program
        {
            println!(
                "{} frames, {bytes} bytes, {compressed} compressed, {seconds:.3} s, {rate:.0} MB/s",
                frames.len()
            );
        }
    }
}

/// What each frame holds.
fn frames(mut archive: &[u8]) -> Vec<Vec<u8>> {
    let mut context = DCtx::create();
    let mut frames = Vec::new();
    while !archive.is_empty() {
        let length = zstd_safe::find_frame_compressed_size(archive).expect("a frame");
        let (frame, rest) = archive.split_at(length);
        archive = rest;
        let size = zstd_safe::get_frame_content_size(frame).expect("a frame of data");
        let Some(size) = size.filter(|size| *size > 0) else { continue };
        let mut raw = Vec::with_capacity(usize::try_from(size).expect("a frame fits into memory"));
        context.decompress(&mut raw, frame).expect("a good frame");
        frames.push(raw);
    }
    frames
}

/// Compresses all frames; says how many bytes that gave.
fn compress(frames: &[Vec<u8>], level: i32, threads: usize) -> usize {
    let (next, compressed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut context = CCtx::create();
                let level = CParameter::CompressionLevel(level);
                context.set_parameter(level).expect("a level of zstd");
                let mut buffer = Vec::new();
                while let Some(frame) = frames.get(next.fetch_add(1, Ordering::Relaxed)) {
                    buffer.clear();
                    buffer.reserve(zstd_safe::compress_bound(frame.len()));
                    let bytes = context.compress2(&mut buffer, frame).expect("room for all");
                    compressed.fetch_add(bytes, Ordering::Relaxed);
                }
            });
        }
    });
    compressed.into_inner()
}
