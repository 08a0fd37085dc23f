//! Command lines of what reads exports.

use std::path::PathBuf;

use clap::Args;
use unsnap_cli::{
    args::{FetchArgs, IoArgs, OutputArgs, ReportFormat},
    settings::parse_size,
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
