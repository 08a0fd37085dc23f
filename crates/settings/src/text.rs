//! Sizes and durations as people write them.

use std::{borrow::Cow, time::Duration};

use bytesize::ByteSize;

/// Parses a size: a number of bytes, or a number with a unit. `KiB`, `MiB`, `GiB` and `TiB`, or
/// short `K` to `T`, are powers of 1024; `kB`, `MB`, `GB` and `TB` are powers of 1000. The case of
/// the unit does not matter.
///
/// # Errors
///
/// A message if `text` is not a size, or exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let refuse = || {
        format!(
            "\"{text}\" is not a size: give bytes, or a number with KiB, MiB, GiB, TiB, kB, MB, GB \
             or TB, such as 512MiB"
        )
    };
    if !starts_with_digit(text) {
        return Err(refuse());
    }
    // bytesize takes short units for powers of 1000.
    let is_short = text.ends_with(|last: char| "kmgtpe".contains(last.to_ascii_lowercase()));
    let long = if is_short { Cow::Owned(format!("{text}iB")) } else { Cow::Borrowed(text) };
    let ByteSize(bytes) = long.parse().map_err(|_| refuse())?;
    // bytesize computes with floats, and saturates.
    if bytes == u64::MAX && !is_number(text) {
        return Err(format!("\"{text}\" is too large"));
    }
    Ok(bytes)
}

/// Formats a size in binary units, rounded to a tenth, such as `1.5 GiB`.
pub fn format_size(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// Parses a duration: a number of seconds, or numbers with the units of `humantime`, such as
/// `250ms`, `90s`, `10m`, `1h30m` or `2days`.
///
/// # Errors
///
/// A message if `text` is not a duration, or has the unit `M`, which could be minutes or months.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let refuse = || format!("\"{text}\" is not a duration, such as 90s, 10m or 1h30m");
    if is_number(text) {
        return text.parse().map(Duration::from_secs).map_err(|_| refuse());
    }
    // humantime takes `10M` for ten months.
    if !starts_with_digit(text) || text.contains('M') {
        return Err(refuse());
    }
    humantime::parse_duration(text).map_err(|_| refuse())
}

/// Formats a duration, rounded down to milliseconds, such as `1h 30m` or `250ms`.
pub fn format_duration(duration: Duration) -> String {
    let whole = Duration::new(duration.as_secs(), duration.subsec_millis() * 1_000_000);
    humantime::format_duration(whole).to_string()
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("18446744073709551615", u64::MAX),
            ("17b", 17),
            ("512MiB", 512 << 20),
            ("512m", 512 << 20),
            ("2g", 2 << 30),
            ("2G", 2 << 30),
            ("3 t", 3 << 40),
            ("2 GiB", 2 << 30),
            ("1.5GiB", 3 << 29),
            ("8KB", 8000),
            ("6GB", 6_000_000_000),
            ("1TB", 1_000_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "MiB",
            "-1",
            "+1",
            "1.5",
            "1.2.3GiB",
            "3 parsecs",
            "99999999999TiB",
            "18446744073709551616",
        ] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_printed_in_binary_units() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(format_size(bytes), expected);
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, expected_ms) in [
            ("90", 90_000),
            ("0", 0),
            ("0s", 0),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2min5s", 125_000),
            ("250ms", 250),
            ("1.5s", 1500),
            ("5d", 432_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(expected_ms)), "{text}");
        }
        for bad in [
            "",
            "s",
            "1h30",
            "-1s",
            "+1",
            "10M",
            "1 parsec",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_printed_as_they_are_read() {
        for text in ["0s", "250ms", "1s 500ms", "1m 1s", "1h", "1h 30m", "2days"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_duration(Duration::from_nanos(1_002_999_999)), "1s 2ms");
    }
}
