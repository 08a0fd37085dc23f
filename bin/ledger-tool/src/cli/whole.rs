//! Archives that are only read, from end to end: what can be typed after `list` and `verify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use unsnap_cli::args::{IoArgs, OutputArgs, ReportFormat, VerifyArg};

use super::IndexArgs;

pub const LIST_EXAMPLES: &str = "\
Examples:
  Names and sizes:
    ledger-tool list snapshot-39-<HASH>.tar.zst

  The ten largest account files:
    ledger-tool list snapshot-39-<HASH>.tar.zst --format json-lines \\
      | jq -r '[.bytes, .path] | @tsv' | sort -n | tail";

pub const VERIFY_EXAMPLES: &str = "\
Examples:
  Is this the snapshot that its name says? (exit code 1 if not)
    ledger-tool verify snapshot-39-<HASH>.tar.zst

  An incremental archive together with the full one that it stands upon:
    ledger-tool verify snapshot-39-<HASH>.tar.zst \\
      --incremental incremental-snapshot-39-47-<HASH>.tar.zst";

#[derive(Debug, Args)]
pub struct ListArgs {
    /// The archive (.tar.zst, .tar.lz4 or .tar, told by its first bytes); "-" is standard input
    pub archive: PathBuf,

    /// How to print the entries on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ListFormat,

    #[command(flatten)]
    pub index: IndexArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    Text,
    /// One array
    Json,
    /// One object a line
    JsonLines,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The archive of a full snapshot, under its own name
    pub archive: PathBuf,

    /// The archive of an incremental snapshot upon it
    #[arg(long, value_name = "ARCHIVE")]
    pub incremental: Option<PathBuf>,

    /// What is checked beyond the archive itself
    #[arg(long, value_enum, value_name = "WHAT", default_value = "accounts")]
    pub verify: VerifyArg,

    /// Memory for what is remembered of accounts, 16 bytes for each record; what is more goes to a
    /// file without a name in the directory for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub verify_memory: Option<u64>,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}
