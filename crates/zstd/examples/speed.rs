//! Measures this decoder against libzstd, on a file that is one frame: whole, with one and two
//! threads, and its two stages alone. Rounds are interleaved; the best of each counts.
//!
//! ```sh
//! cargo run --release -p unsnap-testkit --bin make-archive -- --help
//! cargo run --release -p unsnap-zstd --example speed -- ARCHIVE [ROUNDS]
//! ```

#![allow(
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used
)]

use std::{
    env, fs,
    hint::black_box,
    time::{Duration, Instant},
};

use rustix::time::ClockId;
use unsnap_zstd::{
    BLOCK_HEADER_BYTES, BlockHeader, Decoder, FrameHeader, FrameStart, FrameState, Parser, Repeats,
    Slot, Window, frame_start,
};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Decoded bytes after which memory is used again, as in unsnap.
const FILL_BYTES: usize = 4 << 20;

fn main() {
    let path = env::args_os().nth(1).expect("an archive");
    let rounds = env::args().nth(2).map_or(5, |count| count.parse().unwrap());
    let compressed = fs::read(path).unwrap();
    let Ok(FrameStart::Frame(header)) = frame_start(&compressed) else { panic!("no frame") };
    let raw_bytes = libzstd(&compressed);
    let mut best = [const { (Duration::MAX, Duration::MAX) }; 5];
    for _ in 0..rounds {
        keep_best(&mut best[0], || assert_eq!(libzstd(&compressed), raw_bytes));
        keep_best(&mut best[1], || whole(&compressed, 1));
        keep_best(&mut best[2], || whole(&compressed, 2));
        let (first, second) = stages(&compressed, &header);
        best[3] = (best[3].0.min(first), best[3].1.min(first));
        best[4] = (best[4].0.min(second), best[4].1.min(second));
    }
    println!("{raw_bytes} bytes from {}, best of {rounds} rounds", compressed.len());
    let names = ["libzstd", "1 thread", "2 threads", "stage 1 alone", "stage 2 alone"];
    for (name, (wall, busy)) in names.into_iter().zip(best) {
        let speed = |time: Duration| raw_bytes as f64 / time.as_secs_f64() / 1e9;
        println!(
            "{name:14} {:.2} GB/s by the clock, {:.2} by this thread's CPU time, {:.3} ns a byte",
            speed(wall),
            speed(busy),
            1.0 / speed(busy),
        );
    }
}

fn keep_best(best: &mut (Duration, Duration), run: impl FnOnce()) {
    let (since, busy) = (Instant::now(), cpu_time());
    run();
    *best = (best.0.min(since.elapsed()), best.1.min(cpu_time().saturating_sub(busy)));
}

/// Returns the CPU time of this thread: the machine may be shared.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn libzstd(compressed: &[u8]) -> usize {
    let mut context = DCtx::create();
    let mut memory = vec![0; FILL_BYTES];
    let mut input = InBuffer::around(compressed);
    let mut raw_bytes = 0;
    loop {
        let mut output = OutBuffer::around(&mut memory[..]);
        let more = context.decompress_stream(&mut output, &mut input).unwrap();
        raw_bytes += output.pos();
        black_box(output.as_slice());
        if more == 0 {
            return raw_bytes;
        }
    }
}

fn whole(compressed: &[u8], threads: usize) {
    Decoder::new(threads).decode(compressed, std::io::sink()).unwrap();
}

/// Decodes chunk by chunk on this thread. Returns the time of the two stages.
fn stages(compressed: &[u8], header: &FrameHeader) -> (Duration, Duration) {
    let (mut first, mut second) = (Duration::ZERO, Duration::ZERO);
    let (mut slot, mut parser, mut state) = (Slot::new(), Parser::new(), FrameState::new());
    let (mut previous, mut current) = (vec![0; FILL_BYTES], vec![0; FILL_BYTES]);
    let (mut previous_filled, mut filled, mut decoded) = (0, 0, 0);
    let mut repeats = Repeats::new();
    let mut rest = &compressed[header.header_bytes..];
    loop {
        let mut last = false;
        slot.begin(header, &state);
        while !last {
            let bytes = *rest.first_chunk::<BLOCK_HEADER_BYTES>().unwrap();
            let block = BlockHeader::parse(bytes, header.block_bytes_max()).unwrap();
            if !slot.fits(&block) {
                break;
            }
            let (stored, after) = rest[BLOCK_HEADER_BYTES..].split_at(block.stored_bytes());
            slot.append(block, &mut state, |target| {
                target.copy_from_slice(stored);
                Ok::<_, ()>(())
            })
            .unwrap();
            rest = after;
            last = block.last;
        }
        let busy = cpu_time();
        parser.parse(&mut slot).unwrap();
        first += cpu_time().saturating_sub(busy);
        if current.len() - filled < slot.raw_bytes(slot.blocks()) {
            std::mem::swap(&mut previous, &mut current);
            (previous_filled, filled) = (filled, 0);
        }
        let busy = cpu_time();
        let window = Window {
            previous: &previous[..previous_filled],
            current: &mut current,
            filled,
            history: decoded.min(previous_filled + filled),
        };
        let count = slot.execute(&mut repeats, window).unwrap();
        second += cpu_time().saturating_sub(busy);
        filled += count;
        decoded += count;
        if last {
            return (first, second);
        }
    }
}
