//! Free space that stays free for other processes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{number_or_text, parse_size};

/// Free space to leave to other processes on a file system: a number of bytes, or a part of the file
/// system's size, whichever is larger. As text: `10GiB`, `2%`, `10GiB,2%`, `0` for none, or `auto`
/// for [`Reserve::AUTO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Bytes.
    pub bytes: u64,
    /// Percent of the file system's size, 0 to 100.
    pub percent: u8,
    /// Upper bound in percent of the file system's size, 0 to 100. Only [`Reserve::AUTO`] has one
    /// below 100: what an operator asks for is not cut.
    pub percent_max: u8,
}

impl Reserve {
    /// No reserve.
    pub const NONE: Self = Self { bytes: 0, percent: 0, percent_max: 100 };

    /// The reserve beside a running validator: 10 GiB or 2 %, whichever is larger, but at most 10 %
    /// of the file system. A validator of mainnet writes some 10 GiB of ledger, accounts and
    /// snapshot in the minutes that it takes to give space back; all three numbers are guesses.
    pub const AUTO: Self = Self { bytes: 10 << 30, percent: 2, percent_max: 10 };

    /// Returns the bytes to leave free on a file system of this size.
    pub fn on(&self, total_bytes: u64) -> u64 {
        let part = |percent: u8| {
            let part = u128::from(total_bytes) * u128::from(percent) / 100;
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        let wanted = self.bytes.max(part(self.percent));
        if self.percent_max < 100 { wanted.min(part(self.percent_max)) } else { wanted }
    }

    /// Returns whether nothing is left free, whatever the size of the file system.
    pub fn is_none(&self) -> bool {
        (self.bytes == 0 && self.percent == 0) || self.percent_max == 0
    }
}

impl Default for Reserve {
    fn default() -> Self {
        Self::NONE
    }
}

impl FromStr for Reserve {
    type Err = String;

    /// Parses the text form. The error is a message for the operator.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::AUTO);
        }
        let refuse = || {
            format!(
                "\"{text}\" is no amount of free space: give a size, a percentage of the file \
                 system, or both, such as 10GiB,2%, or auto"
            )
        };
        let (mut bytes, mut percent) = (None, None);
        for part in text.split(',').map(str::trim) {
            if let Some(number) = part.strip_suffix('%') {
                let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
                let number = number.parse().ok().filter(|number| is_number && *number <= 100);
                if percent.replace(number.ok_or_else(refuse)?).is_some() {
                    return Err(refuse());
                }
            } else if bytes.replace(parse_size(part).map_err(|_| refuse())?).is_some() {
                return Err(refuse());
            }
        }
        let (bytes, percent) = (bytes.unwrap_or(0), percent.unwrap_or(0));
        Ok(Self { bytes, percent, ..Self::NONE })
    }
}

impl fmt::Display for Reserve {
    /// Formats the text form, without loss.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::AUTO {
            return formatter.write_str("auto");
        }
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let whole =
            units.iter().find(|(_, log)| self.bytes > 0 && self.bytes.trailing_zeros() >= *log);
        match (self.bytes, self.percent, whole) {
            (0, 1.., _) => {}
            (bytes, _, Some((unit, log))) => write!(formatter, "{}{unit}", bytes >> log)?,
            (bytes, _, None) => write!(formatter, "{bytes}")?,
        }
        match (self.bytes, self.percent) {
            (_, 0) => Ok(()),
            (0, percent) => write!(formatter, "{percent}%"),
            (_, percent) => write!(formatter, ",{percent}%"),
        }
    }
}

impl Serialize for Reserve {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reserve {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let of_bytes = |bytes| Self { bytes, ..Self::NONE };
        number_or_text(deserializer, of_bytes, str::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_reserve_is_bytes_or_percent_whichever_is_larger() {
        for (text, total_bytes, kept) in [
            ("0", 1 << 50, 0),
            ("10GiB", 20 * GIB, 10 * GIB),
            ("2%", 1000, 20),
            ("10GiB,2%", 100 * GIB, 10 * GIB),
            ("2%,10GiB", 1000 * GIB, 20 * GIB),
            // What was asked for is not cut, even if it is more than there is.
            ("10GiB", GIB, 10 * GIB),
            ("100%", u64::MAX, u64::MAX),
            ("auto", 200 * GIB, 10 * GIB),
            ("auto", 1000 * GIB, 20 * GIB),
            // A tenth of a small file system.
            ("auto", 50 * GIB, 5 * GIB),
            ("auto", 100, 10),
        ] {
            assert_eq!(text.parse::<Reserve>().unwrap().on(total_bytes), kept, "{text}");
        }
        assert!(Reserve::default().is_none() && !Reserve::AUTO.is_none());
        assert!("0,0%".parse::<Reserve>().unwrap().is_none());
    }

    #[test]
    fn it_is_printed_as_it_can_be_read() {
        for (text, printed) in [
            ("0", "0"),
            ("0%", "0"),
            ("auto", "auto"),
            ("1234", "1234"),
            ("1536MiB", "1536MiB"),
            ("2 TiB", "2TiB"),
            ("3%", "3%"),
            ("3% , 1024", "1KiB,3%"),
            // The same numbers without the bound.
            ("10GiB,2%", "10GiB,2%"),
        ] {
            let reserve: Reserve = text.parse().unwrap();
            assert_eq!(reserve.to_string(), printed);
            assert_eq!(printed.parse(), Ok(reserve));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in
            ["", "%", "101%", "+2%", "-1%", "1.5%", "2%,2%", "1GiB,2GiB", "ten", "2%,", "Auto"]
        {
            let error = bad.parse::<Reserve>().unwrap_err();
            assert!(error.contains("such as 10GiB,2%"), "{bad}: {error}");
        }
    }
}
