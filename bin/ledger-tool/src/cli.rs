//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
pub use unsnap_cli::args::{FastbootFormatArg, IoArgs, OutputArgs, ReportFormat, VerifyArg};
use unsnap_unpack::Digest;

use crate::{
    bench::{self, BenchArgs},
    doctor::{self, DoctorArgs},
};

/// Unpacks and examines a validator's snapshot archives
///
/// Exit codes: 0 done; 1 bad archive; 2 usage; 3 environment (disk full, I/O error, a limit);
/// 4 destination not clean or locked; 130 interrupted, 143 terminated. Unless the exit code is 0,
/// the destination is as it was.
#[derive(Debug, Parser)]
#[command(name = "ledger-tool", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Unpack an archive into a durable directory
    ///
    /// The files appear under their final name only when every one of them is complete and on the
    /// disk. After any failure or interruption the destination is as it was.
    #[command(after_long_help = UNPACK_EXAMPLES)]
    Unpack(UnpackArgs),
    /// List an archive's entries
    ///
    /// Reads the whole archive and proves its end, as unpacking does, but accepts any tar.
    #[command(after_long_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Check that an archive holds what its name says
    ///
    /// Reads and decodes the whole archive, proves its end, and adds up the hashes of all accounts:
    /// they must give the hash in the archive's name, and their lamports the capitalization in its
    /// bank file. Nothing is written, but what does not fit into memory.
    #[command(after_long_help = VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Prepare what a validator starts from without unpacking, or look after it
    ///
    /// A validator of Agave 4.2 or later that is told to (--use-snapshot-archives-at-startup
    /// when-newest, its default) starts from a state instead of the archives: a directory
    /// snapshots/SLOT with the storages in the accounts paths. All of this is refused while a
    /// validator is running on the ledger; to be run as its user.
    #[command(after_long_help = FASTBOOT_EXAMPLES)]
    Fastboot(FastbootArgs),
    /// Say what makes unsnap slow or unsafe on this machine, and what to do about it
    ///
    /// Looks at the kernel, io_uring, limits, control groups, processors and memory, and for each path
    /// at the file system, direct I/O, space and the disk's queue. Each check has a verdict: ok; note
    /// (worth knowing, unsnap is neither slower nor less safe for it); warning (unsnap is slower or
    /// less safe than it could be on such a machine); problem (unsnap would fail, or what it reports as
    /// durable might not be). Exit code 3 if there is a warning or a problem, 0 otherwise. Nothing is
    /// written but, in the directories given, a file of 4 KiB without a name.
    #[command(after_long_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Measure what limits unpacking on this machine, and which flags make it faster
    ///
    /// Unpacks an archive again and again, cold, in each way that may be worth a flag, and reads,
    /// decodes and writes the same alone, in rounds of all of them. Says what limits a run, how far it
    /// is from that stage alone, and which flags to use. Everything that is made is removed, also
    /// after an interruption. It takes a minute or a few, which is told before; meanwhile the disk
    /// and the processors are busy.
    #[command(after_long_help = bench::EXAMPLES)]
    Bench(BenchArgs),
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  Is this the snapshot that its name says?
    ledger-tool verify snapshot-39-<HASH>.tar.zst

  An incremental archive holds what has changed since its full one, and its name both:
    ledger-tool verify snapshot-39-<HASH>.tar.zst --incremental incremental-snapshot-39-47-<HASH>.tar.zst";

const FASTBOOT_EXAMPLES: &str = "\
Examples:
  Prepare the newest full and incremental archive of a ledger:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts

  See what a validator would find:
    ledger-tool fastboot status --ledger /mnt/ledger --accounts /mnt/accounts

  Put back what a validator that crashed has removed:
    ledger-tool fastboot repair --ledger /mnt/ledger --accounts /mnt/accounts

  Have the validator unpack its archives itself, after all:
    ledger-tool fastboot withdraw --ledger /mnt/ledger --accounts /mnt/accounts";

const UNPACK_EXAMPLES: &str = "\
Examples:
  Unpack a snapshot:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --output /mnt/ledger/unpacked

  Put the account files on a disk of their own:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --output /mnt/ledger/unpacked --accounts /mnt/accounts/run

  Unpack while downloading:
    curl --fail --silent <URL> | ledger-tool unpack - --output /mnt/ledger/unpacked

  Only check that an archive is whole:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --dry-run

  Go on after an interruption:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --output /mnt/ledger/unpacked --resume

  Only take exactly this archive, and list what was in it:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --output /mnt/ledger/unpacked \\
      --expect-digest blake3:<HEX> --manifest files.jsonl";

const LIST_EXAMPLES: &str = "\
Examples:
  Names and sizes:
    ledger-tool list snapshot-39-<HASH>.tar.zst

  The ten largest account files:
    ledger-tool list snapshot-39-<HASH>.tar.zst --format json-lines | jq -r '[.size, .path] | @tsv' | sort -n | tail";

#[derive(Debug, Args)]
pub struct UnpackArgs {
    /// The archive (.tar.zst, .tar.lz4 or .tar, told by its first bytes); "-" is standard input
    pub archive: PathBuf,

    /// Directory that will hold the archive's tree; absent or empty, its parent must exist
    #[arg(long, short, value_name = "DIR", required_unless_present = "dry_run")]
    pub output: Option<PathBuf>,

    /// Directories that take the account files instead of accounts/ in the output, spread by size
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub accounts: Vec<PathBuf>,

    /// What the archive may contain
    #[arg(long, value_enum, default_value = "snapshot")]
    pub layout: Layout,

