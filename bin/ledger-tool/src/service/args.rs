//! Arguments of `ledger-tool service`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use unsnap_cli::args::OutputArgs;
use unsnap_control::protocol::SOCKET;

pub const SERVICE_EXAMPLES: &str = "\
Examples:
  Show the state of the service and its targets:
    ledger-tool service status

  Watch jobs until interrupted (exit code 130):
    ledger-tool service watch

  Unpack an archive now, for one target:
    ledger-tool service submit snapshot-39-<HASH>.tar.zst --target validator

  Have the newest archives unpacked now, and wait for that:
    ledger-tool service prepare --wait

  Pause all work on the disks, and resume it:
    ledger-tool service pause
    ledger-tool service resume

  List failing targets in a script:
    ledger-tool service status --format json \\
      | jq '.targets[] | select(.state == \"failing\")'";

const STATUS_EXAMPLES: &str = "\
Examples:
  Show the state of the service and its targets:
    ledger-tool service status

  Print the newest result of each target in a script:
    ledger-tool service status --format json \\
      | jq -r '.targets[] | [.name, .results[0].slot, .results[0].path] | @tsv'";

const SUBMIT_EXAMPLES: &str = "\
Examples:
  Unpack an archive now, for all targets:
    ledger-tool service submit snapshot-39-<HASH>.tar.zst

  Unpack a full archive and an incremental one based on it, for one target:
    ledger-tool service submit snapshot-39-<HASH>.tar.zst --target validator \\
      --incremental incremental-snapshot-39-47-<HASH>.tar.zst";

const PREPARE_EXAMPLES: &str = "\
Examples:
  Have the newest archives unpacked, then restart the validator:
    ledger-tool service prepare validator --wait && systemctl restart sol

  Have them unpacked for all targets, without waiting:
    ledger-tool service prepare";

const CANCEL_EXAMPLES: &str = "\
Examples:
  Cancel a job; `status` shows its number:
    ledger-tool service cancel 12";

const PAUSE_EXAMPLES: &str = "\
Examples:
  Pause all work on the disks, and resume it:
    ledger-tool service pause
    ledger-tool service resume";

const RELOAD_EXAMPLES: &str = "\
Examples:
  Apply an edited configuration (exit code 2 if it is invalid):
    ledger-tool service reload";

const WATCH_EXAMPLES: &str = "\
Examples:
  Watch jobs until interrupted (exit code 130):
    ledger-tool service watch

  Print each job that ends as JSON, until interrupted (exit code 130):
    ledger-tool service watch --format json-lines \\
      | jq --unbuffered -c 'select(.event == \"job-ended\")'";

const METRICS_EXAMPLES: &str = "\
Examples:
  Check whether the service is paused:
    ledger-tool service metrics | grep '^unsnap_paused'";

#[derive(Debug, Args)]
pub struct ServiceArgs {
    #[command(subcommand)]
    pub action: ServiceAction,
}

#[derive(Debug, Subcommand)]
pub enum ServiceAction {
    /// Show the state of the service and its targets
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status(AskArgs),
    /// Unpack an archive now, even one that the service would not choose
    ///
    /// Prints the numbers of the queued jobs; `watch` and `status` show their progress.
    #[command(after_long_help = SUBMIT_EXAMPLES)]
    Submit(SubmitArgs),
    /// Unpack the newest archives now, without regard to the cadence
    ///
    /// The section "cadence" of the service's configuration says when it starts jobs by itself. A
    /// job for the newest archives that runs or waits already is the one that is meant; one for
    /// older archives ends first.
    #[command(after_long_help = PREPARE_EXAMPLES)]
    Prepare(PrepareArgs),
    /// Stop a job, or remove it from the queue
    ///
    /// A running job ends within moments, after it has removed its files; `watch` shows its end.
    /// Unless it was submitted, its archives are not unpacked again, only newer ones.
    #[command(after_long_help = CANCEL_EXAMPLES)]
    Cancel(CancelArgs),
    /// Suspend running jobs and start no others until `resume`
    ///
    /// The pause outlasts restarts of the service. A suspended job keeps the files that it has
    /// written. It ends if the start of a validator waits for it.
    #[command(after_long_help = PAUSE_EXAMPLES)]
    Pause(AskArgs),
    /// Resume paused jobs
    #[command(after_long_help = PAUSE_EXAMPLES)]
    Resume(AskArgs),
    /// Reload the service's configuration
    ///
    /// The service refuses an invalid configuration and keeps the old one.
    #[command(after_long_help = RELOAD_EXAMPLES)]
    Reload(AskArgs),
    /// Show jobs and events until interrupted
    ///
    /// On a terminal, it shows a live line for each target; otherwise, or with --no-progress, a line
    /// for each event. If the service stops or restarts, it waits until it answers again.
    #[command(after_long_help = WATCH_EXAMPLES)]
    Watch(AskArgs),
    /// Print metrics in Prometheus' text format
    #[command(after_long_help = METRICS_EXAMPLES)]
    Metrics(AskArgs),
}

/// The service to ask, and the format of its answer.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Socket of the service
    #[arg(long, value_name = "PATH", env = "UNPACKD_CONTROL_SOCKET", default_value = SOCKET)]
    pub socket: PathBuf,

    /// Format of the answer on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: AnswerFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct SubmitArgs {
    /// Full archive
    pub archive: PathBuf,

    /// Incremental archive based on it
    #[arg(long, value_name = "ARCHIVE")]
    pub incremental: Option<PathBuf>,

    /// Target to unpack it for [default: all targets]
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,

    #[command(flatten)]
    pub ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct PrepareArgs {
    /// Target to prepare [default: all targets]
    pub target: Option<String>,

    /// Wait until the jobs have ended, and exit with their exit code
    #[arg(long)]
    pub wait: bool,

    #[command(flatten)]
    pub ask: AskArgs,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Number of the job, as `status` shows it
    pub job: u64,

    #[command(flatten)]
    pub ask: AskArgs,
}

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// For people
    Text,
    /// For programs, indented; `watch` prints one line for each event
    Json,
    /// For programs, one object per line
    JsonLines,
}

impl ServiceAction {
    /// Returns the service to ask.
    pub fn ask(&self) -> &AskArgs {
        match self {
            Self::Submit(args) => &args.ask,
            Self::Prepare(args) => &args.ask,
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
