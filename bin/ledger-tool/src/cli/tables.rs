//! Command line of `export`, and the filters that it shares with `accounts`.

use std::{ops::RangeInclusive, path::PathBuf};

use clap::{Args, ValueEnum};
use unsnap_cli::{
    args::{FetchArgs, IoArgs, OutputArgs, ReportFormat},
    settings::parse_size,
};

use super::shared::{Pubkey, parse_pubkey, parse_range, parse_slots};

pub const EXPORT_EXAMPLES: &str = "\
Examples:
  All existing accounts, for DuckDB and others:
    ledger-tool export snapshot-39-<HASH>.tar.zst --newest \\
      --output /mnt/tables

  The accounts of the stake program only, with keys for people:
    ledger-tool export snapshot-39-<HASH>.tar.zst --newest \\
      --output /mnt/stakes --keys base58 \\
      --owner Stake11111111111111111111111111111111111111

  Token accounts of one mint:
    ledger-tool export snapshot-39-<HASH>.tar.zst --newest \\
      --output /mnt/holders --data-size 165 \\
      --owner TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA \\
      --memcmp 0:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v

  Who holds which tokens, and stakes with their validators:
    ledger-tool export snapshot-39-<HASH>.tar.zst --newest \\
      --output /mnt/holders --table token_accounts,mints,stakes,votes

  As a stream that DuckDB, polars and pyarrow read, also from a pipe:
    ledger-tool export snapshot-39-<HASH>.tar.zst --newest \\
      --format arrow --output - > accounts.arrows

  Everything but the data, proved before it is published:
    ledger-tool export snapshot-39-<HASH>.tar.zst --newest \\
      --output /mnt/checked --no-data --check";

/// Conditions that records must meet.
#[derive(Debug, Args)]
#[command(next_help_heading = "Records")]
pub struct FilterArgs {
    /// Only records of this owner; may be repeated
    #[arg(long, value_name = "PUBKEY", value_parser = parse_pubkey)]
    pub owner: Vec<Pubkey>,

    /// Only records with this many bytes of data: N, MIN..MAX, MIN.. or ..MAX, ends included
    ///
    /// A range may also be written MIN-MAX, MIN- or -MAX.
    #[arg(long, value_name = "N|RANGE", value_parser = parse_range,
        allow_hyphen_values = true)]
    pub data_size: Option<RangeInclusive<u64>>,

    /// Only records whose data holds these bytes at an offset: OFFSET:BASE58 or OFFSET:0xHEX; if
    /// repeated, all must match
    #[arg(long, value_name = "OFFSET:BYTES", value_parser = parse_memcmp)]
    pub memcmp: Vec<Memcmp>,

    /// Only records of the accounts in this file: one address a line, in base58
    #[arg(long, value_name = "FILE")]
    pub pubkeys: Option<PathBuf>,

    /// Only records in storages of these slots: N, FIRST..LAST, FIRST.. or ..LAST; may be repeated
    #[arg(long, value_name = "N|RANGE", value_parser = parse_slots,
        allow_hyphen_values = true)]
    pub slot: Vec<RangeInclusive<u64>>,
}

/// Bytes at an offset of an account's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memcmp {
    pub offset: usize,
    pub bytes: Vec<u8>,
}

/// Most bytes to compare. That of the validator's RPC is 128.
const MEMCMP_BYTES_MAX: usize = 1 << 20;

fn parse_memcmp(text: &str) -> Result<Memcmp, String> {
    let (offset, bytes) = text.split_once(':').ok_or("expected OFFSET:BYTES")?;
    let offset = offset.parse().map_err(|_| format!("\"{offset}\" is not an offset"))?;
    // Checked first: to decode base58 takes the square of its length.
    if bytes.len() > 2 * MEMCMP_BYTES_MAX {
        return Err("too many bytes".to_owned());
    }
    let bytes = match bytes.strip_prefix("0x") {
        Some(digits) => parse_hex(digits).ok_or("expected pairs of hexadecimal digits")?,
        None => bs58::decode(bytes).into_vec().map_err(|_| "expected base58, or 0x and hex")?,
    };
    Ok(Memcmp { offset, bytes })
}

