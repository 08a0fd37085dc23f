//! What can be typed after `inspect`, `extract` and `index`.

use std::{ops::RangeInclusive, path::PathBuf};

use clap::{Args, ValueEnum};
use unsnap_cli::args::{IoArgs, OutputArgs, ReportFormat};
use unsnap_layout::ArchiveHash;
use unsnap_pass::IndexUse;

/// [`unsnap_unpack::ReadOptions::COALESCE_GAP`], as it is typed.
const COALESCE_GAP: &str = "48KiB";

pub const INSPECT_EXAMPLES: &str = "\
Examples:
  What is this?
    ledger-tool inspect snapshot-39-<HASH>.tar.zst

  Slot and capitalization, for a script:
    ledger-tool inspect snapshot-39-<HASH>.tar.zst --format json \\
      | jq '.bank.slot, .bank.capitalization'

  Everything, the ten programs that own the most data included:
    ledger-tool inspect snapshot-39-<HASH>.tar.zst --storages --owners 10";

pub const EXTRACT_EXAMPLES: &str = "\
Examples:
  Only the bank file and the status cache:
    ledger-tool extract snapshot-39-<HASH>.tar.zst --entry 'snapshots/**' \\
      --output /tmp/bank

  The storages of some slots:
    ledger-tool extract snapshot-39-<HASH>.tar.zst --slot 17-20 \\
      --output /tmp/storages

  One file, to be looked at:
    ledger-tool extract snapshot-39-<HASH>.tar.zst --entry version --output -

  An account, as it was at the slot of the incremental snapshot:
    ledger-tool extract snapshot-39-<HASH>.tar.zst \\
      --account SysvarC1ock11111111111111111111111111111111 \\
      --incremental incremental-snapshot-39-47-<HASH>.tar.zst --format json";

pub const INDEX_EXAMPLES: &str = "\
Examples:
  Make the index of an archive, and then take a file out of it at once:
    ledger-tool index snapshot-39-<HASH>.tar.zst
    ledger-tool extract snapshot-39-<HASH>.tar.zst --entry version --output -

  Is the index still that of the archive, to the last byte? (exit code 1 if not)
    ledger-tool index snapshot-39-<HASH>.tar.zst
    ledger-tool inspect snapshot-39-<HASH>.tar.zst --check-index";

/// Whether the index beside an archive is used.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "The archive's index (see `ledger-tool index`)")]
pub struct IndexArgs {
    /// Do not look at the archive's index, ARCHIVE.unsnap-index, nor at a seek table at its end
    #[arg(long, conflicts_with = "check_index")]
    pub no_index: bool,

    /// Use the index only if the archive has the digest that it says, and fail otherwise
    ///
    /// All bytes of the archive are read for that. Without this flag its size and 64 blocks of it must
    /// be right; an index that is not is passed over with a warning.
    #[arg(long)]
    pub check_index: bool,
}

