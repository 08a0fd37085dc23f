//! What can be typed after `ledger-tool bench`.

use std::path::PathBuf;

use clap::Args;
use unsnap_cli::args::{OutputArgs, ReportFormat};

pub const EXAMPLES: &str = "\
Examples:
  What limits unpacking to this disk, and which flags make it faster?
    ledger-tool bench --output /mnt/accounts

  The same of the first 10 GB of a real archive:
    ledger-tool bench snapshot-39-<HASH>.tar.zst --output /mnt/accounts \\
      --size 10GB

  A page with plots, to show somebody:
    ledger-tool bench --output /mnt/accounts --rounds 5 --html bench.html

  A machine that unpacks archives of Agave until 4.2, which are one frame:
    ledger-tool bench --output /mnt/accounts --one-frame";

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// A snapshot's archive; without one an archive like those of mainnet is made
    pub archive: Option<PathBuf>,

    /// Directory to measure; what is made in it is removed again
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,

    /// Bytes of files to unpack at a time: of the archive that is made, or of the beginning of the one given
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = crate::settings::parse_size)]
    pub size: u64,

    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,

    /// Make an archive of one frame, as Agave until 4.2, instead of frames of 32 MiB
    #[arg(long, conflicts_with = "archive")]
    pub one_frame: bool,

    /// File for a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// How to print the result on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}
