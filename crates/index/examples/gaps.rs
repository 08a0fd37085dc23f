//! Measures the largest gap between two parts of a file for which one read across the gap is faster
//! than two reads. The default of `--coalesce-gap` comes from this.
//!
//! ```sh
//! cargo run --release --locked -p unsnap-index --example gaps -- <FILE>
//! ```
//!
//! `<FILE>` is a large file (some GB) on the disk in question, such as an archive. It is only read,
//! and parts of it are dropped from the page cache. The program reads 64 pieces of 64 KiB, once
//! each by itself and once with the gaps between them, in reads of at most 16 MiB. It prints the
//! median of 21 runs of each, every time at another place in the file. It takes a few seconds. The
//! largest gap marked "together" is the one to use.

#![allow(clippy::disallowed_methods, reason = "not the data path")]

use std::{
    error::Error,
    fs::File,
    io,
    num::NonZeroU64,
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

use rustix::fs::{Advice, fadvise};

const PIECES: u64 = 64;
const PIECE_BYTES: u64 = 64 << 10;
const READ_BYTES_MAX: u64 = 16 << 20;
const TIMES: usize = 21;
const GAPS_KIB: [u64; 9] = [4, 16, 32, 48, 64, 96, 128, 256, 512];

#[allow(clippy::print_stdout)] // its result
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: gaps <FILE>")?;
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut buffer = vec![0; usize::try_from(READ_BYTES_MAX)?];
    let span_max = PIECES * (PIECE_BYTES + (GAPS_KIB[GAPS_KIB.len() - 1] << 10));
    if size < 2 * span_max {
        return Err(format!("the file must have at least {} MiB", (2 * span_max) >> 20).into());
    }
    println!("| gap | apart | together | faster |\n|---|---|---|---|");
    let mut place = 0;
    for gap in GAPS_KIB.map(|kib| kib << 10) {
        let stride = PIECE_BYTES + gap;
        let span = PIECES * stride;
        let (mut apart, mut together) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            for (read_over, times) in [(false, &mut apart), (true, &mut together)] {
                // Another place each time: the step visits all of the file before it repeats.
                place = (place + size / 21 * 13) % (size - span) / 4096 * 4096;
                // Including the bytes that the kernel reads ahead.
                fadvise(&file, place, NonZeroU64::new(span + (4 << 20)), Advice::DontNeed)?;
                let since = Instant::now();
                let reads = if read_over { span.div_ceil(READ_BYTES_MAX) } else { PIECES };
                let (step, bytes) = if read_over {
                    (READ_BYTES_MAX, READ_BYTES_MAX.min(span))
                } else {
                    (stride, PIECE_BYTES)
                };
                for index in 0..reads {
                    read(&file, &mut buffer[..usize::try_from(bytes)?], place + index * step)?;
                }
                times.push(since.elapsed());
            }
        }
        let (apart, together) = (median(apart), median(together));
        let faster = if together < apart { "together" } else { "apart" };
        let (gap, apart, together) = (gap >> 10, ms(apart), ms(together));
        println!("| {gap} KiB | {apart:.1} ms | {together:.1} ms | {faster} |");
    }
    Ok(())
}

fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    match file.read_exact_at(buffer, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        result => result,
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
