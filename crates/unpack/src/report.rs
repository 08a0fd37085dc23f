//! What a run did, and where its time went.

use std::time::Duration;

use serde::Serialize;
use unsnap_fit::PreflightReport;
use unsnap_pass::{LimitsReport, SandboxReport, millis};
use unsnap_state::AccountsPathReport;

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
    /// The incremental snapshot that was unpacked together with it; what is counted below counts
    /// for both.
    pub incremental: Option<IncrementalReport>,
    /// What the newest bank file says, if it was held to the archive's name, and is that of it.
    pub bank: Option<BankReport>,
    /// What the accounts add up to, if that was asked for, and is what the bank file says.
    pub accounts: Option<AccountsReport>,
    /// What each accounts path of a validator's state was given.
    pub accounts_paths: Vec<AccountsPathReport>,
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
    /// "uring", "threads", or "uring+threads" where files that go through the page cache were
    /// created by plain threads; for a stream what files are created by.
    pub io_engine: String,
    /// Whether the archive was read by direct I/O, but for what was in the page cache.
    pub direct_read: bool,
    /// Bytes of the archive that were in the page cache and were read from there.
    pub bytes_from_cache: u64,
    /// Whether large files were written by direct I/O, on every destination.
    pub direct_write: bool,
    /// "transparent", "hugetlb" or "none".
    pub huge_pages: &'static str,
    /// Whether the buffers of every ring are registered; false if there is no ring.
    pub registered_buffers: bool,
    /// Bytes reserved for reading ahead and for decoded data.
    pub memory_bytes: u64,
    /// What was wanted and could not be had, in words.
    pub fallbacks: Vec<String>,
    /// How far the run was confined before it looked at the archive.
    pub sandbox: SandboxReport,
    /// Whether it would fit, as found before anything was written; `None` in a dry run.
    pub preflight: Option<PreflightReport>,
    /// What it was asked to keep to, as far as that was to be had.
    pub limits: LimitsReport,
    /// Of the time, how long it was paused.
    pub paused_ms: u64,
    /// How long there was something to write and the rate limit did not allow it, for the creator
    /// that had to wait longest.
    pub held_back_ms: u64,
    /// The stage that the others waited for: "source", "decode", "walk", "create" or "sync"; or
    /// "rate limit".
    pub limited_by: &'static str,
    /// Digest of the whole archive, such as "xxh3:…"; `None` if nobody asked for it, or if not all
    /// of the archive was read, because a run was resumed.
    pub digest: Option<String>,
    /// What an interrupted run had done already; its files are among those above.
    pub resumed: Option<Resumed>,
    /// Where each thread's time went, in the order of the data's flow.
    pub threads: Vec<ThreadReport>,
    /// Most memory the process had resident so far.
    pub peak_rss_bytes: u64,
}

/// What was there from an interrupted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Resumed {
    /// Files that were complete.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Where in the archive reading began.
    pub from_byte: u64,
}

/// An incremental snapshot that was unpacked together with its full one.
#[derive(Clone, Debug, Serialize)]
pub struct IncrementalReport {
    /// The archive, as it was given.
    pub archive: String,
    /// Slot of the snapshot, by its bank file.
    pub slot: Option<u64>,
    /// Slot of the full snapshot it builds on, by its name.
    pub base_slot: Option<u64>,
    /// Hash in the archive's name.
    pub hash: Option<String>,
    /// "zstd", "lz4" or "tar".
    pub compression: &'static str,
    /// Compressed bytes.
    pub bytes_read: u64,
    /// Decoded bytes.
    pub bytes_decoded: u64,
    /// Frames of compressed data.
    pub frames: u64,
    /// Files created of it.
    pub files: u64,
    /// Digest of the archive.
    pub digest: Option<String>,
}

/// What a bank file says. Its slot and the hash of its accounts are those of the archive's name.
#[derive(Clone, Debug, Serialize)]
pub struct BankReport {
    /// Slot of the bank.
    pub slot: u64,
    /// Epoch of the slot.
    pub epoch: u64,
    /// Hash of the bank.
    pub hash: String,
    /// Sum of the lamports of all accounts, as the bank file has it.
    pub capitalization: u64,
}

/// What accounts add up to: the hash in the archive's name, and the bank file's capitalization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountsReport {
    /// Accounts with lamports.
    pub accounts: u64,
    /// Their lamports.
    pub capitalization: u64,
    /// Records in all storages.
    pub records: u64,
    /// Of these, records that a newer one of the same account hides.
    pub older_versions: u64,
    /// Records that were read a second time, because their account occurs twice.
    pub looked_at: u64,
    /// Bytes that did not fit into memory.
    pub spilt_bytes: u64,
}

/// Where a thread's time went. What it was busy and what it waited for add up to its total.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadReport {
    /// What it is called here.
    pub name: String,
    /// "source", "decode", "walk", "create" or "sync".
    pub stage: &'static str,
    /// From its start to its end; for "main", the whole run.
    pub total_ms: u64,
    /// At work, or carrying out system calls for others.
    pub busy_ms: u64,
    /// Waiting for work from the stages before it.
    pub waiting_for_input_ms: u64,
    /// Waiting for memory, or for the stages after it to take more; held back by the rate limit, or
    /// paused.
    pub waiting_for_output_ms: u64,
    /// Waiting for the kernel to read, write or sync.
    pub waiting_for_io_ms: u64,
}

impl ThreadReport {
    /// `waits`: for input, for output, for I/O. What was not waiting was work.
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
