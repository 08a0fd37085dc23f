//! Report of the check for free space.

use serde::Serialize;

/// Needs and free space before anything was written.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PreflightReport {
    /// Basis of the figures: "walked" (every entry was seen), "declared" (the archive declares the
    /// length of its tar stream), "sampled" (estimated from samples), "announced" (the least that the
    /// content of an archive on a server can take, by the archive's length) or "unknown".
    pub basis: &'static str,
    /// Reason for the use of samples.
    pub sampled_since: Option<&'static str>,
    /// Reason why the needs are unknown.
    pub skipped: Option<String>,
    /// Length of the archives' tar streams.
    pub tar_bytes: Option<u64>,
    /// Whether that length is exact. It is not if it was sampled, or if no walk has confirmed the
    /// size that the only frame declares.
    pub tar_bytes_exact: bool,
    /// Bytes needed on all file systems.
    pub bytes_needed: Option<u64>,
    /// Whether that is exact.
    pub bytes_exact: bool,
    /// Number of files and directories; `None` if samples did not show enough of them.
    pub inodes_needed: Option<u64>,
    /// Whether that is exact.
    pub inodes_exact: bool,
    /// Each file system of a destination.
    pub file_systems: Vec<FileSystemReport>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Number of reads of the archives for headers and samples.
    pub reads: u64,
    /// Sum of the bytes of these reads.
    pub read_bytes: u64,
    /// Time for which the run waited for the check.
    pub elapsed_ms: u64,
}

/// Needs and free space on one file system.
#[derive(Clone, Debug, Serialize)]
pub struct FileSystemReport {
    /// Paths of the destinations on it.
    pub destinations: Vec<String>,
    /// Bytes needed.
    pub bytes_needed: Option<u64>,
    /// Free bytes, without those that stay free for other programs; `None` if the file system does
    /// not report them.
    pub bytes_available: Option<u64>,
    /// Bytes that stay free for other programs.
    pub min_free_bytes: u64,
    /// Number of files and directories.
    pub inodes_needed: Option<u64>,
    /// Free inodes; `None` if their number has no limit.
    pub inodes_available: Option<u64>,
}
