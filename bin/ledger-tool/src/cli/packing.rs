//! Command line of `repack`, `create`, `diff` and `accounts`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use unsnap_cli::args::{FetchArgs, IoArgs, OutputArgs, ReportFormat, VerifyArg};

use super::{shared::Layout, tables::FilterArgs};

pub const REPACK_EXAMPLES: &str = "\
Examples:
  Repack a snapshot, under its own name in another directory:
    ledger-tool repack snapshot-39-<HASH>.tar.zst --output /mnt/repacked

  In place, with a checksum in every frame and a table of the frames:
    ledger-tool repack snapshot-39-<HASH>.tar.zst --output . --force \\
      --checksums --seek-table

  Smaller, for an archive that is downloaded often:
    ledger-tool repack snapshot-39-<HASH>.tar.zst --output /mnt/repacked \\
      --level 9 --frame-size 32MiB";

pub const CREATE_EXAMPLES: &str = "\
Examples:
  Make an archive of an unpacked tree:
    ledger-tool create /mnt/ledger/unpacked --output /mnt/archives

  Make one of a state that a validator would start from:
    ledger-tool create /mnt/ledger/snapshots/39 --accounts /mnt/accounts \\
      --output /mnt/archives

  Also prove that no account is missing, before the archive gets its name:
    ledger-tool create /mnt/ledger/unpacked --output /mnt/archives \\
      --verify accounts

  Make an incremental archive of its unpacked tree:
    ledger-tool create /mnt/ledger/unpacked-47 --base-slot 39 \\
      --output /mnt/archives";

pub const DIFF_EXAMPLES: &str = "\
Examples:
  The number of changes between two snapshots:
    ledger-tool diff snapshot-39-<HASH>.tar.zst snapshot-139-<HASH>.tar.zst

  The changes that an incremental archive makes to its full one:
    ledger-tool diff snapshot-39-<HASH>.tar.zst snapshot-39-<HASH>.tar.zst \\
      --after-incremental incremental-snapshot-39-47-<HASH>.tar.zst

  The accounts that are new in the second:
    ledger-tool diff snapshot-39-<HASH>.tar.zst snapshot-139-<HASH>.tar.zst \\
      --format json-lines \\
      | jq -r 'select(.kind == \"account\" and .change == \"added\") | .pubkey'

  In a script, compare two archives (exit code 1 if they differ, 2 on failure):
    ledger-tool diff --exit-code --quiet \\
      snapshot-39-<HASH>.tar.zst /mnt/repacked/snapshot-39-<HASH>.tar.zst";

pub const ACCOUNTS_EXAMPLES: &str = "\
Examples:
  All existing accounts, as a table:
    ledger-tool accounts snapshot-39-<HASH>.tar.zst --newest --format csv

  The accounts of the stake program, with their data:
    ledger-tool accounts snapshot-39-<HASH>.tar.zst --newest --with-data \\
      --owner Stake11111111111111111111111111111111111111

  The accounts of a full archive and its incremental one together:
    ledger-tool accounts snapshot-39-<HASH>.tar.zst --newest --format json \\
      --incremental incremental-snapshot-39-47-<HASH>.tar.zst

  A look at the first records:
    ledger-tool accounts snapshot-39-<HASH>.tar.zst --format text --limit 10

  Records with more than a megabyte of data, older versions too:
    ledger-tool accounts snapshot-39-<HASH>.tar.zst --data-size 1000001..";

