//! Durations as people write them.

use std::time::Duration;

/// Reads numbers with units (`ms`, `s`, `m`, `h`), such as `90s` or `1h30m`; a number alone is in
/// seconds.
pub fn parse(text: &str) -> Result<Duration, String> {
    let refuse = || format!("\"{text}\" is not a duration, such as 90s, 10m or 1h30m");
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() || text.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(end);
        let number: u64 = digits.parse().map_err(|_| refuse())?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let ms: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "" if rest == text => 1000,
            _ => return Err(refuse()),
        };
        let part = number.checked_mul(ms).map(Duration::from_millis);
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(refuse)?;
        rest = next;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let seconds = |seconds| Ok(Duration::from_secs(seconds));
        for (text, expected) in [
            ("90", seconds(90)),
            ("0s", seconds(0)),
            ("10m", seconds(600)),
            ("1h30m", seconds(5400)),
            ("2min5s", seconds(125)),
            ("250ms", Ok(Duration::from_millis(250))),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        for bad in [
            "",
            "s",
            "1h30",
            "-1s",
            "1.5s",
            "1 h",
            "5d",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
