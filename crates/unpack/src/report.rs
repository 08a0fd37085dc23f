//! Report of a run: counts and times.

use std::time::Duration;

use serde::Serialize;
use unsnap_fit::PreflightReport;
use unsnap_pass::{LimitsReport, SandboxReport, millis};
use unsnap_state::{AccountsPathReport, Base};

/// Report of a run. Serialises into the JSON report; sizes are bytes, times milliseconds.
#[allow(clippy::struct_excessive_bools)] // facts, not states
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The archive, as the caller named it.
    pub archive: String,
    /// "full" or "incremental", from the archive's name; "unknown" for a snapshot without such a
    /// name; "other" for an archive that was not unpacked as a snapshot.
    pub kind: &'static str,
    /// Slot of the snapshot, from its bank file.
    pub slot: Option<u64>,
    /// Slot of the full snapshot that an incremental one builds on, from its name.
    pub base_slot: Option<u64>,
    /// Hash in the archive's name.
    pub hash: Option<String>,
    /// The incremental snapshot that was unpacked together with it. The counts below include both.
    pub incremental: Option<IncrementalReport>,
    /// Fields of the newest bank file, if it was checked and matches the archive's name.
    pub bank: Option<BankReport>,
    /// Sums of the accounts, if they were verified. They match the bank file.
    pub accounts: Option<AccountsReport>,
    /// The storages of the full archive that were linked from an earlier state instead of being
    /// unpacked. The counts below do not include them.
    pub reused: Option<ReusedReport>,
    /// Share of each accounts path of a validator's state.
    pub accounts_paths: Vec<AccountsPathReport>,
    /// "zstd", "lz4" or "tar".
    pub compression: &'static str,
    /// Whether the archives were only checked and nothing was written.
    pub dry_run: bool,
    /// Number of files created; in a dry run, found.
    pub files: u64,
    /// Number of directories created; in a dry run, listed in the archive.
    pub directories: u64,
    /// Compressed bytes read.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Number of compressed frames, without skippable ones.
    pub frames: u64,
    /// Number of skippable frames.
    pub skippable_frames: u64,
    /// Time from start to published.
    pub elapsed_ms: u64,
    /// Part of it after the last write: syncing and publishing.
    pub sync_ms: u64,
    /// "frame-parallel", "streaming", "block-parallel" or "mixed".
    pub decode_engine: &'static str,
    /// Number of decoding threads.
    pub decode_threads: usize,
    /// Decoder of zstd frames: "libzstd", "own", or "own+libzstd" if each has decoded some. For other
    /// formats "none".
    pub decoder: &'static str,
    /// Number of frames that the own decoder decoded.
    pub own_frames: u64,
    /// "uring", "threads", or "uring+threads" if files in the page cache were created by plain
    /// threads. For a stream, the engine that created files.
    pub io_engine: String,
    /// Whether the archive was read with direct I/O, apart from bytes in the page cache.
    pub direct_read: bool,
    /// Bytes of the archive that were read from the page cache.
    pub bytes_from_cache: u64,
    /// Whether large files were written with direct I/O on every destination.
    pub direct_write: bool,
    /// "transparent", "hugetlb" or "none".
    pub huge_pages: &'static str,
    /// Whether the buffers of every ring were registered; false if there was no ring.
    pub registered_buffers: bool,
    /// Bytes reserved for reading ahead and for decoded data.
    pub memory_bytes: u64,
    /// Requests that the kernel or the file system refused, in words.
    pub fallbacks: Vec<String>,
    /// Confinement of the run before it read the archive.
    pub sandbox: SandboxReport,
    /// Result of the check for free space before anything was written; `None` in a dry run.
    pub preflight: Option<PreflightReport>,
    /// Limits on the use of the machine that were in force.
    pub limits: LimitsReport,
    /// Time for which the run was paused.
    pub paused_ms: u64,
    /// Longest time for which the rate limit held back a creator that had data to write.
    pub held_back_ms: u64,
    /// The stage that limited the others: "source", "decode", "walk", "create" or "sync"; or "rate
    /// limit".
    pub limited_by: &'static str,
    /// Digest of the whole archive, such as "xxh3:…"; `None` if it was not requested, or if a
    /// resumed run did not read the whole archive.
    pub digest: Option<String>,
    /// Work of an interrupted run that was reused. Its files are included in the counts above.
    pub resumed: Option<Resumed>,
    /// Archives from the network that were to be kept as files.
    pub tee: Vec<TeeReport>,
    /// The creators of files and the concurrency that each has chosen, in the order of `threads`.
    pub creators: Vec<CreatorReport>,
    /// Times of each thread, in the order of the data's flow.
    pub threads: Vec<ThreadReport>,
    /// Peak resident memory of the process.
    pub peak_rss_bytes: u64,
}

/// A creator of files, and its concurrency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreatorReport {
    /// Kind of its files: "large" or "small".
    pub files: &'static str,
    /// Device of its files: major and minor number.
    pub device: String,
    /// "uring" or "threads".
    pub engine: &'static str,
    /// Number of threads that may block in the kernel: the one that has proved best on the device,
    /// or was given.
    pub workers: usize,
    /// Most operations in flight with it.
    pub in_flight: usize,
    /// How often another number proved better.
    pub choices: u64,
}

