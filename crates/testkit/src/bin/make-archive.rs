//! The program `make-archive`: generates deterministic snapshot archives for tests and benchmarks.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "shares no code with the data path")]

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempPath;
use unsnap_testkit::archive::{Summary, write_archive, write_manifest};
use unsnap_testkit::content::Content;
use unsnap_testkit::size::parse_size;
use unsnap_testkit::spec::{ArchiveSpec, Compression, FileSizes, Frames, LatticeHash};

/// Generate a snapshot archive in the layout of Agave, with random accounts
///
/// The same options always give the same bytes, regardless of the number of threads. The lattice
/// hash in the bank file matches the archive's name but not the accounts.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// File or directory to write to, or - for standard output; in a directory the archive gets its
    /// canonical name
    #[arg(short, long, default_value = ".")]
    output: PathBuf,

    /// Write the BLAKE3 hash, size and path of every file in the archive to this file, or to
    /// standard output for -
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Total size of all account files, such as 6GB or 32MiB
    #[arg(long, value_name = "SIZE", default_value = "600MB", value_parser = parse_size)]
    total_size: u64,

    /// Sizes of the account files: mainnet for a realistic mix, or one size, such as fixed:8KiB
    #[arg(long, value_name = "SIZES", default_value = "mainnet")]
    file_sizes: FileSizes,

    /// Number of account files; with a fixed size this overrides the total size
    #[arg(long, value_name = "N")]
    files: Option<u64>,

    /// Account data: tokens (compresses to raw literals), huffman (to Huffman-coded literals) or
    /// mainnet (the kinds of accounts of mainnet, with data of up to 10 MiB)
    #[arg(long, default_value = "tokens")]
    content: Content,

    /// Frame layout: one (Agave until 4.2), agave (32 MiB, from 4.3), firedancer, or a size
    #[arg(long, default_value = "one")]
    frames: Frames,

    /// Compression format: zstd, lz4 or none
    #[arg(long, default_value = "zstd")]
    compression: Compression,

    /// Compression level of zstd
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    level: i32,

    /// Add a checksum to every zstd frame
    #[arg(long)]
    checksum: bool,

    /// Seed of all random content
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Slot of the snapshot
    #[arg(long, default_value_t = 350_000_000)]
    slot: u64,

    /// Slot of the full snapshot to base an incremental one on
    #[arg(long, value_name = "SLOT")]
    base_slot: Option<u64>,

    /// Number of threads [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Format of the summary, printed to standard output, or to standard error if the archive or
    /// the manifest goes to standard output
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
    let stdout = Path::new("-");
    let manifest = cli.manifest.as_deref();
    let output =
        if cli.output.is_dir() { cli.output.join(spec.name()) } else { cli.output.clone() };
    if output == stdout && manifest == Some(stdout) {
        bail!("the archive and its manifest cannot both go to standard output");
    }
    // Checked for both files before either is written.
    for path in manifest.into_iter().chain([output.as_path()]).filter(|path| *path != stdout) {
        check_absent(path, cli.force)?;
    }

    match manifest {
        Some(path) if path == stdout => write_manifest(&spec, &mut io::stdout().lock())?,
        Some(path) => write_file(path, cli.force, |file| {
            Ok(write_manifest(&spec, &mut BufWriter::new(file))?)
        })?,
        None => {}
    }
    let summary = if output == stdout {
        write_archive(&spec, &mut io::stdout().lock())?
    } else {
        write_file(&output, cli.force, |file| Ok(write_archive(&spec, file)?))?
    };
    let summary = cli.format.show(&summary, &output);
    if output == stdout || manifest == Some(stdout) {
        writeln!(io::stderr(), "{summary}")?;
    } else {
        writeln!(io::stdout(), "{summary}")?;
    }
    Ok(())
}

/// Refuses a path that exists, even as a dangling link, unless `force` is set.
fn check_absent(path: &Path, force: bool) -> Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        bail!("{} already exists; use --force to overwrite it", path.display());
    }
    Ok(())
}

/// Writes a file under a temporary name and renames it when it is complete, so that a partial file
/// never has the final name. Without `force` an existing file is never replaced.
fn write_file<T>(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut File) -> Result<T>,
) -> Result<T> {
    check_absent(path, force)?;
    write_and_rename(path, force, write).with_context(|| format!("cannot write {}", path.display()))
}

fn write_and_rename<T>(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut File) -> Result<T>,
) -> Result<T> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let mut file = File::create(&partial)?;
    // Removes the file if anything below fails.
    let partial = TempPath::try_from_path(partial)?;
    let result = write(&mut file)?;
    let renamed = if force { partial.persist(path) } else { partial.persist_noclobber(path) };
    renamed.map_err(|failed| failed.error)?;
    Ok(result)
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
    /// Returns the summary in this format. `path` is `-` for standard output.
    fn show(self, summary: &Summary, path: &Path) -> String {
        let path = path.to_string_lossy();
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
    use std::fs;

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
        let failed: Result<()> = write_file(&path, false, |_| bail!("no"));
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        write_file(&path, false, |file| Ok(file.write_all(b"yes")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"yes");
    }

    #[test]
    fn existing_files_are_replaced_only_by_force() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (archive, manifest) = (at("archive"), at("manifest"));
        let make = |output: &str, options: &[&str]| {
            let small = ["make-archive", "--total-size", "20KB", "--manifest", &manifest];
            run(&Cli::parse_from(small.iter().chain(&["--output", output]).chain(options)))
        };
        make(&archive, &[]).unwrap();
        let made = [&archive, &manifest].map(|path| fs::read(path).unwrap());

        // The archive exists: the manifest is not touched either.
        fs::write(&archive, b"mine").unwrap();
        fs::remove_file(&manifest).unwrap();
        let error = make(&archive, &[]).unwrap_err().to_string();
        assert_eq!(error, format!("{archive} already exists; use --force to overwrite it"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&archive).unwrap(), b"mine");

        // The manifest exists: no archive is written.
        fs::write(&manifest, b"mine").unwrap();
        make(&at("another"), &[]).unwrap_err();
        assert_eq!(fs::read(&manifest).unwrap(), b"mine");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);

        make(&archive, &["--force"]).unwrap();
        assert_eq!(made, [&archive, &manifest].map(|path| fs::read(path).unwrap()));
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("archive");
        let failed = write_file(&path, false, |file| {
            fs::write(&path, b"mine")?;
            Ok(file.write_all(b"yes")?)
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_one_of_archive_and_manifest_goes_to_standard_output() {
        let cli = Cli::parse_from(["make-archive", "--output", "-", "--manifest", "-"]);
        assert!(run(&cli).unwrap_err().to_string().contains("cannot both go"));
    }
}
