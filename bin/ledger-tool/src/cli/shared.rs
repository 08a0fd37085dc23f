//! Options and values that several commands share.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};
use unsnap_cli::settings::parse_size;
use unsnap_layout::ArchiveHash;
use unsnap_pass::IndexUse;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// Only the entries of a validator's snapshot
    Snapshot,
    /// Files and directories under any safe relative path
    Any,
}

/// Use of the index beside an archive.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "The archive's index (see `ledger-tool index`)")]
pub struct IndexArgs {
    /// Ignore the archive's index, ARCHIVE.unsnap-index, and a seek table at its end
    #[arg(long, conflicts_with = "check_index")]
    pub no_index: bool,

    /// Fail unless the archive has the digest that its index records
    ///
    /// Reads all bytes of the archive. Without this flag the archive's size and 64 of its blocks
    /// are compared; an index that does not match is ignored with a warning.
    #[arg(long)]
    pub check_index: bool,
}

impl IndexArgs {
    /// Returns how the index is used.
    pub fn index_use(self) -> IndexUse {
        match (self.no_index, self.check_index) {
            (true, _) => IndexUse::Ignore,
            (false, true) => IndexUse::Proven,
            (false, false) => IndexUse::Auto,
        }
    }
}

/// An account's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pubkey(pub [u8; 32]);

pub fn parse_pubkey(text: &str) -> Result<Pubkey, String> {
    // The hash in an archive's name is written the same way.
    let hash = ArchiveHash::parse(text).ok_or("expected 32 bytes in base58")?;
    Ok(Pubkey(*hash.as_bytes()))
}

/// Parses a range of sizes: `N`, `MIN..MAX`, `MIN..` or `..MAX`, with `-` in place of `..` if that
/// is preferred. Both ends are included.
pub fn parse_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    range(text, parse_size)
}

/// Parses a range of slots: like [`parse_range`], but of plain numbers.
pub fn parse_slots(text: &str) -> Result<RangeInclusive<u64>, String> {
    range(text, |number| number.parse().map_err(|_| format!("\"{number}\" is not a slot")))
}

fn range(
    text: &str,
    number: impl Fn(&str) -> Result<u64, String>,
) -> Result<RangeInclusive<u64>, String> {
    let ends = text.split_once("..").or_else(|| text.split_once('-'));
    let (min, max) = ends.unwrap_or((text, text));
    if min.is_empty() && max.is_empty() {
        return Err("expected N, MIN..MAX, MIN.. or ..MAX".to_owned());
    }
    let end = |end: &str, default| if end.is_empty() { Ok(default) } else { number(end) };
    let range = end(min, 0)?..=end(max, u64::MAX)?;
    if range.is_empty() { Err("the range is empty".to_owned()) } else { Ok(range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_32_bytes() {
        assert_eq!(parse_pubkey("11111111111111111111111111111111"), Ok(Pubkey([0; 32])));
        for bad in ["", "1", "0OIl", "111111111111111111111111111111111"] {
            assert!(parse_pubkey(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_include_their_ends() {
        for (two_dots, hyphen, range) in [
            ("165", "165", 165..=165),
            ("1KiB..2KiB", "1KiB-2KiB", 1024..=2048),
            ("10..", "10-", 10..=u64::MAX),
            ("..10", "-10", 0..=10),
        ] {
            assert_eq!(parse_range(two_dots), Ok(range.clone()));
            assert_eq!(parse_range(hyphen), Ok(range));
        }
        assert_eq!(parse_slots("17..20"), Ok(17..=20));
        assert_eq!(parse_slots("17-20"), Ok(17..=20));
        assert_eq!(parse_slots("-20"), Ok(0..=20));
        for bad in ["", "..", "-", "5..4", "5-4", "x", "1..x", "1...2", "1-2-3"] {
            assert!(parse_range(bad).is_err() && parse_slots(bad).is_err(), "{bad}");
        }
        assert!(parse_slots("1.5").is_err() && parse_slots("1KiB").is_err());
    }
}