    /// Do everything but create files: a full structural check
    #[arg(long)]
    pub dry_run: bool,

    /// Go on where an interrupted run stood, and stay resumable
    ///
    /// What an interrupted run has made durable is checked and used. If it is damaged, unpacking
    /// begins anew; if it is of another archive or for other destinations, the run is refused. If this run is interrupted as well, it leaves what it
    /// has done beside the destination, for the next one with --resume. A run that was killed, or
    /// whose machine went down, can be resumed whether or not it had this flag.
    #[arg(long, conflicts_with = "dry_run")]
    pub resume: bool,

    /// Bytes of files after which progress is made durable, for --resume [default: 16GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub checkpoint_every: Option<u64>,

    /// Digest of the whole archive for the report, computed while it is read
    #[arg(long, value_enum, value_name = "KIND", default_value = "xxh3")]
    pub digest: DigestArg,

    /// What the digest of the archive must be, "blake3:" and hexadecimal digits, say; otherwise nothing is published
    #[arg(long, value_name = "DIGEST")]
    pub expect_digest: Option<Digest>,

    /// File that takes name, size and digest of every file, as lines of JSON
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,

    /// What is checked of a snapshot's content while it passes by
    #[arg(long, value_enum, value_name = "WHAT", default_value = "structure")]
    pub verify: VerifyArg,

    /// With --verify accounts: memory for what is remembered of accounts, 16 bytes for each record;
    /// what is more goes to a file without a name beside the files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub verify_memory: Option<u64>,

    /// Unpack even if it does not seem to fit, and go on until a disk is full
    #[arg(long)]
    pub no_preflight: bool,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// The archive (.tar.zst, .tar.lz4 or .tar, told by its first bytes); "-" is standard input
    pub archive: PathBuf,

    /// How to print the entries on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ListFormat,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// Exactly what a validator's snapshot contains
    Snapshot,
    /// Files and directories under any safe relative path
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DigestArg {
    /// 128 bits, finds damage; as xxhsum -H2 prints it
    Xxh3,
    /// 256 bits, cannot be forged; as b3sum prints it
    Blake3,
    /// None
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    Text,
    /// One array
    Json,
    /// One object a line
    JsonLines,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The archive of a full snapshot, under its own name
    pub archive: PathBuf,

    /// The archive of an incremental snapshot upon it
    #[arg(long, value_name = "ARCHIVE")]
    pub incremental: Option<PathBuf>,

    /// What is checked beyond the archive itself
    #[arg(long, value_enum, value_name = "WHAT", default_value = "accounts")]
    pub verify: VerifyArg,

    /// Memory for what is remembered of accounts, 16 bytes for each record; what is more goes to a
    /// file without a name in the directory for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub verify_memory: Option<u64>,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

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
    Prepare(PrepareArgs),
    /// Say what states there are, and whether they are whole
    ///
    /// Exit code 1 if a validator would load a state and fail.
    Status(LookAfterArgs),
    /// Make the newest state whole again from its shadow, or withdraw it
    Repair(LookAfterArgs),
    /// Take all states and their shadows back; storages are left to the validator
    Withdraw(LookAfterArgs),
}

#[derive(Debug, Args)]
pub struct PrepareArgs {
    #[command(flatten)]
    pub places: PlacesArgs,

    /// What is checked of the archives' content while it passes by
    #[arg(long, value_enum, value_name = "WHAT", default_value = "structure")]
    pub verify: VerifyArg,

    /// With --verify accounts: memory for what is remembered of accounts, 16 bytes for each record;
    /// what is more goes to a file without a name beside the files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub verify_memory: Option<u64>,

    /// Form of the list of storages; auto is 3, which Agave 4.2 to 4.5 read
    #[arg(long, value_enum, value_name = "VERSION", default_value = "auto")]
    pub fastboot_format: FastbootFormatArg,

    /// Prepare the archives even if there is a state as new as they are
    #[arg(long)]
    pub replace: bool,

    /// Do not keep second names of the storages, for repairs
    ///
    /// They take no space until the validator removes storages of the state: then those stay on
    /// the disk until the next state is prepared, or this one is withdrawn.
    #[arg(long)]
    pub no_shadow: bool,

    /// Unpack even if it does not seem to fit, and go on until a disk is full
    #[arg(long)]
    pub no_preflight: bool,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub io: IoArgs,

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
    fn output_control(&self) -> &OutputArgs {
        match &self.action {
            FastbootAction::Prepare(args) => &args.output_control,
            FastbootAction::Status(args)
            | FastbootAction::Repair(args)
            | FastbootAction::Withdraw(args) => &args.output_control,
        }
    }
}

impl Command {
    pub fn output_control(&self) -> &OutputArgs {
        match self {
            Self::Verify(args) => &args.output_control,
            Self::Fastboot(args) => args.output_control(),
            Self::Unpack(args) => &args.output_control,
            Self::List(args) => &args.output_control,
            Self::Doctor(args) => &args.output_control,
            Self::Bench(args) => &args.output_control,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use unsnap_cli::args::DirectIo;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn direct_io_without_a_value_means_on() {
        let parse = |flags: &[&str]| {
            let words = ["ledger-tool", "unpack", "a", "--output", "b"].iter().chain(flags);
            match Cli::try_parse_from(words).unwrap().command {
                Command::Unpack(args) => args.io.use_direct_io,
                _ => unreachable!(),
            }
        };
        assert_eq!(parse(&[]), DirectIo::Auto);
        assert_eq!(parse(&["--use-direct-io"]), DirectIo::On);
        assert_eq!(parse(&["--use-direct-io=off"]), DirectIo::Off);
    }
}
