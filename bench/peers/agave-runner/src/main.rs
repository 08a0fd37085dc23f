//! `agave-runner`: unpacks a snapshot archive by the code that a validator runs at its start.
//!
//! The set-up is that of `solana_runtime::snapshot_bank_utils::bank_from_snapshot_archives` and
//! of the validator's `main`: a shared SQPOLL ring, direct I/O, registered buffers where the
//! memory that may be locked allows it, one account path. The files that come through the channel
//! are closed where a validator would hand them to its storages, so what a validator does with
//! them afterwards is not measured.

use agave_fs::io_setup::IoSetupState;
use agave_snapshots::{ArchiveFormat, streaming_unarchive_snapshot};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

/// `TOTAL_IO_URING_BUFFERS_SIZE_LIMIT` of solana-accounts-db: a validator registers its buffers
/// if it may lock this much, and raises the limit to it if it can.
const LOCKED_BYTES: u64 = 2_000_000_000;

/// Open files a validator asks for at its start.
const OPEN_FILES: u64 = 1_000_000;

/// Unpack a snapshot archive by the published agave-snapshots crate
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// The archive, .tar.zst or .tar.lz4
    archive: PathBuf,

    /// Directory to unpack into; account files go to its accounts/
    output: PathBuf,

    /// Bypass the page cache when reading the archive and writing files
    #[arg(long, value_enum, default_value_t = Switch::On)]
    direct_io: Switch,

    /// Register buffers with the kernel; auto is what a validator does: if 2 GB of memory may be
    /// locked
    #[arg(long, value_enum, default_value_t = Registered::Auto)]
    registered_buffers: Registered,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Registered {
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
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
    let accounts = cli.output.join("accounts");
    fs::create_dir_all(&accounts)
        .with_context(|| format!("cannot create {}", accounts.display()))?;
    let format = archive_format(&cli.archive)?;
    // Not having this many is no error for a validator's unpacking: files are closed as they come.
    let _ = raise(Resource::Nofile, OPEN_FILES);
    let may_lock = raise(Resource::Memlock, LOCKED_BYTES).is_ok() || is_exempt_from_memlock();
    let registered = match cli.registered_buffers {
        Registered::Auto => may_lock,
        Registered::On => true,
        Registered::Off => false,
    };
    let direct_io = cli.direct_io == Switch::On;
    let io_setup = IoSetupState::default()
        .with_shared_sqpoll()
        .context("cannot set up a shared SQPOLL ring")?
        .with_direct_io(direct_io)
        .with_buffers_registered(registered);

    let (sender, receiver) = crossbeam_channel::unbounded();
    let (files, bytes) = thread::scope(|scope| {
        let unpacker = streaming_unarchive_snapshot(
            scope,
            sender,
            vec![accounts],
            cli.output.clone(),
            cli.archive.clone(),
            format,
            &io_setup,
        );
        let drain = scope.spawn(move || {
            receiver
                .iter()
                .fold((0_u64, 0_u64), |(files, bytes), file| (files + 1, bytes + file.size))
        });
        unpacker.join().map_err(|_| anyhow!("the unpacking thread panicked"))??;
        drain.join().map_err(|_| anyhow!("the draining thread panicked"))
    })?;
    if files == 0 {
        bail!("no file came out of {}", cli.archive.display());
    }
    writeln!(
        io::stdout(),
        r#"{{"files":{files},"bytes":{bytes},"direct_io":{direct_io},"registered_buffers":{registered}}}"#
    )?;
    Ok(())
}

fn archive_format(archive: &Path) -> Result<ArchiveFormat> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    let extension = name.find(".tar.").map_or("", |at| &name[at + 1..]);
    ArchiveFormat::try_from(extension)
        .map_err(|error| anyhow!("cannot tell the format of {}: {error}", archive.display()))
}

/// Whether the limit of locked memory does not count for this process (`CAP_IPC_LOCK`).
fn is_exempt_from_memlock() -> bool {
    const IPC_LOCK: u64 = 1 << 14;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & IPC_LOCK != 0)
}

/// Makes `least` of a resource available if it is not yet.
fn raise(resource: Resource, least: u64) -> rustix::io::Result<()> {
    let limit = getrlimit(resource);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= least);
    if enough(limit.current) {
        return Ok(());
    }
    let maximum = if enough(limit.maximum) { limit.maximum } else { Some(least) };
    setrlimit(resource, Rlimit { current: Some(least), maximum })
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
    fn formats_are_told_by_names() {
        let format = |name: &str| archive_format(Path::new(name));
        assert!(matches!(format("snapshot-1-a.tar.zst"), Ok(ArchiveFormat::TarZstd { .. })));
        assert!(matches!(format("snapshot-1-a.tar.lz4"), Ok(ArchiveFormat::TarLz4)));
        assert!(format("snapshot-1-a.tar").is_err());
    }
}
