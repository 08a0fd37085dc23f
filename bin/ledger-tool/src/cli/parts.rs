//! Command line of `inspect`, `extract` and `index`.

use std::{ops::RangeInclusive, path::PathBuf};

use clap::{Args, ValueEnum};
use unsnap_cli::args::{FetchArgs, IoArgs, OutputArgs, ReportFormat};

use super::shared::{IndexArgs, Layout, Pubkey, parse_pubkey, parse_slots};

/// [`ReadOptions::COALESCE_GAP`](unsnap_index::ReadOptions::COALESCE_GAP), as a user types it.
const COALESCE_GAP: &str = "48KiB";

pub const INSPECT_EXAMPLES: &str = "\
Examples:
  Identify an archive:
    ledger-tool inspect snapshot-39-<HASH>.tar.zst

  Slot and capitalization, for a script:
    ledger-tool inspect snapshot-39-<HASH>.tar.zst --format json \\
      | jq '.bank.slot, .bank.capitalization'

  Everything, with the ten programs that own the most data:
    ledger-tool inspect snapshot-39-<HASH>.tar.zst --storages --owners 10";

pub const EXTRACT_EXAMPLES: &str = "\
Examples:
  Only the bank file and the status cache:
    ledger-tool extract snapshot-39-<HASH>.tar.zst --entry 'snapshots/**' \\
      --output /tmp/bank

  The storages of some slots:
    ledger-tool extract snapshot-39-<HASH>.tar.zst --slot 17..20 \\
      --output /tmp/storages

  One file, on standard output:
    ledger-tool extract snapshot-39-<HASH>.tar.zst --entry version --output -

  An account, as it was at the slot of the incremental snapshot:
    ledger-tool extract snapshot-39-<HASH>.tar.zst \\
      --account SysvarC1ock11111111111111111111111111111111 \\
      --incremental incremental-snapshot-39-47-<HASH>.tar.zst --format json";

pub const INDEX_EXAMPLES: &str = "\
Examples:
  Index an archive, then extract a file without reading the rest:
    ledger-tool index snapshot-39-<HASH>.tar.zst
    ledger-tool extract snapshot-39-<HASH>.tar.zst --entry version --output -

  Check the index against the whole archive (exit code 1 if they differ):
    ledger-tool index snapshot-39-<HASH>.tar.zst
    ledger-tool inspect snapshot-39-<HASH>.tar.zst --check-index";

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or
    /// https://)
    pub archive: PathBuf,

    /// Examine all storages; reads the whole archive, unless it has an index
    #[arg(long)]
    pub storages: bool,

    /// List the N programs that own the most data; reads the whole archive
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub owners: Option<u32>,

    /// Examine all frames; a small read for each 128 KiB of decoded data, unless the archive has an
    /// index or a seek table; at an address, receives the whole archive
    #[arg(long)]
    pub frames: bool,

    /// Format of the result on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub index: IndexArgs,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct ExtractArgs {
    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or
    /// https://)
    pub archive: PathBuf,

    /// Pattern of entries to extract: *, ?, sets in brackets, and ** for any directories
    #[arg(long, value_name = "GLOB", conflicts_with = "account")]
    pub entry: Vec<String>,

    /// Slots whose storages to extract or, with --account, to search: N, MIN..MAX, MIN.. or ..MAX,
    /// ends included
    ///
    /// A range may also be written MIN-MAX, MIN- or -MAX.
    #[arg(long, value_name = "N|RANGE", value_parser = parse_slots,
        allow_hyphen_values = true)]
    pub slot: Vec<RangeInclusive<u64>>,

    /// Account to print on standard output, in its newest version
    ///
    /// Searches the whole archive with as many threads as decode, unless there is an index and
    /// --slot limits the search.
    #[arg(long, value_name = "PUBKEY", value_parser = parse_pubkey)]
    pub account: Vec<Pubkey>,

    /// With --account: archive of an incremental snapshot that builds on this one
    #[arg(long, value_name = "ARCHIVE", requires = "account")]
    pub incremental: Option<PathBuf>,

    /// Output directory: created if absent, otherwise empty; its parent must exist. "-" prints a
    /// single entry on standard output
    #[arg(
        long,
        short,
        value_name = "DIR",
        required_unless_present = "account",
        conflicts_with = "account"
    )]
    pub output: Option<PathBuf>,

    /// Format of accounts, and of the report about entries
    #[arg(long, value_enum, default_value = "text")]
    pub format: ExtractFormat,

    /// Largest gap between two wanted frames to read through, which saves a read
    #[arg(long, value_name = "SIZE", default_value = COALESCE_GAP, value_parser = unsnap_cli::settings::parse_size)]
    pub coalesce_gap: u64,

    /// Entries that the archive may contain
    #[arg(long, value_enum, default_value = "snapshot")]
    pub layout: Layout,

    #[command(flatten)]
    pub index: IndexArgs,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct IndexMakeArgs {
    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or
    /// https://)
    pub archive: PathBuf,

    /// Directory for the index [default: that of the archive; for an address, the working directory]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExtractFormat {
    /// For people
    Text,
    /// For programs; an account's data in hexadecimal
    Json,
    /// Only the data, of a single account
    Raw,
}

#[cfg(test)]
mod tests {
    use unsnap_index::ReadOptions;

    use super::*;

    #[test]
    fn the_default_gap_is_the_measured_one() {
        assert_eq!(unsnap_cli::settings::parse_size(COALESCE_GAP), Ok(ReadOptions::COALESCE_GAP));
    }
}
