#![forbid(unsafe_code)]
//! Values that the options and configuration files of all programs share: sizes, durations, free
//! space to leave to others, and limits on archives.
//!
//! Sizes are read and printed by the crate `bytesize`, durations by `humantime`.

mod reserve;
mod text;

pub use reserve::Reserve;
pub use text::{format_duration, format_size, parse_duration, parse_size};

use serde::{Deserialize, Deserializer, Serialize, de::Error};
use unsnap_pass::Limits;

/// Table `limits` of a configuration file; `config/ledger-tool.toml` explains its keys.
#[allow(clippy::struct_field_names)] // the names of the limits themselves
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    window_bytes_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame_bytes_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_bytes_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extension_bytes_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    apparent_bytes_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actual_bytes_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_bytes_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bank_file_bytes_max: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_cache_bytes_max: Option<Size>,
}

impl LimitsTable {
    /// All keys of the table.
    pub const KEYS: [&str; 12] = [
        "window_bytes_max",
        "frame_bytes_max",
        "frames_max",
        "raw_bytes_max",
        "ratio_max",
        "extension_bytes_max",
        "entries_max",
        "apparent_bytes_max",
        "actual_bytes_max",
        "storage_bytes_max",
        "bank_file_bytes_max",
        "status_cache_bytes_max",
    ];

    /// Overrides the limits that the table sets and leaves the others as they are.
    pub fn apply(&self, limits: &mut Limits) {
        let LimitsTable {
            window_bytes_max,
            frame_bytes_max,
            frames_max,
            raw_bytes_max,
            ratio_max,
            extension_bytes_max,
            entries_max,
            apparent_bytes_max,
            actual_bytes_max,
            storage_bytes_max,
            bank_file_bytes_max,
            status_cache_bytes_max,
        } = *self;
        let set = |target: &mut u64, value: Option<u64>| *target = value.unwrap_or(*target);
        let set_size =
            |target: &mut u64, value: Option<Size>| set(target, value.map(|Size(bytes)| bytes));
        set_size(&mut limits.decode.window_bytes_max, window_bytes_max);
        set_size(&mut limits.decode.frame_bytes_max, frame_bytes_max);
        set(&mut limits.decode.frames_max, frames_max);
        set_size(&mut limits.decode.raw_bytes_max, raw_bytes_max);
        set(&mut limits.decode.ratio_max, ratio_max);
        set_size(&mut limits.tar.extension_bytes_max, extension_bytes_max);
        set(&mut limits.layout.entries_max, entries_max);
        set_size(&mut limits.layout.apparent_bytes_max, apparent_bytes_max);
        set_size(&mut limits.layout.actual_bytes_max, actual_bytes_max);
        set_size(&mut limits.layout.storage_bytes_max, storage_bytes_max);
        set_size(&mut limits.layout.bank_file_bytes_max, bank_file_bytes_max);
        set_size(&mut limits.layout.status_cache_bytes_max, status_cache_bytes_max);
    }
}

/// A number of bytes. Configuration files give it as a number, or as text with a unit such as
/// "512MiB".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, Self, |text| parse_size(text).map(Self))
    }
}

/// Deserializes a value that configuration files give as a number in its base unit, or as text with
/// a unit.
pub fn number_or_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    of_number: impl FnOnce(u64) -> T,
    of_text: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Text(String),
    }
    match Either::deserialize(deserializer)? {
        Either::Number(number) => Ok(of_number(number)),
        Either::Text(text) => of_text(&text).map_err(D::Error::custom),
    }
}
