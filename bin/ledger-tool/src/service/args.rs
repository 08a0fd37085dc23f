//! What can be typed behind `ledger-tool service`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use unsnap_cli::args::OutputArgs;
use unsnap_control::protocol::SOCKET;

pub const SERVICE_EXAMPLES: &str = "\
Examples:
  See how everything stands:
    ledger-tool service status

  See it move:
    ledger-tool service watch

  Unpack these archives now, for one target:
    ledger-tool service submit snapshot-39-<HASH>.tar.zst --target validator

  Leave the disks alone for a while:
    ledger-tool service pause
    ledger-tool service resume

  What has gone wrong since when, for a script:
    ledger-tool service status --format json | jq '.targets[] | select(.state == \"failing\")'

  Every job that ends, as a line of JSON:
    ledger-tool service watch --format json-lines | jq --unbuffered -c 'select(.event == \"job-ended\")'";

#[derive(Debug, Args)]
pub struct ServiceArgs {
    #[command(subcommand)]
    pub action: ServiceAction,
}

#[derive(Debug, Subcommand)]
pub enum ServiceAction {
    /// Say how the service and all its targets stand
    Status(AskArgs),
    /// Have archives unpacked that the service would not choose by itself, or not now
    ///
    /// Job numbers are printed; `watch` and `status` tell what becomes of them.
    Submit(SubmitArgs),
    /// Take a job out of the queue, or stop it
    Cancel(CancelArgs),
    /// Start no jobs, and let running ones rest, until `resume` or a restart
    Pause(AskArgs),
    /// Go on after a pause
    Resume(AskArgs),
    /// Have the service read its configuration again
    ///
    /// A bad one is refused, and the old one stays.
    Reload(AskArgs),
    /// Show what happens until interrupted
    ///
    /// On a terminal a line for each target that moves; otherwise, or with --no-progress, a line for
    /// each event.
    Watch(AskArgs),
    /// Print the metrics that Prometheus reads
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

    pub fn output_control(&self) -> &OutputArgs {
        &self.ask().output_control
    }
}
