//! What can be typed.

mod fastboot;
mod packing;
mod parts;
mod shell;
mod whole;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
pub use unsnap_cli::args::{
    IoArgs, NeighbourArgs, OutputArgs, PreflightArgs, ReportFormat, VerifyArg,
};
use unsnap_source::Digest;

use crate::{
    bench::{self, BenchArgs},
    doctor::{self, DoctorArgs},
    service::args::{SERVICE_EXAMPLES, ServiceArgs},
};
pub use fastboot::{FastbootAction, FastbootArgs, LookAfterArgs, PlacesArgs, PrepareArgs};
pub use packing::{
    AccountsArgs, AccountsFormat, CreateArgs, DiffArgs, DiffFormat, FrameArgs, RepackArgs,
};
pub use parts::{ExtractArgs, ExtractFormat, IndexArgs, IndexMakeArgs, InspectArgs, Pubkey};
pub use shell::{CompletionsArgs, ManArgs};
pub use whole::{ListArgs, ListFormat, VerifyArgs};

/// Unpacks and examines a validator's snapshot archives
///
/// Exit codes: 0 done; 1 bad archive; 2 usage; 3 environment (disk full, I/O error, a limit);
/// 4 destination not clean or locked; 130 interrupted, 143 terminated. Unless the exit code is 0,
/// the destination is as it was.
#[derive(Debug, Parser)]
#[command(name = "ledger-tool", version, propagate_version = true, max_term_width = 100,
    after_long_help = EXAMPLES)]
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
    Unpack(Box<UnpackArgs>),
    /// List an archive's entries
    ///
    /// Reads the whole archive and proves its end, as unpacking does, but accepts any tar. If the archive
    /// has an index (`ledger-tool index`), that is listed, and the archive is not read.
    #[command(after_long_help = whole::LIST_EXAMPLES)]
    List(ListArgs),
    /// Say what an archive is: its frames, who has made it, what its bank file says
    ///
    /// Reads the headers and what holds the bank file, which a validator puts first, and says what it
    /// has not looked at. Exit code 1 if the bank file is not that of the archive's name.
    #[command(after_long_help = parts::INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Take single entries or accounts out of an archive
    ///
    /// Entries appear in the directory when all of them are complete and on the disk. With an index
    /// (`ledger-tool index`) only the frames that hold them are read and decoded; without, the archive
    /// is gone through.
    #[command(after_long_help = parts::EXTRACT_EXAMPLES)]
    Extract(ExtractArgs),
    /// Write down where everything is in an archive, beside it
    ///
    /// Goes through all of the archive once, proves its end, and writes ARCHIVE.unsnap-index: its frames,
    /// its entries, and its digest. unpack, list, inspect and extract use it when it is there: unpack to
    /// know exactly what it will write.
    #[command(after_long_help = parts::INDEX_EXAMPLES)]
    Index(IndexMakeArgs),
    /// Check that an archive holds what its name says
    ///
    /// Reads and decodes the whole archive, proves its end, and adds up the hashes of all accounts:
    /// they must give the hash in the archive's name, and their lamports the capitalization in its
    /// bank file. Nothing is written, but what does not fit into memory.
    #[command(after_long_help = whole::VERIFY_EXAMPLES)]
    Verify(VerifyArgs),
    /// Write an archive's content into frames that any number of threads can unpack
    ///
    /// Archives of one zstd frame (Agave up to 4.2) and of lz4 are unpacked by one thread. Repacked,
    /// they begin a frame with every entry that does not fit into the one before, and every frame says
    /// how much it holds. The tar stream inside is the same, byte for byte: each frame is decoded again
    /// and compared before it is written. Validators, `zstd -d` and Firedancer read the result. What
    /// `unpack --dry-run` refuses is refused.
    #[command(after_long_help = packing::REPACK_EXAMPLES)]
    Repack(RepackArgs),
    /// Make an archive of a directory
    ///
    /// The directory is a tree as `unpack` makes it, or a state as `fastboot prepare` makes it, whose
    /// storages are in the accounts paths. The archive's name follows from the bank file. Entries and
    /// headers are those of a validator; storages come in the order of their slots. A file that
    /// changes meanwhile is an error: nothing may be running there. That the accounts add up to the
    /// hash in the name, `verify` tells.
    #[command(after_long_help = packing::CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// Say which storages and accounts are different in two archives
    ///
    /// Storages are compared by slot, and accounts by the newest version that each archive has of
    /// them. Reads both archives whole, one after the other; nothing is told before both have proven
    /// to be whole. The exit code is 0 whether or not they differ, unless --exit-code is given.
    #[command(after_long_help = packing::DIFF_EXAMPLES)]
    Diff(DiffArgs),
    /// List the accounts of an archive
    ///
    /// Every record of every storage, in the order of the archive, or only those that are wanted.
    /// What is listed may be taken for good when the exit code is 0.
    #[command(after_long_help = packing::ACCOUNTS_EXAMPLES)]
    Accounts(AccountsArgs),
    /// Prepare what a validator starts from without unpacking, or look after it
    ///
    /// A validator of Agave 4.2 or later that is told to (--use-snapshot-archives-at-startup
    /// when-newest, its default) starts from a state instead of the archives: a directory
    /// snapshots/SLOT with the storages in the accounts paths. All of this is refused while a
    /// validator is running on the ledger; to be run as its user.
    #[command(after_long_help = fastboot::FASTBOOT_EXAMPLES)]
    Fastboot(FastbootArgs),
    /// Ask the service unpackd how it stands, or tell it what to do
    ///
    /// Exit codes: 1 the archive is bad; 2 there is no such job or target, or the new configuration is
    /// bad; 3 the service cannot be reached, or refuses; 4 it is busy.
    #[command(after_long_help = SERVICE_EXAMPLES)]
    Service(ServiceArgs),
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
    /// Print what a shell needs to complete command lines of ledger-tool
    ///
    /// The Debian package installs it for all programs; this is for whoever has built from source.
    #[command(after_long_help = shell::COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print a manual page
    ///
    /// In the form that man(1) reads. The Debian package installs the pages of all programs.
    #[command(after_long_help = shell::MAN_EXAMPLES)]
    Man(ManArgs),
}

