//! Command line of `unpack`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use unsnap_cli::args::{
    FetchArgs, IoArgs, NeighbourArgs, OutputArgs, PeerArgs, PreflightArgs, ReportFormat, VerifyArg,
};
use unsnap_source::Digest;

use super::shared::{IndexArgs, Layout};

pub const UNPACK_EXAMPLES: &str = "\
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

  Beside a validator, which keeps priority on the disk and the processors:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst \\
      --output /mnt/ledger/unpacked \\
      --rate-limit 200MB --io-class idle --nice 10 --cpus 0-3

  Continue after an interruption:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst \\
      --output /mnt/ledger/unpacked --resume

  Accept only exactly this archive, and list its files:
    ledger-tool unpack snapshot-39-<HASH>.tar.zst \\
      --output /mnt/ledger/unpacked --digest blake3 \\
      --expect-digest blake3:<HEX> --manifest files.jsonl";

#[derive(Debug, Args)]
pub struct UnpackArgs {
    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or
    /// https://); "-" is standard input
    #[arg(
        required_unless_present = "peer",
        conflicts_with_all = ["peer", "agree"]
    )]
    pub archive: Option<PathBuf>,

    /// Incremental archive that builds on this one; with --dry-run, both are checked
    ///
    /// A full and an incremental archive together become a validator's state, not a tree: see
    /// `ledger-tool fastboot prepare`.
    #[arg(long, value_name = "ARCHIVE", conflicts_with = "peer")]
    pub incremental: Option<PathBuf>,

    /// Output directory: created if absent, otherwise empty; its parent must exist
    #[arg(long, short, value_name = "DIR", required_unless_present = "dry_run")]
    pub output: Option<PathBuf>,

    /// Directories for the account files instead of accounts/ in the output; files are spread by
    /// size
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub accounts: Vec<PathBuf>,

    /// Entries that the archive may contain
    #[arg(long, value_enum, default_value = "snapshot")]
    pub layout: Layout,

    /// Check the archive completely, and create nothing
    ///
    /// With --output also check that the directory could be used and that the files would fit.
    #[arg(long)]
    pub dry_run: bool,

    /// Continue an interrupted run, and stay resumable
    ///
    /// Checks and keeps the files that the interrupted run made durable. If they are damaged,
    /// unpacking starts over. If they belong to another archive or to other destinations, the run
    /// is refused. If this run is interrupted as well, it leaves its files beside the destination
    /// for the next run with --resume. A run that was killed, or whose machine went down, can be
    /// resumed whether or not it had this flag.
    #[arg(long, conflicts_with_all = ["dry_run", "peer"])]
    pub resume: bool,

    /// Bytes of files between two checkpoints for --resume [default: 16GiB]
    #[arg(long, value_name = "SIZE", value_parser = unsnap_cli::settings::parse_size)]
    pub checkpoint_every: Option<u64>,

    /// Digest of the whole archive in the report
    #[arg(long, value_enum, value_name = "KIND", default_value = "xxh3")]
    pub digest: DigestArg,

    /// Expected digest of the archive, such as blake3:HEX; any other archive is refused
    #[arg(long, value_name = "DIGEST")]
    pub expect_digest: Option<Digest>,

    /// Write the name, size and digest of every file to FILE, as lines of JSON; "-" is standard
    /// output
    ///
    /// An existing file is refused without --force; one that is empty, or that a run to be resumed
    /// has left, is taken. With "-" the manifest is printed when everything is durable, and the
    /// report goes to standard error.
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,

    /// Replace an existing manifest
    #[arg(long, requires = "manifest")]
    pub force: bool,

    /// Checks of the snapshot's content
    #[arg(long, value_enum, value_name = "WHAT", default_value = "structure")]
    pub verify: VerifyArg,

    /// With --verify accounts: memory for 16 bytes per record; the rest goes to an unnamed file beside
    /// the output [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = unsnap_cli::settings::parse_size)]
    pub verify_memory: Option<u64>,

    #[command(flatten)]
    pub preflight: PreflightArgs,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub index: IndexArgs,

    #[command(flatten)]
    pub peers: PeerArgs,

    #[command(flatten)]
    pub fetch: FetchArgs,

    /// Also keep the archive from the network in DIR, under its name
    ///
    /// The file gets its name when the archive is proven and everything is durable. If the disk has no
    /// room for it beside the unpacked files, it is given up, and unpacking goes on.
    #[arg(long, value_name = "DIR", help_heading = "Network options")]
    pub tee: Option<PathBuf>,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub neighbour: NeighbourArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DigestArg {
    /// 128 bits; detects damage; as xxhsum -H2 prints it
    Xxh3,
    /// 256 bits; cannot be forged; as b3sum prints it
    Blake3,
    /// No digest
    None,
}
