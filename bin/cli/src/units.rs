//! Sizes, counts and durations in messages for people. All programs print them by these functions.

use std::time::Duration;

use indicatif::{BinaryBytes, HumanCount, HumanDuration};

/// Returns a number of bytes, such as "4.46 MiB".
pub fn size(bytes: u64) -> String {
    BinaryBytes(bytes).to_string()
}

/// Returns a number with separators, such as "430,000".
pub fn number(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Returns a number of things, such as "1 frame", "12 entries" or "430,000 files". `noun` is in the
/// singular.
pub fn count(count: u64, noun: &str) -> String {
    format!("{} {}", number(count), plural(count, noun))
}

/// Returns the form of a noun that goes with a number.
fn plural(count: u64, noun: &str) -> String {
    let consonant_y = noun
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']) && !stem.is_empty());
    match consonant_y {
        _ if count == 1 => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        None => format!("{noun}s"),
    }
}

/// Returns milliseconds as seconds, to the hundredth: "1.50 s".
pub fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}

/// Returns a rounded duration in its largest unit, such as "8 seconds" or "2 hours".
pub fn duration(duration: Duration) -> String {
    HumanDuration(duration).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_the_right_form() {
        assert_eq!(count(1, "frame"), "1 frame");
        assert_eq!(count(0, "frame"), "0 frames");
        assert_eq!(count(1, "entry"), "1 entry");
        assert_eq!(count(430_000, "entry"), "430,000 entries");
        assert_eq!(count(2, "key"), "2 keys");
        assert_eq!(count(2, "match"), "2 matches");
    }

    #[test]
    fn units_are_those_of_people() {
        assert_eq!(size(4_673_834), "4.46 MiB");
        assert_eq!(seconds(1_509), "1.50 s");
        assert_eq!(seconds(60_005), "60.00 s");
        assert_eq!(duration(Duration::from_millis(8_100)), "8 seconds");
    }
}