#[derive(Debug, Args)]
pub struct RepackArgs {
    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes); "-" is standard input
    pub archive: PathBuf,

    /// Existing directory, or the new archive's name in one (the old name, ending in .tar.zst)
    #[arg(long, short, value_name = "ARCHIVE|DIR")]
    pub output: PathBuf,

    #[command(flatten)]
    pub frames: FrameArgs,

    /// Entries that the archive may contain
    #[arg(long, value_enum, default_value = "snapshot")]
    pub layout: Layout,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Tree as made by `unpack`, or state: a directory SNAPSHOTS/SLOT
    pub directory: PathBuf,

    /// Existing directory, or the new archive's name in one (the name that the bank file gives)
    #[arg(long, short, value_name = "ARCHIVE|DIR")]
    pub output: PathBuf,

    /// Directories with the storages, if not accounts/ of the tree; for a state, its accounts paths
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub accounts: Vec<PathBuf>,

    /// Make an incremental archive that builds on the full snapshot of this slot
    #[arg(long, value_name = "SLOT")]
    pub base_slot: Option<u64>,

    /// Checks of the new archive, before it gets its name
    ///
    /// Reads and decodes the archive once more. Only `accounts` notices that a storage is missing;
    /// it needs the time of `ledger-tool verify`, and is possible for a full archive.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "structure")]
    pub verify: VerifyArg,

    /// With --verify accounts: memory for 16 bytes per record; more goes to an unnamed file in the
    /// directory for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = unsnap_cli::settings::parse_size)]
    pub verify_memory: Option<u64>,

    #[command(flatten)]
    pub frames: FrameArgs,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Archive that counts as the earlier one
    pub before: PathBuf,

    /// Archive that is compared with it
    pub after: PathBuf,

    /// Incremental archive that builds on BEFORE; both together count as the earlier snapshot
    #[arg(long, value_name = "ARCHIVE")]
    pub before_incremental: Option<PathBuf>,

    /// Incremental archive that builds on AFTER; both together count as the later snapshot
    #[arg(long, value_name = "ARCHIVE")]
    pub after_incremental: Option<PathBuf>,

    /// Format of the differences on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: DiffFormat,

    /// Exit with 0 if the snapshots are the same, 1 if they differ, 2 if the comparison failed
    #[arg(long)]
    pub exit_code: bool,

    /// Memory for 80 bytes per record of all archives; the rest goes to an unnamed file in the
    /// directory for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = unsnap_cli::settings::parse_size)]
    pub memory: Option<u64>,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// Numbers, for people
    Text,
    /// Numbers, as one object
    Json,
    /// Every difference, one object a line
    JsonLines,
}

#[derive(Debug, Args)]
pub struct AccountsArgs {
    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or
    /// https://); "-" is standard input
    pub archive: PathBuf,

    #[command(flatten)]
    pub filter: FilterArgs,

    /// Only the newest record of each account, if it has lamports; reads the archive twice
    #[arg(long)]
    pub newest: bool,

    /// Include the data, in base64
    #[arg(long)]
    pub with_data: bool,

    /// Incremental archive that builds on this one; list the records of both
    #[arg(long, value_name = "ARCHIVE")]
    pub incremental: Option<PathBuf>,

    /// List at most N records, and leave the rest of the archive unread and unchecked
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,

    /// Format of the records on standard output
    #[arg(long, value_enum, default_value = "json-lines")]
    pub format: AccountsFormat,

    /// With --newest: memory for 80 bytes per record; the rest goes to an unnamed file in the directory
    /// for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = unsnap_cli::settings::parse_size)]
    pub memory: Option<u64>,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccountsFormat {
    /// A table for people
    Text,
    /// Comma-separated values, with a line of names
    Csv,
    /// One array
    Json,
    /// One object a line
    JsonLines,
}

/// Form of a new archive.
#[derive(Debug, Args)]
#[command(next_help_heading = "Form of the new archive")]
pub struct FrameArgs {
    /// Most decoded bytes in a frame, 4MiB to 32MiB [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = unsnap_cli::settings::parse_size)]
    pub frame_size: Option<u64>,

    /// zstd level
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub level: i32,

    /// End every frame with a checksum of its content
    #[arg(long)]
    pub checksums: bool,

    /// Append a table of all frames (the zstd project's seekable format)
    #[arg(long)]
    pub seek_table: bool,

    /// Compressing threads [default: number of cores, at most 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// Replace an existing archive
    #[arg(long)]
    pub force: bool,
}
