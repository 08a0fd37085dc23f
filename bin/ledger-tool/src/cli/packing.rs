//! Archives that are written, listed or compared as a whole: what can be typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use unsnap_cli::args::{IoArgs, OutputArgs, ReportFormat};

use super::{Layout, Pubkey, parts::parse_pubkey};

pub const REPACK_EXAMPLES: &str = "\
Examples:
  Repack a snapshot, under its own name in another directory:
    ledger-tool repack snapshot-39-<HASH>.tar.zst --output /mnt/repacked

  Where it lies, with a checksum in every frame and a table of the frames:
    ledger-tool repack snapshot-39-<HASH>.tar.zst --output . --force \\
      --checksums --seek-table

  As small as is reasonable, for an archive that is fetched often:
    ledger-tool repack snapshot-39-<HASH>.tar.zst --output /mnt/repacked \\
      --level 9 --frame-size 32MiB";

pub const CREATE_EXAMPLES: &str = "\
Examples:
  Make an archive of what was unpacked:
    ledger-tool create /mnt/ledger/unpacked --output /mnt/archives

  Make one of the state that a validator would start from:
    ledger-tool create /mnt/ledger/snapshots/39 --accounts /mnt/accounts \\
      --output /mnt/archives

  Of what was unpacked of an incremental archive:
    ledger-tool create /mnt/ledger/unpacked-47 --base-slot 39 \\
      --output /mnt/archives";

pub const DIFF_EXAMPLES: &str = "\
Examples:
  What has changed between two snapshots, in numbers:
    ledger-tool diff snapshot-39-<HASH>.tar.zst snapshot-139-<HASH>.tar.zst

  The accounts that are new in the second:
    ledger-tool diff snapshot-39-<HASH>.tar.zst snapshot-139-<HASH>.tar.zst \\
      --format json-lines \\
      | jq -r 'select(.kind == \"account\" and .change == \"added\") | .pubkey'

  In a script: do two archives hold the same? (exit code 1 if not)
    ledger-tool diff --exit-code --quiet \\
      snapshot-39-<HASH>.tar.zst /mnt/repacked/snapshot-39-<HASH>.tar.zst";

pub const ACCOUNTS_EXAMPLES: &str = "\
Examples:
  All accounts that exist, as a table:
    ledger-tool accounts snapshot-39-<HASH>.tar.zst --newest --format csv

  What the stake program owns, with its data:
    ledger-tool accounts snapshot-39-<HASH>.tar.zst --newest --with-data \\
      --owner Stake11111111111111111111111111111111111111

  Records with more than a megabyte of data, older versions too:
    ledger-tool accounts snapshot-39-<HASH>.tar.zst --data-size 1000001..";

#[derive(Debug, Args)]
pub struct RepackArgs {
    /// The archive (.tar.zst, .tar.lz4 or .tar, told by its first bytes); "-" is standard input
    pub archive: PathBuf,

    /// The new archive, which has the same name but ends in .tar.zst, or the directory it goes to
    #[arg(long, short, value_name = "ARCHIVE|DIR")]
    pub output: PathBuf,

    #[command(flatten)]
    pub frames: FrameArgs,

    /// What the archive may contain
    #[arg(long, value_enum, default_value = "snapshot")]
    pub layout: Layout,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The tree, or the state: a directory SNAPSHOTS/SLOT
    pub directory: PathBuf,

    /// The archive, or the directory it goes to
    #[arg(long, short, value_name = "ARCHIVE|DIR")]
    pub output: PathBuf,

    /// Where the storages are, if they are not in accounts/ of the tree; of a state, the accounts paths
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub accounts: Vec<PathBuf>,

    /// Make an incremental archive upon the full one of this slot
    #[arg(long, value_name = "SLOT")]
    pub base_slot: Option<u64>,

    #[command(flatten)]
    pub frames: FrameArgs,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The archive that counts as the earlier one
    pub before: PathBuf,

    /// The archive that is compared with it
    pub after: PathBuf,

    /// How to print what is different on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: DiffFormat,

    /// Exit with 1 if they differ, and with 0 if they do not
    #[arg(long)]
    pub exit_code: bool,

    /// Memory for what is remembered of accounts, 80 bytes for each record of both; what is more goes
    /// to a file without a name in the directory for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub memory: Option<u64>,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// How many of each
    Text,
    /// How many of each, as one object
    Json,
    /// Everything that is different, one object a line
    JsonLines,
}

#[derive(Debug, Args)]
pub struct AccountsArgs {
    /// The archive (.tar.zst, .tar.lz4 or .tar, told by its first bytes); "-" is standard input
    pub archive: PathBuf,

    /// Only accounts of this owner; may be given several times
    #[arg(long, value_name = "PUBKEY", value_parser = parse_pubkey)]
    pub owner: Vec<Pubkey>,

    /// Only accounts with so many bytes of data: N, MIN..MAX, MIN.. or ..MAX, ends included
    #[arg(long, value_name = "N|RANGE", value_parser = crate::settings::parse_range)]
    pub data_size: Option<std::ops::RangeInclusive<u64>>,

    /// Only the newest version of each account, if it has lamports; reads the archive twice
    #[arg(long)]
    pub newest: bool,

    /// Data too, in base64
    #[arg(long)]
    pub with_data: bool,

    /// How to print accounts on standard output
    #[arg(long, value_enum, default_value = "json-lines")]
    pub format: AccountsFormat,

    /// With --newest: memory for what is remembered, 80 bytes for each record; what is more goes to a
    /// file without a name in the directory for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub memory: Option<u64>,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccountsFormat {
    /// Comma-separated values, with a line of names
    Csv,
    /// One object a line
    JsonLines,
}

/// How an archive is written.
#[derive(Debug, Args)]
#[command(next_help_heading = "How to write it")]
pub struct FrameArgs {
    /// The most a frame holds, 4MiB to 32MiB [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::settings::parse_size)]
    pub frame_size: Option<u64>,

    /// Level of zstd
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(i32).range(1..=22))]
    pub level: i32,

    /// End every frame in a checksum of its content
    #[arg(long)]
    pub checksums: bool,

    /// Add a table of all frames at the end (the zstd project's seekable format)
    #[arg(long)]
    pub seek_table: bool,

    /// Threads that compress [default: as many as there are cores, at most 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// Replace what is there
    #[arg(long)]
    pub force: bool,
}