fn parse_hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Apache Parquet
    Parquet,
    /// A stream of Apache Arrow (IPC) of one table, with --output -
    Arrow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Table {
    /// Every account, as its record has it
    Accounts,
    /// What holders have of tokens
    TokenAccounts,
    /// Tokens
    Mints,
    /// Stakes and their delegation
    Stakes,
    /// Validators' vote accounts
    Votes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keys {
    /// 32 bytes: smaller, and faster to compare and to join
    Binary,
    /// Text, for people
    Base58,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Archive (.tar.zst, .tar.lz4 or .tar, recognized by its first bytes), or its address (http:// or
    /// https://); "-" is standard input
    pub archive: PathBuf,

    /// Directory to make: absent or empty; "-" is standard output, for --format arrow
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,

    /// Format of the tables
    #[arg(long, value_enum, default_value = "parquet")]
    pub format: TableFormat,

    /// Tables to write, separated by commas
    #[arg(
        long,
        value_enum,
        value_name = "TABLES",
        value_delimiter = ',',
        default_value = "accounts"
    )]
    pub table: Vec<Table>,

    /// Incremental archive that builds on this one; export the records of both
    #[arg(long, value_name = "ARCHIVE")]
    pub incremental: Option<PathBuf>,

    /// Only the newest record of each account, if it has lamports; reads the archive twice
    #[arg(long)]
    pub newest: bool,

    #[command(flatten)]
    pub filter: FilterArgs,

    #[command(flatten)]
    pub columns: ColumnArgs,

    /// Read all files again before they get their names, and compare them with the accounts
    ///
    /// With --newest and without a filter, the lamports must also add up to the capitalization in the
    /// bank file.
    #[arg(long)]
    pub check: bool,

    /// Format of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    pub report: ReportFormat,

    #[command(flatten)]
    pub tuning: ExportTuningArgs,

    #[command(flatten)]
    pub fetch: FetchArgs,

    #[command(flatten)]
    pub io: IoArgs,

    #[command(flatten)]
    pub output_control: OutputArgs,
}

/// Columns of the tables.
#[derive(Debug, Args)]
#[command(next_help_heading = "Columns")]
pub struct ColumnArgs {
    /// Form of the keys
    #[arg(long, value_enum, default_value = "binary")]
    pub keys: Keys,

    /// Leave out the accounts' data
    #[arg(long, conflicts_with = "data_prefix")]
    pub no_data: bool,

    /// Only the first bytes of each account's data
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub data_prefix: Option<u64>,

    /// Add columns for the storage of each record and its offset there
    #[arg(long)]
    pub provenance: bool,
}

/// Memory, threads and sizes of an export.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sizes of the export")]
pub struct ExportTuningArgs {
    /// Most bytes of rows in a row group, before encoding, if the memory suffices [default: 32MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub row_group_size: Option<u64>,

    /// Size of a file before the next one begins [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub file_size: Option<u64>,

    /// Memory for rows that are not written yet [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub rows_memory: Option<u64>,

    /// With --newest: memory for 80 bytes per record; the rest goes to an unnamed file in the directory
    /// for temporary files [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,

    /// Threads that make rows, and as many that encode them [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_to_compare_are_base58_or_hex() {
        let parsed = |text| parse_memcmp(text).map(|memcmp| (memcmp.offset, memcmp.bytes));
        assert_eq!(parsed("0:0x01fF"), Ok((0, vec![1, 255])));
        assert_eq!(parsed("32:11111111111111111111111111111111"), Ok((32, vec![0; 32])));
        assert_eq!(parsed("7:2"), Ok((7, vec![1])));
        assert_eq!(parsed("7:"), Ok((7, vec![])));
        for bad in ["", "5", ":", "x:2", "-1:2", "0:0x1", "0:0xzz", "0:0", "0:l"] {
            assert!(parse_memcmp(bad).is_err(), "{bad}");
        }
    }
}
