//! What can be typed after `ledger-tool doctor`.

use std::path::PathBuf;

use clap::Args;
use unsnap_cli::args::{OutputArgs, ReportFormat};

pub const EXAMPLES: &str = "\
Examples:
  Examine the machine, and the directories that a validator keeps its things in:
    ledger-tool doctor /mnt/ledger /mnt/accounts

  What keeps unsnap from being as fast and safe as it could be here?
    ledger-tool doctor /mnt/accounts --format json | jq '.checks[] | select(.verdict == \"warning\")'

  Examine what a service would find, with its limits and its sandbox:
    systemd-run --pipe --wait --property=User=sol --property=LimitMEMLOCK=2G ledger-tool doctor /mnt/ledger";

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
