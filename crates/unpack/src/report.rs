//! What a run did, and where its time went.

use serde::Serialize;

/// What a run did. Serialises into the JSON report; sizes are bytes, times milliseconds.
#[allow(clippy::struct_excessive_bools)] // facts, not states
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The archive, as it was given.
    pub archive: String,
    /// "full" or "incremental" by the archive's name, "unknown" for a snapshot without such a name,
    /// "other" for what was not unpacked as a snapshot.
    pub kind: &'static str,
    /// Slot of the snapshot, by its bank file.
    pub slot: Option<u64>,
    /// Slot of the full snapshot that an incremental builds on, by its name.
    pub base_slot: Option<u64>,
    /// Hash in the archive's name.
    pub hash: Option<String>,
    /// "zstd", "lz4" or "tar".
    pub compression: &'static str,
    /// Whether nothing was written because only a check was asked for.
    pub dry_run: bool,
    /// Files created (in a dry run: found).
    pub files: u64,
    /// Directories created (in a dry run: listed in the archive).
    pub directories: u64,
    /// Compressed bytes.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Frames of compressed data, skippable ones not counted.
    pub frames: u64,
    /// Skippable frames.
    pub skippable_frames: u64,
    /// From start to published.
    pub elapsed_ms: u64,
    /// Of which waiting for the disks, after the last write, and publishing.
    pub sync_ms: u64,
    /// "frame-parallel", "streaming" or "mixed".
    pub decode_engine: &'static str,
    /// Threads that decoded.
    pub decode_threads: usize,
    /// "uring" or "threads".
    pub io_engine: &'static str,
    /// Whether the archive was read by direct I/O.
    pub direct_read: bool,
    /// Whether large files were written by direct I/O, on every destination.
    pub direct_write: bool,
    /// "transparent", "hugetlb" or "none".
    pub huge_pages: &'static str,
    /// Whether the buffers of every ring are registered.
    pub registered_buffers: bool,
    /// Bytes reserved for reading ahead and for decoded data.
    pub memory_bytes: u64,
    /// What was wanted and could not be had, in words.
    pub fallbacks: Vec<String>,
    /// The stage that the others waited for.
    pub limited_by: &'static str,
    /// Where each stage's time went, in the order of the data's flow.
    pub stages: Vec<StageReport>,
    /// Most memory the process had resident so far.
    pub peak_rss_bytes: u64,
}

/// Where a stage's time went, summed over its threads.
#[derive(Clone, Debug, Serialize)]
pub struct StageReport {
    /// "source", "decode", "walk" or "create".
    pub name: &'static str,
    /// Threads that did it (a stage that shares another's thread counts 0).
    pub threads: usize,
    /// At work, or with operations under way.
    pub busy_ms: u64,
    /// Waiting for the stages before or after it.
    pub waiting_ms: u64,
}

/// Most memory the process has had resident, in bytes; 0 where the kernel does not say.
pub(crate) fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .map_or(0, |kib: u64| kib * 1024)
}
