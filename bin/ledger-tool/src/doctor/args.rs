//! What can be typed after `ledger-tool doctor`.

use std::path::PathBuf;

use clap::Args;
use unsnap_cli::args::{OutputArgs, ReportFormat};

pub const EXAMPLES: &str = "\
Examples:
  This machine and these directories (exit code 3 if something is wrong):
    ledger-tool doctor /mnt/ledger /mnt/accounts

  What makes unsnap slow or unsafe here? (exit code 3 if anything does)
    ledger-tool doctor /mnt/accounts --format json \\
      | jq '.checks[] | select(.verdict == \"warning\" or .verdict == \"problem\")'

  What a service would find (exit code 3 if something is wrong):
    systemd-run --pipe --wait --property=User=sol --property=LimitMEMLOCK=2G \\
      ledger-tool doctor /mnt/ledger";

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Directories that files will be written to, and archives to be read [default: the current directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// How to print the result on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}
