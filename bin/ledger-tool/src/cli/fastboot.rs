//! States that validators start from: what can be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use unsnap_cli::args::{IoArgs, NeighbourArgs, OutputArgs, RemovalArgs, ReportFormat, StateArgs};

pub const FASTBOOT_EXAMPLES: &str = "\
Examples:
  Prepare the newest full and incremental archive of a ledger:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts

  The same while the validator is running, to be used when it starts again:
    ledger-tool fastboot prepare --beside \\
      --ledger /mnt/ledger --accounts /mnt/accounts

  See what a validator would find:
    ledger-tool fastboot status --ledger /mnt/ledger --accounts /mnt/accounts

  Put back what a validator that crashed has removed:
    ledger-tool fastboot repair --ledger /mnt/ledger --accounts /mnt/accounts

  Have the validator unpack its archives itself, after all:
    ledger-tool fastboot withdraw --ledger /mnt/ledger --accounts /mnt/accounts";

const PREPARE_EXAMPLES: &str = "\
Examples:
  Prepare the newest full and incremental archive of a ledger:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts

  Accounts on two disks, and archives in a directory of their own:
    ledger-tool fastboot prepare --ledger /mnt/ledger \\
      --snapshots /mnt/snapshots --accounts /mnt/accounts,/mnt/accounts2

  The same while the validator is running, to be used when it starts again:
    ledger-tool fastboot prepare --beside \\
      --ledger /mnt/ledger --accounts /mnt/accounts \\
      --rate-limit 200MB --io-class idle

  Prove that the accounts are those of the archives' names, too:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts \\
      --verify accounts";

const STATUS_EXAMPLES: &str = "\
Examples:
  See what a validator would find:
    ledger-tool fastboot status --ledger /mnt/ledger --accounts /mnt/accounts

  In a script: the newest slot, unless its state is damaged (exit code 1)
    ledger-tool fastboot status --ledger /mnt/ledger --accounts /mnt/accounts \\
      --format json | jq '.states[0].slot'";

const REPAIR_EXAMPLES: &str = "\
Examples:
  Put back what a validator that crashed has removed:
    ledger-tool fastboot repair --ledger /mnt/ledger --accounts /mnt/accounts";

const WITHDRAW_EXAMPLES: &str = "\
Examples:
  Have the validator unpack its archives itself, after all:
    ledger-tool fastboot withdraw --ledger /mnt/ledger --accounts /mnt/accounts

  Take back only what lies ready, while the validator is running:
    ledger-tool fastboot withdraw --beside \\
      --ledger /mnt/ledger --accounts /mnt/accounts";

#[derive(Debug, Args)]
pub struct FastbootArgs {
    #[command(subcommand)]
    pub action: FastbootAction,
}

#[derive(Debug, Subcommand)]
pub enum FastbootAction {
    /// Make a state of the newest full archive and the newest incremental one upon it
    ///
    /// Nothing is touched before the archives' bank files have proven to be those of their names,
    /// and it is known that there is room. Older states and storages are cleared away then, as the
    /// validator would do. Archives that prove bad are set aside (renamed), and the next best are
    /// taken.
    ///
    /// A state that was prepared with --beside is adopted if it is whole and as new as the archives:
    /// that takes milliseconds.
    #[command(after_long_help = PREPARE_EXAMPLES)]
    Prepare(Box<PrepareArgs>),
    /// Say what states there are, and whether they are whole; also while a validator is running
    ///
    /// Exit code 1 if a validator would load a state and fail.
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status(LookAfterArgs),
    /// Make the newest state whole again from its shadow, or withdraw it
    ///
    /// What lies ready beside it is left alone.
    #[command(after_long_help = REPAIR_EXAMPLES)]
    Repair(LookAfterArgs),
    /// Take all states and their shadows back; storages are left to the validator
    ///
    /// What lies ready beside them goes, too: it would be adopted otherwise.
    #[command(after_long_help = WITHDRAW_EXAMPLES)]
    Withdraw(WithdrawArgs),
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of the command line
pub struct PrepareArgs {
    #[command(flatten)]
    pub places: PlacesArgs,

    #[command(flatten)]
    pub state: StateArgs,

    /// Prepare the archives even if there is a state as new as they are, be it one that lies ready
    #[arg(long)]
    pub replace: bool,

    /// Prepare a state beside those of a validator, which may be running: it lies ready until
    /// `prepare` without --beside, or the program `validator`, puts it in their place
    ///
    /// It is made in directories .unsnap-ready of the accounts paths and of the snapshots'
    /// directory. As much space is needed as for another state.
    #[arg(long)]
    pub beside: bool,

    /// Do not keep second names of the storages, for repairs
    ///
    /// They take no space until the validator removes storages of the state: then those stay on
    /// the disk until the next state is prepared, or this one is withdrawn.
    #[arg(long)]
    pub no_shadow: bool,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub neighbour: NeighbourArgs,

    #[command(flatten)]
    pub removal: RemovalArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct LookAfterArgs {
    #[command(flatten)]
    pub places: PlacesArgs,

    /// How to print the result on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct WithdrawArgs {
    #[command(flatten)]
    pub look_after: LookAfterArgs,

    /// Take back only what lies ready beside; also while a validator is running
    #[arg(long)]
    pub beside: bool,
}

/// Where a validator keeps what: its own flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where the validator keeps what (its own flags)")]
pub struct PlacesArgs {
    /// The validator's ledger
    #[arg(long, short, value_name = "DIR")]
    pub ledger: PathBuf,

    /// Archives and states [default: the ledger]
    #[arg(long, value_name = "DIR")]
    pub snapshots: Option<PathBuf>,

    /// Full archives [default: that of the snapshots]
    #[arg(long, value_name = "DIR")]
    pub full_snapshot_archive_path: Option<PathBuf>,

    /// Incremental archives [default: that of the snapshots]
    #[arg(long, value_name = "DIR")]
    pub incremental_snapshot_archive_path: Option<PathBuf>,

    /// Accounts paths, over which storages are spread [default: accounts in the ledger]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub accounts: Vec<PathBuf>,
}

impl FastbootArgs {
    pub fn output_control(&self) -> OutputArgs {
        match &self.action {
            FastbootAction::Prepare(args) => args.output_control,
            FastbootAction::Status(args) | FastbootAction::Repair(args) => args.output_control,
            FastbootAction::Withdraw(args) => args.look_after.output_control,
        }
    }
}
