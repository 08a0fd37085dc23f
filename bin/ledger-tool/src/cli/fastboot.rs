//! Command line of `fastboot`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use unsnap_cli::{
    args::{
        FetchArgs, IoArgs, NeighbourArgs, OfferedArgs, OutputArgs, PeerArgs, RemovalArgs,
        ReportFormat, StateArgs,
    },
    validator::SourceArgs,
};

pub const FASTBOOT_EXAMPLES: &str = "\
Examples:
  Prepare the newest full and incremental archive of a ledger:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts

  The same while the validator is running, for its next start:
    ledger-tool fastboot prepare --beside \\
      --ledger /mnt/ledger --accounts /mnt/accounts

  See what a validator would find:
    ledger-tool fastboot status --ledger /mnt/ledger --accounts /mnt/accounts

  Restore storages that a crashed validator has removed:
    ledger-tool fastboot repair --ledger /mnt/ledger --accounts /mnt/accounts

  Let the validator unpack its archives itself:
    ledger-tool fastboot withdraw --ledger /mnt/ledger --accounts /mnt/accounts";

const PREPARE_EXAMPLES: &str = "\
Examples:
  Prepare the newest full and incremental archive of a ledger:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts

  What that would write, clear and keep:
    ledger-tool fastboot prepare --dry-run \\
      --ledger /mnt/ledger --accounts /mnt/accounts

  Accounts on two disks, and archives in a directory of their own:
    ledger-tool fastboot prepare --ledger /mnt/ledger \\
      --snapshots /mnt/snapshots --accounts /mnt/accounts,/mnt/accounts2

  The same while the validator is running, for its next start:
    ledger-tool fastboot prepare --beside \\
      --ledger /mnt/ledger --accounts /mnt/accounts \\
      --rate-limit 200MB --io-class idle

  Also verify that the accounts add up to the hash in the archives' names:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts \\
      --verify accounts";

const STATUS_EXAMPLES: &str = "\
Examples:
  See what a validator would find:
    ledger-tool fastboot status --ledger /mnt/ledger --accounts /mnt/accounts

  The same, in the directories of a unit's validator:
    ledger-tool fastboot status --from-unit sol.service

  In a script: the newest slot, unless its state is damaged (exit code 1)
    ledger-tool fastboot status --ledger /mnt/ledger --accounts /mnt/accounts \\
      --format json | jq '.states[0].slot'";

const REPAIR_EXAMPLES: &str = "\
Examples:
  Restore storages that a crashed validator has removed:
    ledger-tool fastboot repair --ledger /mnt/ledger --accounts /mnt/accounts";

const WITHDRAW_EXAMPLES: &str = "\
Examples:
  Let the validator unpack its archives itself:
    ledger-tool fastboot withdraw --ledger /mnt/ledger --accounts /mnt/accounts

  Withdraw only a state made with --beside, while the validator is running:
    ledger-tool fastboot withdraw --beside \\
      --ledger /mnt/ledger --accounts /mnt/accounts";

#[derive(Debug, Args)]
pub struct FastbootArgs {
    #[command(subcommand)]
    pub action: FastbootAction,
}

#[derive(Debug, Subcommand)]
pub enum FastbootAction {
    /// Make a state of the newest full archive and its newest incremental one
    ///
    /// First checks that the archives' bank files match their names and that the state will fit.
    /// Then removes older states and storages, as the validator would. Renames archives that prove
    /// bad, and takes the next best ones.
    ///
    /// A state that was prepared with --beside is adopted if it is whole and as new as the
    /// archives, which takes milliseconds.
    #[command(after_long_help = PREPARE_EXAMPLES)]
    Prepare(Box<PrepareArgs>),
    /// Show the existing states, and whether they are whole
    ///
    /// Also works while a validator is running. Exits with 1 if a validator would load a state and
    /// fail.
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status(LookAfterArgs),
    /// Restore the newest state from its shadow, or withdraw it
    ///
    /// Leaves a state that was prepared with --beside alone.
    #[command(after_long_help = REPAIR_EXAMPLES)]
    Repair(LookAfterArgs),
    /// Remove all states and their shadows; leave storages to the validator
    ///
    /// Also removes a state that was prepared with --beside, which would otherwise be adopted.
    #[command(after_long_help = WITHDRAW_EXAMPLES)]
    Withdraw(WithdrawArgs),
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag on the command line
pub struct PrepareArgs {
    #[command(flatten)]
    pub places: PlacesArgs,

    #[command(flatten)]
    pub state: StateArgs,

    #[command(flatten)]
    pub offered: OfferedArgs,

    /// Prepare the archives even if an existing state, in place or beside, is as new
    #[arg(long)]
    pub replace: bool,

    /// Prepare a state beside those of a validator, which may be running
    ///
    /// The state waits until `prepare` without --beside, or the program `validator`,
    /// adopts it. It is made in directories .unsnap-ready of the accounts paths and of the
    /// snapshots directory, and needs as much space as another state. If it is interrupted,
    /// repeat the command: complete storages of the full archive are kept.
    #[arg(long)]
    pub beside: bool,

    /// Only say what would be written, cleared and kept
    ///
    /// Changes nothing. Decodes the beginning of the archives, to check that their bank files match
    /// their names. Exits with the code that preparing would be refused with.
    #[arg(long)]
    pub dry_run: bool,

    /// Do not keep hard links to the storages for repairs
    ///
    /// The links take no space until the validator removes storages of the state. Those storages
    /// then stay on disk until the next state is prepared or this one is withdrawn.
    #[arg(long)]
    pub no_shadow: bool,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub peers: PeerArgs,

    #[command(flatten)]
    pub fetch: FetchArgs,

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

    /// Format of the result on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct WithdrawArgs {
    #[command(flatten)]
    pub look_after: LookAfterArgs,

    /// Withdraw only the state that was prepared with --beside; works while a validator is running
    #[arg(long)]
    pub beside: bool,
}

/// The validator's directories, by its own flags.
#[derive(Debug, Args)]
#[command(next_help_heading = "The validator's directories (its own flags)")]
pub struct PlacesArgs {
    /// Ledger directory
    #[arg(
        long,
        short,
        value_name = "DIR",
        required_unless_present_any = ["from_unit", "from_pid"]
    )]
    pub ledger: Option<PathBuf>,

    #[command(flatten)]
    pub source: SourceArgs,

    /// Directory of archives and states [default: the ledger]
    #[arg(long, value_name = "DIR")]
    pub snapshots: Option<PathBuf>,

    /// Directory of full archives [default: the snapshots directory]
    #[arg(long, value_name = "DIR")]
    pub full_snapshot_archive_path: Option<PathBuf>,

    /// Directory of incremental archives [default: the snapshots directory]
    #[arg(long, value_name = "DIR")]
    pub incremental_snapshot_archive_path: Option<PathBuf>,

    /// Accounts paths, which share the storages [default: accounts in the ledger]
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