impl IndexArgs {
    /// For a `Config`.
    pub fn index_use(self) -> IndexUse {
        match (self.no_index, self.check_index) {
            (true, _) => IndexUse::Ignore,
            (false, true) => IndexUse::Proven,
            (false, false) => IndexUse::Auto,
        }
    }
}

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The archive (.tar.zst, .tar.lz4 or .tar, told by its first bytes)
    pub archive: PathBuf,

    /// Look at all storages: goes through all of the archive, unless it has an index
    #[arg(long)]
    pub storages: bool,

    /// Tell which programs own the most data, so many of them: goes through all of the archive
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub owners: Option<u32>,

    /// Look at all frames: a small read for each 128 KiB of decoded data, unless the archive has an
    /// index or a seek table
    #[arg(long)]
    pub frames: bool,

    /// How to print the result on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

    #[command(flatten)]
    pub index: IndexArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct ExtractArgs {
    /// The archive (.tar.zst, .tar.lz4 or .tar, told by its first bytes)
    pub archive: PathBuf,

    /// Entries to take out, as a pattern: *, ?, sets in brackets, and ** for any directories
    #[arg(long, value_name = "GLOB", conflicts_with = "account")]
    pub entry: Vec<String>,

    /// Slots whose storages to take out; with --account, to look for it in: 17, 17-20, 17- or -20
    #[arg(long, value_name = "RANGE", value_parser = parse_slots, allow_hyphen_values = true)]
    pub slot: Vec<RangeInclusive<u64>>,

    /// Account to take out, in its newest version; to standard output
    ///
    /// Goes through all of the archive, on as many threads as decode, unless there is an index and --slot
    /// says where to look.
    #[arg(long, value_name = "PUBKEY", value_parser = parse_pubkey)]
    pub account: Vec<Pubkey>,

    /// With --account: the archive of an incremental snapshot upon this one
    #[arg(long, value_name = "ARCHIVE", requires = "account")]
    pub incremental: Option<PathBuf>,

    /// Directory for entries, absent or empty, its parent must exist; "-" writes a single entry to
    /// standard output
    #[arg(
        long,
        short,
        value_name = "DIR",
        required_unless_present = "account",
        conflicts_with = "account"
    )]
    pub output: Option<PathBuf>,

    /// How accounts are printed, and what is said about entries
    #[arg(long, value_enum, default_value = "text")]
    pub format: ExtractFormat,

    /// Frames with no more bytes between them in the archive are read as one
    #[arg(long, value_name = "SIZE", default_value = COALESCE_GAP, value_parser = crate::settings::parse_size)]
    pub coalesce_gap: u64,

    /// What the archive may contain
    #[arg(long, value_enum, default_value = "snapshot")]
    pub layout: super::Layout,

    #[command(flatten)]
    pub index: IndexArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

#[derive(Debug, Args)]
pub struct IndexMakeArgs {
    /// The archive (.tar.zst, .tar.lz4 or .tar, told by its first bytes)
    pub archive: PathBuf,

    /// How to print the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub format: ReportFormat,

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

/// An account's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pubkey(pub [u8; 32]);

pub fn parse_pubkey(text: &str) -> Result<Pubkey, String> {
    // The hash in an archive's name is written the same way.
    let hash = ArchiveHash::parse(text).ok_or("expected the base58 of 32 bytes")?;
    Ok(Pubkey(*hash.as_bytes()))
}

fn parse_slots(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str, default: u64| {
        if text.is_empty() { Some(default) } else { text.parse().ok() }
    };
    let range = match text.split_once('-') {
        Some(("", "")) => None,
        Some((from, to)) => number(from, 0).zip(number(to, u64::MAX)),
        None => text.parse().ok().map(|slot: u64| (slot, slot)),
    };
    match range {
        Some((from, to)) if from <= to => Ok(from..=to),
        _ => Err(format!("\"{text}\" is no range of slots, such as 17, 17-20, 17- or -20")),
    }
}

#[cfg(test)]
mod tests {
    use unsnap_index::ReadOptions;

    use super::*;

    #[test]
    fn the_default_gap_is_the_measured_one() {
        assert_eq!(crate::settings::parse_size(COALESCE_GAP), Ok(ReadOptions::COALESCE_GAP));
    }

    #[test]
    fn slots_are_single_or_ranges() {
        assert_eq!(parse_slots("17"), Ok(17..=17));
        assert_eq!(parse_slots("17-20"), Ok(17..=20));
        assert_eq!(parse_slots("17-"), Ok(17..=u64::MAX));
        assert_eq!(parse_slots("-20"), Ok(0..=20));
        for bad in ["", "-", "20-17", "x", "1-2-3", "1.5"] {
            assert!(parse_slots(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_32_bytes() {
        assert_eq!(parse_pubkey("11111111111111111111111111111111"), Ok(Pubkey([0; 32])));
        for bad in ["", "1", "0OIl", "111111111111111111111111111111111"] {
            assert!(parse_pubkey(bad).is_err(), "{bad}");
        }
    }
}
