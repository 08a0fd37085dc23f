//! Status of the service, its targets, jobs and archives.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{EventLine, JobStatus};

/// Status of the service. Times are milliseconds since 1970, UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the service.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Start time.
    pub started_unix_ms: u64,
    /// Whether the service is paused.
    pub paused: bool,
    /// Limit on the bytes written to each device per second, if there is one.
    #[serde(default)]
    pub rate_limit: Option<u64>,
    /// Directories of archives and the newest archives found.
    pub archives: ArchivesStatus,
    /// All targets, in the order of the configuration.
    pub targets: Vec<TargetStatus>,
    /// Bad archives, skipped until their files change.
    pub bad: Vec<BadArchive>,
    /// File systems that targets are on.
    #[serde(default)]
    pub disks: Vec<DiskStatus>,
    /// Last events, the oldest first, without progress; at most
    /// [`RECENT_EVENTS_MAX`].
    #[serde(default)]
    pub recent: Vec<EventLine>,
}

/// Most events in [`Status::recent`]. A guess: as many as fit a screen.
pub const RECENT_EVENTS_MAX: usize = 20;

/// A file system that targets are on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// A directory of a target on it.
    #[serde(with = "super::path")]
    pub path: PathBuf,
    /// Names of the targets on it.
    pub targets: Vec<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes that the service may still write.
    pub bytes_available: u64,
    /// What the targets keep on it.
    #[serde(default)]
    pub kept: Vec<KeptStatus>,
}

/// Files of one kind that a target keeps on a file system. Those of a state are counted every ten
/// minutes, and when there is another ready state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptStatus {
    /// Name of the target.
    pub target: String,
    /// Kind.
    pub what: Kept,
    /// Bytes.
    pub bytes: u64,
}

/// Kind of files that a target keeps on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// The ready state, which waits beside the validator's own.
    Ready,
    /// The successor of the ready state, as far as it is made.
    Next,
    /// Storages that the validator has removed, and that only the shadow of its state keeps.
    Shadow,
    /// Old files that wait for their removal.
    Leftovers,
    /// Trees.
    Trees,
}

/// Status of the archives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivesStatus {
    /// Directories searched for archives.
    #[serde(with = "super::path::list")]
    pub directories: Vec<PathBuf>,
    /// Newest usable archives.
    pub newest: Option<PairName>,
    /// Interval of scans while inotify reports no change, in milliseconds.
    pub rescan_ms: u64,
}

/// A full archive and, optionally, an incremental archive that builds on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairName {
    /// Slot of the resulting state.
    pub slot: u64,
    /// Slot of the full archive, if there is an incremental one.
    pub base_slot: Option<u64>,
    /// Path of the full archive.
    #[serde(with = "super::path")]
    pub full: PathBuf,
    /// Path of the incremental archive.
    #[serde(default, with = "super::path::option")]
    pub incremental: Option<PathBuf>,
}

/// Status of a target: a place that archives are unpacked to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Name in the configuration.
    pub name: String,
    /// Kind.
    pub kind: TargetKind,
    /// State.
    pub state: TargetState,
    /// Reason for waiting or failing, in words.
    pub detail: Option<String>,
    /// Results on disk, the newest first.
    pub results: Vec<ResultStatus>,
    /// The running job.
    pub job: Option<JobStatus>,
    /// Queued jobs, in order.
    pub queued: Vec<JobStatus>,
}

/// Kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// Local state that a validator starts from.
    Fastboot,
    /// A plain tree for each slot.
    Tree,
}

/// State of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetState {
    /// No job is needed.
    Idle,
    /// A job is running.
    Working,
    /// A job cannot start yet: the service is paused, or a validator is using the target.
    Waiting,
    /// The last attempt failed; another follows.
    Failing,
}

/// A result: an unpacked snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultStatus {
    /// Slot.
    pub slot: u64,
    /// Slot of the full archive, if the result was made from two archives.
    pub base_slot: Option<u64>,
    /// Directory of the result.
    #[serde(with = "super::path")]
    pub path: PathBuf,
    /// Time at which it was complete and durable.
    pub finished_unix_ms: u64,
    /// Total size of its files in bytes.
    pub bytes: u64,
    /// Number of its files.
    pub files: u64,
}

/// A bad archive, which is skipped until its file changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadArchive {
    /// Path of the archive.
    #[serde(with = "super::path")]
    pub path: PathBuf,
    /// The defect.
    pub reason: String,
    /// Time at which the defect was found.
    pub seen_unix_ms: u64,
}
