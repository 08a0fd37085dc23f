//! What is counted of each target, for metrics.

use std::collections::BTreeMap;

use unsnap_control::protocol::Outcome;
use unsnap_unpack::{Family, Report};

/// Counted since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Attempts that are over, by their outcome.
    pub ended: BTreeMap<Outcome, u64>,
    /// Errors, by [`family_name`].
    pub errors: BTreeMap<&'static str, u64>,
    /// Compressed bytes read, by attempts that have made something.
    pub bytes_read: u64,
    /// Bytes decoded by these.
    pub bytes_decoded: u64,
    /// Bytes written by these.
    pub bytes_written: u64,
    /// Files made by these.
    pub files: u64,
    /// What was wanted and could not be had, see `Report::fallbacks`.
    pub fallbacks: u64,
    /// When the last job was done: milliseconds since 1970; 0 for none.
    pub last_success_unix_ms: u64,
    /// How long it took, in milliseconds.
    pub last_duration_ms: u64,
}

impl Figures {
    /// Counts what was made.
    pub fn add(&mut self, report: &Report) {
        self.bytes_read += report.bytes_read;
        self.bytes_decoded += report.bytes_decoded;
        self.bytes_written += report.bytes_written;
        self.files += report.files;
        self.fallbacks += report.fallbacks.len() as u64;
    }
}

/// For labels: there are no others than these, and "panic".
pub fn family_name(family: Family) -> &'static str {
    match family {
        Family::BadArchive => "bad-archive",
        Family::Request => "request",
        Family::Environment => "environment",
        Family::NotClean => "not-clean",
        Family::Cancelled => "cancelled",
    }
}
