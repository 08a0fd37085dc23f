//! Command line of `list` and `verify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use unsnap_cli::args::{FetchArgs, IoArgs, OutputArgs, ReportFormat, VerifyArg};

use super::shared::IndexArgs;

pub const LIST_EXAMPLES: &str = "\
Examples:
  Names and sizes:
    ledger-tool list snapshot-39-<HASH>.tar.zst

  The ten largest account files:
    ledger-tool list snapshot-39-<HASH>.tar.zst --format json-lines \\
      | jq -r '[.bytes, .path] | @tsv' | sort -n | tail";

pub const VERIFY_EXAMPLES: &str = "\
Examples:
  Check an archive against its name (exit code 1 if they differ):
    ledger-tool verify snapshot-39-<HASH>.tar.zst

  An incremental archive together with its full one:
    ledger-tool verify snapshot-39-<HASH>.tar.zst \\
      --incremental incremental-snapshot-39-47-<HASH>.tar.zst";

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or
    /// https://); "-" is standard input
    pub archive: PathBuf,

    /// Format of the list on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ListFormat,

    #[command(flatten)]
    pub index: IndexArgs,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// For people
    Text,
    /// One array
    Json,
    /// One object a line
    JsonLines,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Archive of a full snapshot, under its own name, or its address (http:// or https://)
    pub archive: PathBuf,

    /// Archive of an incremental snapshot that builds on it
    #[arg(long, value_name = "ARCHIVE")]
    pub incremental: Option<PathBuf>,

    /// Checks of the snapshot's content
    #[arg(long, value_enum, value_name = "WHAT", default_value = "accounts")]
    pub verify: VerifyArg,

    /// Memory for 16 bytes per record; the rest goes to an unnamed file in the directory for temporary
    /// files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = unsnap_cli::settings::parse_size)]
    pub verify_memory: Option<u64>,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}
