//! Arguments of `ledger-tool bench`.

use std::path::PathBuf;

use clap::Args;
use unsnap_cli::args::{OutputArgs, ReportFormat};

pub const EXAMPLES: &str = "\
Examples:
  Find the bottleneck of unpacking to this disk, and the best flags:
    ledger-tool bench --output /mnt/accounts

  Use the first 10 GB of a real archive:
    ledger-tool bench snapshot-39-<HASH>.tar.zst --output /mnt/accounts \\
      --size 10GB

  Write a page with plots:
    ledger-tool bench --output /mnt/accounts --rounds 5 --html bench.html

  Use an archive of one frame, like those of Agave up to 4.2:
    ledger-tool bench --output /mnt/accounts --one-frame";

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Snapshot archive [default: a generated archive like those of mainnet]
    pub archive: Option<PathBuf>,

    /// Directory to measure; bench removes the files that it creates there
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,

    /// Amount of data to unpack in each run: the size of the generated archive's files, or of the
    /// beginning of ARCHIVE
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = crate::settings::parse_size)]
    pub size: u64,

    /// Number of times to measure everything
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,

    /// Generate an archive of one frame, as Agave up to 4.2 does, instead of frames of 32 MiB
    #[arg(long, conflicts_with = "archive")]
    pub one_frame: bool,

    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}
