//! `make-archive`: writes a deterministic snapshot archive for tests and benchmarks.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "shares no code with the data path")]

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unsnap_testkit::archive::{Summary, write_archive, write_manifest};
use unsnap_testkit::content::Content;
use unsnap_testkit::size::parse_size;
use unsnap_testkit::spec::{ArchiveSpec, Compression, FileSizes, Frames, LatticeHash};

/// Make a snapshot archive in the layout of Agave, with random accounts.
///
/// Equal options give equal bytes, whatever the number of threads. The lattice hash in the bank
/// file matches the file name, but not the accounts.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// File to write, directory to write the genuine name into, or - for standard output
    #[arg(short, long, default_value = ".")]
    output: PathBuf,

    /// Sum of the lengths of all account files, such as 6GB or 32MiB
    #[arg(long, value_name = "SIZE", default_value = "600MB", value_parser = parse_size)]
    total_size: u64,

    /// Lengths of the account files: mainnet, or fixed: and a size, as fixed:8KiB
    #[arg(long, value_name = "SIZES", default_value = "mainnet")]
    file_sizes: FileSizes,

    /// Number of account files; overrides the total if their size is fixed
    #[arg(long, value_name = "N")]
    files: Option<u64>,

    /// What the accounts hold: tokens (raw literals) or huffman (Huffman-coded literals)
    #[arg(long, default_value = "tokens")]
    content: Content,

    /// Frames: one (Agave until 4.2), agave (32 MiB, from 4.3), firedancer, or a size
    #[arg(long, default_value = "one")]
    frames: Frames,

    /// Compression: zstd, lz4 or none
    #[arg(long, default_value = "zstd")]
    compression: Compression,

    /// Level of zstd
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    level: i32,

    /// End every zstd frame in a checksum
    #[arg(long)]
    checksum: bool,

    /// Seed of all random contents
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Slot of the snapshot
    #[arg(long, default_value_t = 350_000_000)]
    slot: u64,

    /// Slot of a full snapshot: make an incremental one upon it
    #[arg(long, value_name = "SLOT")]
    base_slot: Option<u64>,

    /// Threads to use [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Write `<blake3> <size> <path>` of every file in the archive to this file
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    /// Form of the summary, printed to standard output, or to standard error if the archive goes
    /// to standard output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let spec = cli.spec();
    if let Some(path) = &cli.manifest {
        write_file(path, |file| Ok(write_manifest(&spec, &mut BufWriter::new(file))?))?;
    }
    if cli.output == Path::new("-") {
        let summary = write_archive(&spec, &mut io::stdout().lock())?;
        return Ok(writeln!(io::stderr(), "{}", cli.format.show(&summary, None))?);
    }
    let path = if cli.output.is_dir() { cli.output.join(spec.name()) } else { cli.output.clone() };
    let summary = write_file(&path, |file| Ok(write_archive(&spec, file)?))?;
    Ok(writeln!(io::stdout(), "{}", cli.format.show(&summary, Some(&path)))?)
}

/// Writes under a temporary name, so that nobody takes half a file for a whole one.
fn write_file<T>(path: &Path, write: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    File::create(&partial)
        .map_err(anyhow::Error::from)
        .and_then(|mut file| write(&mut file))
        .and_then(|result| fs::rename(&partial, path).map(|()| result).map_err(Into::into))
        .inspect_err(|_| drop(fs::remove_file(&partial)))
        .with_context(|| format!("cannot write {}", path.display()))
}

impl Cli {
    fn spec(&self) -> ArchiveSpec {
        ArchiveSpec {
            total_bytes: self.total_size,
            file_sizes: self.file_sizes,
            files: self.files,
            content: self.content,
            compression: self.compression,
            frames: self.frames,
            level: self.level,
            checksum: self.checksum,
            seed: self.seed,
            slot: self.slot,
            base_slot: self.base_slot,
            threads: self.threads,
            lattice_hash: LatticeHash::Random,
        }
    }
}

impl Format {
    /// The summary in this form; `path` is `None` for standard output.
    fn show(self, summary: &Summary, path: Option<&Path>) -> String {
        let path = path.map_or("-".into(), Path::to_string_lossy);
        let (ratio, speed) = (summary.ratio(), summary.gigabytes_per_second());
        let seconds = summary.elapsed.as_secs_f64();
        let Summary { account_files, frames, raw_bytes, compressed_bytes, .. } = summary;
        match self {
            Self::Text => format!(
                "{path}\n  {account_files} account files, {frames} frames\n  \
                 {raw_bytes} bytes -> {compressed_bytes} bytes, ratio {ratio:.3}\n  \
                 {seconds:.2} s, {speed:.2} GB/s"
            ),
            Self::Json => serde_json::json!({
                "path": path,
                "name": summary.name,
                "account_files": account_files,
                "frames": frames,
                "raw_bytes": raw_bytes,
                "compressed_bytes": compressed_bytes,
                "ratio": ratio,
                "seconds": seconds,
                "gigabytes_per_second": speed,
            })
            .to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn options_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_those_of_the_library() {
        let cli = Cli::parse_from(["make-archive"]);
        let expected = ArchiveSpec { total_bytes: 600_000_000, ..ArchiveSpec::default() };
        assert_eq!(cli.spec(), expected);
    }

    #[test]
    fn failures_leave_no_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive");
        let failed: Result<()> = write_file(&path, |_| anyhow::bail!("no"));
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        write_file(&path, |file| Ok(file.write_all(b"yes")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"yes");
    }
}
