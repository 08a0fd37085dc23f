//! What was measured. It becomes JSON as it is: times are milliseconds, sizes bytes; keys stay, more
//! may be added.

use serde::Serialize;

use super::spread::Spread;

#[derive(Debug, Default, Serialize)]
pub struct BenchResult {
    pub archive: ArchiveFacts,
    /// The directory that was measured, and its file system.
    pub output: String,
    pub file_system: String,
    pub rounds: u32,
    /// Whether the archive had to be read from the disk every time; `None` if that is not known.
    pub cold: Option<bool>,
    /// The stages alone.
    pub alone: Vec<Alone>,
    /// What was tried, the default first.
    pub variants: Vec<Measured>,
    /// The stage that limits the default, by its threads: "source", "decode", "walk", "create" or
    /// "sync".
    pub limited_by: String,
    /// The same in plain words.
    pub limit: String,
    /// The flags that are faster than the default; empty if there are none.
    pub flags: String,
    /// The same in plain words.
    pub advice: String,
    /// What makes the measurement doubtful.
    pub notes: Vec<String>,
    pub elapsed_ms: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct ArchiveFacts {
    /// Its name; it is not there any more if it was generated.
    pub path: String,
    pub generated: bool,
    pub bytes: u64,
    /// What a run reads of it, decodes, and makes of it.
    pub bytes_read: u64,
    pub bytes_decoded: u64,
    pub bytes_written: u64,
    pub files: u64,
    /// Whether that is all of it.
    pub whole: bool,
}

/// A stage by itself.
#[derive(Debug, Default, Serialize)]
pub struct Alone {
    /// "read", "decode" or "write".
    pub stage: &'static str,
    pub bytes: u64,
    pub elapsed_ms: Vec<u64>,
    #[serde(rename = "spread_ms", serialize_with = "Spread::in_milliseconds")]
    pub seconds: Spread,
    /// How many times as long a whole run by default takes, of pairs of one round.
    pub run_ratio: Spread,
}

/// A way to unpack.
#[derive(Debug, Default, Serialize)]
pub struct Measured {
    pub name: String,
    /// What to type for it.
    pub flags: String,
    /// Why it could not be tried.
    pub skipped: Option<String>,
    pub elapsed_ms: Vec<u64>,
    #[serde(rename = "spread_ms", serialize_with = "Spread::in_milliseconds")]
    pub seconds: Spread,
    /// Of the default's time in the same round.
    pub ratio: Spread,
    pub limited_by: Vec<String>,
    pub io_engine: String,
    pub direct_read: bool,
    pub direct_write: bool,
    pub decode_threads: usize,
    /// Bytes that were in the page cache, of the last round.
    pub bytes_from_cache: u64,
}

impl Alone {
    /// Bytes for each second, by the median.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn rate(&self) -> u64 {
        (self.bytes as f64 / self.seconds.median.max(1e-3)) as u64
    }
}
