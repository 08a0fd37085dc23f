//! Sizes with units: `8KiB`, `600MB`, `1.64 GB`.

use thiserror::Error;

/// A size that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text:?} is not a size: expected a number and one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB"
)]
pub struct BadSize {
    /// The given text.
    pub text: String,
}

/// Parses a size in bytes. Decimal units are powers of 1000, binary ones (`KiB`, or `K` alone)
/// powers of 1024. Fractions are allowed and rounded down to whole bytes.
///
/// ```
/// use unsnap_testkit::size::parse_size;
///
/// assert_eq!(parse_size("8KiB"), Ok(8192));
/// assert_eq!(parse_size("1.64 GB"), Ok(1_640_000_000));
/// assert!(parse_size("much").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, BadSize> {
    let bad = || BadSize { text: text.to_owned() };
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1000_u128.pow(2),
        "gb" => 1000_u128.pow(3),
        "tb" => 1000_u128.pow(4),
        "k" | "kib" => 1024,
        "m" | "mib" => 1024_u128.pow(2),
        "g" | "gib" => 1024_u128.pow(3),
        "t" | "tib" => 1024_u128.pow(4),
        _ => return Err(bad()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > FRACTION_DIGITS_MAX {
        return Err(bad());
    }
    let scale = fraction.bytes().fold(1_u128, |scale, _| scale * 10);
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let fraction: u64 = fraction.parse().map_err(|_| bad())?;
    let bytes = u128::from(whole) * unit + u128::from(fraction) * unit / scale;
    u64::try_from(bytes).map_err(|_| bad())
}

/// Enough digits for every byte of a tebibyte.
const FRACTION_DIGITS_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_apart() {
        let sizes = [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("6GB", 6_000_000_000),
            ("6 GiB", 6 << 30),
            ("32MiB", 32 << 20),
            ("32m", 32 << 20),
            ("0.5KiB", 512),
            ("1.64GB", 1_640_000_000),
            ("2tb", 2_000_000_000_000),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "B", "-1", "1.2.3", "1.", ".5", "6 XB", "GB6", "99999999999TiB", "1e3"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
