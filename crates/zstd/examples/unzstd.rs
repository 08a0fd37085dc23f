//! Decodes a `.zst` file, or standard input, to standard output with all cores.
//!
//! ```sh
//! cargo run --release -p unsnap-zstd --example unzstd -- archive.tar.zst > archive.tar
//! ```

#![allow(clippy::print_stderr)]

use std::{
    env,
    error::Error,
    fs::File,
    io::{self, Read, Write},
    thread,
    time::Instant,
};

use unsnap_zstd::Decoder;

fn main() -> Result<(), Box<dyn Error>> {
    let reader: Box<dyn Read + Send> = match env::args_os().nth(1) {
        #[allow(clippy::disallowed_methods)] // not in the data path of unsnap
        Some(path) => Box::new(File::open(path)?),
        None => Box::new(io::stdin()),
    };
    // Standard output as a file: it would otherwise be searched for the ends of lines.
    #[allow(clippy::disallowed_methods)]
    let writer: Box<dyn Write + Send> = match File::options().write(true).open("/dev/stdout") {
        Ok(file) => Box::new(file),
        Err(_) => Box::new(io::stdout()),
    };
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let since = Instant::now();
    // As large as `zstd --long=31`.
    let decoder = Decoder::new(threads).window_bytes_max(1 << 31);
    let summary = decoder.decode(reader, writer)?;
    let seconds = since.elapsed().as_secs_f64();
    eprintln!(
        "{} frames, {} bytes from {} in {seconds:.3} s, {threads} threads",
        summary.frames, summary.raw_bytes, summary.compressed_bytes,
    );
    Ok(())
}
