//! Command lines of what reads exports.

use std::path::PathBuf;

use clap::Args;
use unsnap_cli::{
    args::{FetchArgs, IoArgs, OutputArgs, ReportFormat},
    settings::parse_size,
};

use super::{
    shared::{Pubkey, parse_pubkey},
    tables::Table,
};

pub const CHECK_EXPORT_EXAMPLES: &str = "\
Examples:
  An export, by what is in it:
    ledger-tool check-export /mnt/tables

  And by the archives that it was made of:
    ledger-tool check-export /mnt/tables \\
      --archive snapshot-39-<HASH>.tar.zst \\
      --incremental incremental-snapshot-39-47-<HASH>.tar.zst";

#[derive(Debug, Args)]
pub struct CheckExportArgs {
    /// Directory that `export` has made
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or
    /// https://), whose accounts the tables must hold
    #[arg(long, value_name = "ARCHIVE")]
    pub archive: Option<PathBuf>,

    /// Incremental archive that builds on that one; the tables must hold the records of both
    #[arg(long, value_name = "ARCHIVE", requires = "archive")]
    pub incremental: Option<PathBuf>,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub report: ReportFormat,

    /// With --archive, if only the newest records were exported: memory for 80 bytes per record; the rest
    /// goes to an unnamed file in the directory for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,

    /// Threads that read files, each one row group at a time [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

pub const LOOKUP_EXAMPLES: &str = "\
Examples:
  Accounts in an export:
    ledger-tool lookup SysvarC1ock11111111111111111111111111111111 \\
      SysvarRent111111111111111111111111111111111 /mnt/tables

  One account with its data, as JSON:
    ledger-tool lookup SysvarC1ock11111111111111111111111111111111 \\
      /mnt/tables --table accounts --with-data --format json";

#[derive(Debug, Args)]
pub struct LookupArgs {
    /// Addresses of accounts
    #[arg(required = true, num_args = 1.., value_name = "PUBKEY", value_parser = parse_pubkey)]
    pub pubkeys: Vec<Pubkey>,

    /// Directory that `export` has made, or its address (http:// or https://) on a server that answers
    /// ranges
    #[arg(value_name = "DIR|URL")]
    pub directory: PathBuf,

    /// Tables to search, separated by commas [default: all of the export]
    #[arg(long, value_enum, value_name = "TABLES", value_delimiter = ',')]
    pub table: Vec<Table>,

    /// Include the data, in base64
    #[arg(long)]
    pub with_data: bool,

    /// Format of the rows and of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    /// Read what is up to so many bytes apart at once [default: 48KiB of a file, 1MiB from a server]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub gap: Option<u64>,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}
