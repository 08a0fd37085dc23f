//! What can be typed behind `ledger-tool service`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use unsnap_cli::args::OutputArgs;
use unsnap_control::protocol::SOCKET;

pub const SERVICE_EXAMPLES: &str = "\
Examples:
  See how everything stands:
    ledger-tool service status

  See it move, until interrupted (exit code 130):
    ledger-tool service watch

  Unpack these archives now, for one target:
    ledger-tool service submit snapshot-39-<HASH>.tar.zst --target validator

  Leave the disks alone for a while:
    ledger-tool service pause
    ledger-tool service resume

  Which targets are failing, for a script:
    ledger-tool service status --format json \\
      | jq '.targets[] | select(.state == \"failing\")'";

const STATUS_EXAMPLES: &str = "\
Examples:
  See how everything stands:
    ledger-tool service status

  The newest result of each target, for a script:
    ledger-tool service status --format json \\
      | jq -r '.targets[] | [.name, .results[0].slot, .results[0].path] | @tsv'";

const SUBMIT_EXAMPLES: &str = "\
Examples:
  Unpack this archive now, for all targets:
    ledger-tool service submit snapshot-39-<HASH>.tar.zst

  A full archive and the incremental one upon it, for one target:
    ledger-tool service submit snapshot-39-<HASH>.tar.zst --target validator \\
      --incremental incremental-snapshot-39-47-<HASH>.tar.zst";

const CANCEL_EXAMPLES: &str = "\
Examples:
  Take a job out of the queue; its number is one that `status` shows:
    ledger-tool service cancel 12";

const PAUSE_EXAMPLES: &str = "\
Examples:
  Leave the disks alone for a while:
    ledger-tool service pause
    ledger-tool service resume";

const RELOAD_EXAMPLES: &str = "\
Examples:
  After the configuration was edited (exit code 2 if it is bad):
    ledger-tool service reload";

const WATCH_EXAMPLES: &str = "\
Examples:
  See it move, until interrupted (exit code 130):
    ledger-tool service watch

  Every job that ends, as a line of JSON, until interrupted (exit code 130):
    ledger-tool service watch --format json-lines \\
      | jq --unbuffered -c 'select(.event == \"job-ended\")'";

const METRICS_EXAMPLES: &str = "\
Examples:
  Is the service paused?
    ledger-tool service metrics | grep '^unsnap_paused'";

#[derive(Debug, Args)]
pub struct ServiceArgs {
    #[command(subcommand)]
    pub action: ServiceAction,
}

#[derive(Debug, Subcommand)]
pub enum ServiceAction {
    /// Say how the service and all its targets stand
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status(AskArgs),
    /// Have archives unpacked that the service would not choose by itself, or not now
    ///
    /// Job numbers are printed; `watch` and `status` tell what becomes of them.
    #[command(after_long_help = SUBMIT_EXAMPLES)]
    Submit(SubmitArgs),
    /// Take a job out of the queue, or stop it
    #[command(after_long_help = CANCEL_EXAMPLES)]
    Cancel(CancelArgs),
    /// Start no jobs, and let running ones rest, until `resume` or a restart
    #[command(after_long_help = PAUSE_EXAMPLES)]
    Pause(AskArgs),
    /// Go on after a pause
    #[command(after_long_help = PAUSE_EXAMPLES)]
    Resume(AskArgs),
    /// Have the service read its configuration again
    ///
    /// A bad one is refused, and the old one stays.
    #[command(after_long_help = RELOAD_EXAMPLES)]
    Reload(AskArgs),
    /// Show what happens until interrupted
    ///
    /// On a terminal a line for each target that moves; otherwise, or with --no-progress, a line for
    /// each event.
    #[command(after_long_help = WATCH_EXAMPLES)]
    Watch(AskArgs),
    /// Print the metrics that Prometheus reads
    #[command(after_long_help = METRICS_EXAMPLES)]
    Metrics(AskArgs),
}

/// Whom to ask, and how to tell the answer.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// The service's socket
    #[arg(long, value_name = "PATH", env = "UNPACKD_CONTROL_SOCKET", default_value = SOCKET)]
    pub socket: PathBuf,

    /// How to print the answer on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: AnswerFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// The full archive
    pub archive: PathBuf,

    /// The incremental archive upon it
    #[arg(long, value_name = "ARCHIVE")]
    pub incremental: Option<PathBuf>,

    /// Which target it is for [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,

    #[command(flatten)]
    pub ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The job's number, as `status` shows it
    pub job: u64,

    #[command(flatten)]
    pub ask: AskArgs,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// For people
    Text,
    /// For programs, indented
    Json,
    /// For programs, an object a line; so is every event of `watch` with either
    JsonLines,
}

impl ServiceAction {
    /// Whom to ask.
    pub fn ask(&self) -> &AskArgs {
        match self {
            Self::Submit(args) => &args.ask,
            Self::Cancel(args) => &args.ask,
            Self::Status(ask)
            | Self::Pause(ask)
            | Self::Resume(ask)
            | Self::Reload(ask)
            | Self::Watch(ask)
            | Self::Metrics(ask) => ask,
        }
    }
}
