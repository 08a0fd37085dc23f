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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_as_it_can_be_read() {
        for text in ["0s", "1h", "1h 30m", "1m 1s", "1s 500ms", "30s"] {
            let span = Span(parse_duration(text).unwrap());
            assert_eq!(span.to_string(), text);
        }
    }
}