const EXAMPLES: &str = "\
Examples:
  Unpack a snapshot:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --output /mnt/ledger/unpacked

  What is this archive?
    ledger-tool inspect snapshot-39-<HASH>.tar.zst

  Prepare what a validator starts from, without its unpacking anything:
    ledger-tool fastboot prepare --ledger /mnt/ledger --accounts /mnt/accounts";

const UNPACK_EXAMPLES: &str = "\
Examples:
  Unpack a snapshot:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --output /mnt/ledger/unpacked

  Put the account files on a disk of their own:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst \\
      --output /mnt/ledger/unpacked --accounts /mnt/accounts/run

  Unpack while downloading:
    curl --fail --silent <URL> \\
      | ledger-tool unpack - --output /mnt/ledger/unpacked

  Only check that an archive is whole:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst --dry-run

  Beside a validator, leaving the disk and the processors to it:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst \\
      --output /mnt/ledger/unpacked \\
      --rate-limit 200MB --io-class idle --nice 10 --cpus 0-3

  Go on after an interruption:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst \\
      --output /mnt/ledger/unpacked --resume

  Only take exactly this archive, and list what was in it:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst \\
      --output /mnt/ledger/unpacked --digest blake3 \\
      --expect-digest blake3:<HEX> --manifest files.jsonl";

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

    #[command(flatten)]
    pub preflight: PreflightArgs,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub index: IndexArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub neighbour: NeighbourArgs,

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

impl Command {
    pub fn output_control(&self) -> OutputArgs {
        match self {
            Self::Verify(args) => args.output_control,
            Self::Repack(args) => args.output_control,
            Self::Create(args) => args.output_control,
            Self::Diff(args) => args.output_control,
            Self::Accounts(args) => args.output_control,
            Self::Fastboot(args) => args.output_control(),
            Self::Service(args) => args.action.ask().output_control,
            Self::Unpack(args) => args.output_control,
            Self::Inspect(args) => args.output_control,
            Self::Extract(args) => args.output_control,
            Self::Index(args) => args.output_control,
            Self::List(args) => args.output_control,
            Self::Doctor(args) => args.output_control,
            Self::Bench(args) => args.output_control,
            // Nothing but what is asked for is told.
            Self::Completions(_) | Self::Man(_) => OutputArgs::default(),
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
