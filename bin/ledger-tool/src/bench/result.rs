//! The measurements. JSON has the same form: times in milliseconds, sizes in bytes. Keys are stable;
//! new ones may be added.

use serde::Serialize;

use super::spread::Spread;

#[derive(Debug, Default, Serialize)]
pub struct BenchResult {
    pub archive: ArchiveFacts,
    /// The measured directory.
    pub output: String,
    /// Its file system.
    pub file_system: String,
    pub rounds: u32,
    /// Whether each run read the archive from the disk; `None` if unknown.
    pub cold: Option<bool>,
    /// The stages alone.
    pub alone: Vec<Alone>,
    /// The variants, the default first.
    pub variants: Vec<Measured>,
    /// The stage that limits the default: "source", "decode", "walk", "create" or "sync".
    pub limited_by: String,
    /// The same, as text.
    pub limit: String,
    /// The recommended flags; empty if the default is best.
    pub flags: String,
    /// The same, as text.
    pub advice: String,
    /// Doubts about the measurement.
    pub notes: Vec<String>,
    pub elapsed_ms: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct ArchiveFacts {
    /// Its path. A generated archive no longer exists.
    pub path: String,
    pub generated: bool,
    /// Size of the archive.
    pub bytes: u64,
    /// Amounts of a run.
    pub bytes_read: u64,
    pub bytes_decoded: u64,
    pub bytes_written: u64,
    pub files: u64,
    /// Whether a run unpacks the whole archive.
    pub whole: bool,
}

/// Measurements of a stage alone.
#[derive(Debug, Default, Serialize)]
pub struct Alone {
    /// "read", "decode" or "write".
    pub stage: &'static str,
    pub bytes: u64,
    pub elapsed_ms: Vec<u64>,
    #[serde(rename = "spread_ms", serialize_with = "Spread::in_milliseconds")]
    pub seconds: Spread,
    /// Time of a whole run of the default, divided by the stage's time in the same round.
    pub run_ratio: Spread,
}

/// Measurements of a variant.
#[derive(Debug, Default, Serialize)]
pub struct Measured {
    pub name: String,
    /// The flags for it.
    pub flags: String,
    /// Error of a variant that this machine does not support.
    pub skipped: Option<String>,
    pub elapsed_ms: Vec<u64>,
    #[serde(rename = "spread_ms", serialize_with = "Spread::in_milliseconds")]
    pub seconds: Spread,
    /// Its time, divided by the default's in the same round.
    pub ratio: Spread,
    pub limited_by: Vec<String>,
    pub io_engine: String,
    pub direct_read: bool,
    pub direct_write: bool,
    pub decode_threads: usize,
    /// Bytes that the last round found in the page cache.
    pub bytes_from_cache: u64,
}

impl Alone {
    /// Returns bytes per second, by the median.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn rate(&self) -> u64 {
        (self.bytes as f64 / self.seconds.median.max(1e-3)) as u64
    }
}
