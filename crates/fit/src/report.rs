//! The report about space.

use serde::Serialize;

/// What was needed and what there was, before anything was written.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PreflightReport {
    /// How what is needed is known: "walked" (every entry was seen), "declared" (the archive tells
    /// how long its tar stream is), "sampled" (estimated from samples) or "unknown".
    pub basis: &'static str,
    /// Why samples had to do, in words.
    pub sampled_since: Option<&'static str>,
    /// Why it is not known, in words.
    pub skipped: Option<String>,
    /// Length of the archive's tar stream.
    pub tar_bytes: Option<u64>,
    /// Whether that is exact, and not an estimate: only with samples it is one.
    pub tar_bytes_exact: bool,
    /// Bytes that the files take, on all file systems.
    pub bytes_needed: Option<u64>,
    /// Whether that is exact, and not an estimate.
    pub bytes_exact: bool,
    /// Files and directories. `None` if samples did not show enough of them.
    pub inodes_needed: Option<u64>,
    /// Whether that is exact, and not an estimate.
    pub inodes_exact: bool,
    /// Each file system that something is written to.
    pub file_systems: Vec<FileSystemReport>,
    /// What is doubtful, in words.
    pub warnings: Vec<String>,
    /// Reads of the archives that it took, and their bytes: headers and samples.
    pub reads: u64,
    /// See there.
    pub read_bytes: u64,
    /// Time it took.
    pub elapsed_ms: u64,
}

/// What was needed and what there was on one file system.
#[derive(Clone, Debug, Serialize)]
pub struct FileSystemReport {
    /// The destinations on it, as messages call them.
    pub destinations: Vec<String>,
    /// Bytes that the files take there.
    pub bytes_needed: Option<u64>,
    /// Bytes that were free. `None` if it does not tell.
    pub bytes_available: Option<u64>,
    /// Files and directories there.
    pub inodes_needed: Option<u64>,
    /// Inodes that were free. `None` if it has no limit.
    pub inodes_available: Option<u64>,
}
