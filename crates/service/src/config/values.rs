//! Value types of configuration files.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unsnap_settings::{format_duration, number_or_text, parse_duration};

/// A duration: text such as "60s", or a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// Creates a duration of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&format_duration(self.0))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, Self::seconds, |text| parse_duration(text).map(Self))
    }
}

/// A number of slots, or "any".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// At most so many.
    AtMost(u64),
    /// Any number.
    Any,
}

impl Slots {
    /// Returns the largest number.
    pub fn most(self) -> u64 {
        match self {
            Self::AtMost(slots) => slots,
            Self::Any => u64::MAX,
        }
    }
}

impl Serialize for Slots {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::AtMost(slots) => serializer.serialize_u64(*slots),
            Self::Any => serializer.serialize_str(ANY),
        }
    }
}

impl<'de> Deserialize<'de> for Slots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, Self::AtMost, |text| {
            if text == ANY {
                return Ok(Self::Any);
            }
            let slots = text.parse().map(Self::AtMost);
            slots.map_err(|_| format!("\"{text}\" is neither a number of slots nor \"{ANY}\""))
        })
    }
}

const ANY: &str = "any";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_written_as_they_can_be_read() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Table {
            slots: Slots,
        }
        for (text, most) in
            [("slots = 0\n", 0), ("slots = 7\n", 7), ("slots = \"any\"\n", u64::MAX)]
        {
            let table: Table = toml::from_str(text).unwrap();
            assert_eq!(table.slots.most(), most);
            assert_eq!(toml::to_string(&table).unwrap(), text);
        }
        let error = toml::from_str::<Table>("slots = \"all\"").unwrap_err();
        assert!(error.to_string().contains("\"all\" is neither"), "{error}");
    }

    #[test]
    fn a_duration_is_written_as_it_can_be_read() {
        for text in ["0s", "1h", "1h 30m", "1m 1s", "1s 500ms", "30s"] {
            let span = Span(parse_duration(text).unwrap());
            assert_eq!(span.to_string(), text);
        }
    }
}
