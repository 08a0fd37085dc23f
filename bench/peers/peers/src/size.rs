//! Sizes as people write them.

/// Reads a number of bytes such as `20GB` or `512MiB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let units = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("KB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
        ("", 1),
    ];
    let size = units.iter().find_map(|(unit, bytes)| {
        let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*bytes)
    });
    size.ok_or_else(|| format!("{text:?} is not a size such as 20GB or 512MiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("20GB"), Ok(20_000_000_000));
        assert_eq!(parse_size("8 KiB"), Ok(8192));
        assert_eq!(parse_size("17"), Ok(17));
        assert!(parse_size("much").is_err());
        assert!(parse_size("-1GB").is_err());
    }
}
