//! Sizes as people write them.

/// Reads a size: bytes, or a number with a unit (`KiB`, `MiB`, `GiB`, `TiB`, or short `K` … `T`;
/// `kB`, `MB`, `GB`, `TB` are powers of ten).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: u64 =
        digits.parse().map_err(|_| format!("\"{text}\" is not a size, such as 512MiB"))?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => {
            return Err(format!(
                "\"{unit}\" is not a unit: use KiB, MiB, GiB, TiB, kB, MB, GB or TB"
            ));
        }
    };
    number.checked_mul(factor).ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("512m"), Ok(512 << 20));
        assert_eq!(parse_size("2 GiB"), Ok(2 << 30));
        assert_eq!(parse_size("6GB"), Ok(6_000_000_000));
        for bad in ["", "MiB", "-1", "1.5GiB", "3 parsecs", "99999999999TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