/// Work of an interrupted run that was reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Resumed {
    /// Number of complete files.
    pub files: u64,
    /// Their total size.
    pub bytes: u64,
    /// Offset in the archive at which reading began.
    pub from_byte: u64,
}

/// An archive from the network that was to be kept as a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TeeReport {
    /// Path of the file.
    pub path: String,
    /// Bytes written.
    pub bytes: u64,
    /// Bytes of them that an interrupted run had received.
    pub reused_bytes: u64,
    /// Whether it is there, complete and durable. If not, there is nothing left of it.
    pub kept: bool,
    /// Reason why it was not kept.
    pub reason: Option<String>,
}

impl TeeReport {
    /// Returns the line of the fallbacks for an archive that was not kept.
    pub(crate) fn fallback(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        Some(format!("{} was not kept: {reason}", self.path))
    }
}

/// Storages that were linked from an earlier state.
#[derive(Clone, Debug, Serialize)]
pub struct ReusedReport {
    /// Name of the full archive that the earlier state was made from.
    pub archive: String,
    /// Number of storages.
    pub files: u64,
    /// Sum of their sizes in bytes.
    pub bytes: u64,
}

impl ReusedReport {
    /// Returns the report of a base that is, or would be, linked.
    pub fn of(base: &Base) -> Self {
        let (files, bytes) = base.size();
        Self { archive: base.origin().full.to_string(), files, bytes }
    }
}

/// An incremental snapshot that was unpacked together with its full one.
#[derive(Clone, Debug, Serialize)]
pub struct IncrementalReport {
    /// The archive, as the caller named it.
    pub archive: String,
    /// Slot of the snapshot, from its bank file.
    pub slot: Option<u64>,
    /// Slot of the full snapshot it builds on, from its name.
    pub base_slot: Option<u64>,
    /// Hash in the archive's name.
    pub hash: Option<String>,
    /// "zstd", "lz4" or "tar".
    pub compression: &'static str,
    /// Compressed bytes read.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Number of compressed frames.
    pub frames: u64,
    /// Number of files created from it.
    pub files: u64,
    /// Digest of the archive.
    pub digest: Option<String>,
}

/// Fields of a bank file. Its slot and the hash of its accounts match the archive's name.
#[derive(Clone, Debug, Serialize)]
pub struct BankReport {
    /// Slot of the bank.
    pub slot: u64,
    /// Epoch of the slot.
    pub epoch: u64,
    /// Hash of the bank.
    pub hash: String,
    /// Sum of the lamports of all accounts, from the bank file.
    pub capitalization: u64,
}

/// Sums of verified accounts. They match the hash in the archive's name and the bank file's
/// capitalization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountsReport {
    /// The archives that hold the accounts, the full one first.
    pub archives: Vec<AccountsArchive>,
    /// Number of accounts with lamports.
    pub accounts: u64,
    /// Sum of their lamports.
    pub capitalization: u64,
    /// Records in all storages: the sum of accounts, closed accounts and older versions.
    pub records: u64,
    /// Closed accounts: those whose newest version has no lamports.
    pub closed_accounts: u64,
    /// Records that are superseded by a newer one of the same account.
    pub older_versions: u64,
    /// Records that were read again, because their account occurs twice.
    pub looked_at: u64,
    /// Bytes that did not fit into memory and were written to a temporary file.
    pub spilt_bytes: u64,
}

/// An archive whose accounts were verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountsArchive {
    /// The archive, as the caller named it.
    pub archive: String,
    /// Slot of the snapshot, from its bank file.
    pub slot: Option<u64>,
    /// Digest of the archive; `None` if it was not digested.
    pub digest: Option<String>,
}

/// Times of a thread. Busy and waiting times add up to the total.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadReport {
    /// Name of the thread in the report.
    pub name: String,
    /// "source", "decode", "walk", "create" or "sync".
    pub stage: &'static str,
    /// From start to end; for "main", the whole run.
    pub total_ms: u64,
    /// Working, or making system calls for other threads.
    pub busy_ms: u64,
    /// Waiting for work from earlier stages.
    pub waiting_for_input_ms: u64,
    /// Waiting for memory or for later stages, held back by the rate limit, or paused.
    pub waiting_for_output_ms: u64,
    /// Waiting for the kernel to read, write or sync.
    pub waiting_for_io_ms: u64,
}

impl ThreadReport {
    /// Creates a report from the total time and the times of waiting for input, output and I/O. The
    /// rest is busy time.
    pub(crate) fn new(
        name: String,
        stage: &'static str,
        total: Duration,
        waits: [Duration; 3],
    ) -> Self {
        let total_ms = millis(total);
        debug_assert!(
            waits.iter().sum::<Duration>() <= total + Duration::from_millis(1),
            "{name} waited {waits:?} in {total:?}"
        );
        // Rounded so that the parts never exceed the whole.
        let mut left = total_ms;
        let [input, output, io] = waits.map(|wait| {
            let part = millis(wait).min(left);
            left -= part;
            part
        });
        Self {
            name,
            stage,
            total_ms,
            busy_ms: left,
            waiting_for_input_ms: input,
            waiting_for_output_ms: output,
            waiting_for_io_ms: io,
        }
    }
}
