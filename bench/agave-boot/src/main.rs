//! `agave-boot`: does an unmodified validator start from a prepared directory with the same bank
//! as from the archives?
//!
//! Everything that decides is the published code of Agave 4.2.2; this program calls it in the
//! validator's order and prints what came out as JSON lines. See docs/agave-boot.md.

mod copy;
mod facts;
mod grow;
mod load;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use facts::Facts;
use load::{Check, Places, Source};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Load a prepared fastboot directory, and the archives, by Agave's own published code
///
/// Ends with 0 if it loaded (and, for compare, if both banks are equal), 1 if not.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    /// Check no more than a validator does, to measure: leave out the check of the index of accounts
    #[arg(long, global = true)]
    as_validator: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load the highest full archive and its highest incremental, as a validator does
    Archives(FromArchives),
    /// Start as a validator does in when-newest mode, from a copy of the prepared directory
    Directory(FromDirectory),
    /// Do both and compare
    Compare(FromDirectory),
    /// Load the archives, add accounts, and write a larger full archive
    Grow(Grow),
}

#[derive(Args)]
struct Grow {
    #[command(flatten)]
    from: FromArchives,
    /// Bytes of accounts to add, in mainnet's proportions
    #[arg(long, value_name = "BYTES")]
    bytes: u64,
    /// Directory for the new archive
    #[arg(long)]
    output: PathBuf,
}

#[derive(Args)]
struct FromArchives {
    /// The ledger's genesis.bin
    #[arg(long)]
    genesis: PathBuf,
    /// Directory of the archives
    #[arg(long)]
    archives: PathBuf,
    /// Directory for what is unpacked; it is deleted afterwards [default: the system's]
    #[arg(long)]
    scratch: Option<PathBuf>,
}

#[derive(Args)]
struct FromDirectory {
    /// The ledger's genesis.bin
    #[arg(long)]
    genesis: PathBuf,
    /// The validator's --snapshots: the bank snapshots are in its snapshots/SLOT/
    #[arg(long)]
    snapshots: PathBuf,
    /// The validator's --accounts: storages are in the run/ of each
    #[arg(long, value_delimiter = ',', required = true)]
    accounts: Vec<PathBuf>,
    /// Directory of the archives [default: --snapshots]
    #[arg(long)]
    archives: Option<PathBuf>,
    /// Directory for the copies; they are deleted afterwards [default: the system's]
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// Do not copy: the validator's code deletes the storages it has loaded when it ends
    #[arg(long)]
    in_place: bool,
    /// Hold the bank until standard input ends, to be killed meanwhile
    #[arg(long)]
    hold: bool,
}

fn main() -> ExitCode {
    env_logger::init();
    let cli = Cli::parse();
    let check = if cli.as_validator { Check::AsValidator } else { Check::IndexToo };
    match run(&cli.command, check) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let line = serde_json::json!({ "event": "failed", "error": format!("{error:#}") });
            // Nobody is left to tell if standard output is gone.
            let _ = writeln!(io::stdout(), "{line}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command, check: Check) -> Result<bool> {
    match command {
        Command::Archives(args) => {
            let scratch = scratch(args.scratch.as_deref())?;
            archives(&args.genesis, &args.archives, scratch.path(), check)?;
            Ok(true)
        }
        Command::Directory(args) => {
            let scratch = scratch(args.scratch.as_deref())?;
            Ok(directory(args, scratch.path(), check)?.is_some())
        }
        Command::Compare(args) => {
            let scratch = scratch(args.scratch.as_deref())?;
            let archives_dir = args.archives.as_ref().unwrap_or(&args.snapshots);
            let from_archives = archives(&args.genesis, archives_dir, scratch.path(), check)?;
            let from_directory = directory(args, scratch.path(), check)?;
            let equal = from_directory.as_ref() == Some(&from_archives);
            print(&serde_json::json!({ "event": "compared", "equal": equal }))?;
            Ok(equal)
        }
        Command::Grow(args) => {
            let scratch = scratch(args.from.scratch.as_deref())?;
            let places = places_for_archives(&args.from.archives, scratch.path())?;
            let genesis = load::genesis(&args.from.genesis)?;
            let grown = grow::grow(&genesis, &places, args.bytes, &args.output)?;
            print(&serde_json::json!({
                "event": "grown",
                "archive": grown.archive,
                "slot": grown.slot,
                "accounts_added": grown.accounts,
            }))?;
            Ok(true)
        }
    }
}

fn scratch(parent: Option<&Path>) -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("agave-boot-");
    match parent {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    }
    .context("cannot make a scratch directory")
}

/// Directories in `scratch` for what the archives hold.
fn places_for_archives(archives: &Path, scratch: &Path) -> Result<Places> {
    let base = scratch.join("from-archives");
    Places::prepare(&base.join("ledger"), &[base.join("accounts")], archives.to_path_buf())
}

/// Loads the archives and prints the bank.
fn archives(genesis: &Path, archives: &Path, scratch: &Path, check: Check) -> Result<Facts> {
    let places = places_for_archives(archives, scratch)?;
    let since = Instant::now();
    let bank = load::from_archives(&load::genesis(genesis)?, &places, check)?;
    print_loaded("archives", since.elapsed())?;
    let facts = Facts::of(&bank)?;
    print_bank("archives", &facts)?;
    Ok(facts)
}

/// Starts from the prepared directory and prints the bank; None if the validator's code would
/// rather not start from it.
fn directory(args: &FromDirectory, scratch: &Path, check: Check) -> Result<Option<Facts>> {
    let archives = args.archives.as_ref().unwrap_or(&args.snapshots).clone();
    let (snapshots, accounts) = if args.in_place {
        (args.snapshots.clone(), args.accounts.clone())
    } else {
        copy::prepared(&args.snapshots, &args.accounts, &scratch.join("from-directory"))?
    };
    let places = Places::prepare(&snapshots, &accounts, archives)?;
    let source = load::choose(&places);
    print(&serde_json::json!({ "event": "chosen", "source": source.to_string() }))?;
    let Source::Directory(bank_snapshot) = source else {
        return Ok(None);
    };
    let since = Instant::now();
    let bank =
        load::from_directory(&load::genesis(&args.genesis)?, &places, &bank_snapshot, check)?;
    print_loaded("directory", since.elapsed())?;
    let facts = Facts::of(&bank)?;
    print_bank("directory", &facts)?;
    if args.hold {
        io::copy(&mut io::stdin().lock(), &mut io::sink()).context("cannot read")?;
    }
    Ok(Some(facts))
}

/// Tells when the bank was there: what is compared afterwards takes longer than loading.
fn print_loaded(source: &str, duration: Duration) -> Result<()> {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    print(&serde_json::json!({ "event": "loaded", "source": source, "ms": ms }))
}

fn print_bank(source: &str, facts: &Facts) -> Result<()> {
    let mut line = serde_json::to_value(facts)?;
    line["event"] = "bank".into();
    line["source"] = source.into();
    print(&line)
}

fn print(line: &serde_json::Value) -> Result<()> {
    writeln!(io::stdout(), "{line}").context("cannot write to standard output")
}
