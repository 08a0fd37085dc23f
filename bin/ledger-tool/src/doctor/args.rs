//! Arguments of `ledger-tool doctor`.

use std::path::PathBuf;

use clap::Args;
use unsnap_cli::args::{FetchArgs, OutputArgs, ReportFormat};

pub const EXAMPLES: &str = "\
Examples:
  Check this machine and these directories (exit code 3 if anything is wrong):
    ledger-tool doctor /mnt/ledger /mnt/accounts

  List only warnings and problems (exit code 3 if there are any):
    ledger-tool doctor /mnt/accounts --format json \\
      | jq '.checks[] | select(.verdict == \"warning\" or .verdict == \"problem\")'

  Check with a service's user and limits (exit code 3 if anything is wrong):
    systemd-run --pipe --wait --property=User=sol --property=LimitMEMLOCK=2G \\
      ledger-tool doctor /mnt/ledger";

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Destination directories and archives to check [default: the current directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Check only what the server of an archive can do; receives from it for 3 seconds
    #[arg(long, value_name = "URL", conflicts_with = "paths")]
    pub url: Option<PathBuf>,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}
