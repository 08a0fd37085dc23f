//! How everything stands.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The service as a whole. Times are milliseconds since 1970, UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the service.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it was started.
    pub started_unix_ms: u64,
    /// Whether somebody has paused it.
    pub paused: bool,
    /// Bytes that jobs may write to each device in a second, if there is a limit.
    #[serde(default)]
    pub rate_limit: Option<u64>,
    /// Where it looks for archives, and what it has found.
    pub archives: ArchivesStatus,
    /// All targets, in the order of the configuration.
    pub targets: Vec<TargetStatus>,
    /// Archives that are passed over until they change.
    pub bad: Vec<BadArchive>,
}

/// What the service knows of archives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivesStatus {
    /// Where it looks.
    #[serde(with = "super::path::list")]
    pub directories: Vec<PathBuf>,
    /// The best that is there.
    pub newest: Option<PairName>,
    /// How often it looks without having been told that something has changed.
    pub rescan_ms: u64,
}

/// A full archive, and perhaps an incremental one upon it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairName {
    /// The slot that comes of it.
    pub slot: u64,
    /// The full archive's slot, if there is an incremental one.
    pub base_slot: Option<u64>,
    /// The full archive.
    #[serde(with = "super::path")]
    pub full: PathBuf,
    /// The incremental one.
    #[serde(default, with = "super::path::option")]
    pub incremental: Option<PathBuf>,
}

/// A target: what archives are made into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// Its name in the configuration.
    pub name: String,
    /// What it is.
    pub kind: TargetKind,
    /// How it stands.
    pub state: TargetState,
    /// What it waits for or fails of, in words.
    pub detail: Option<String>,
    /// What is there, the newest first.
    pub results: Vec<ResultStatus>,
    /// What is being done.
    pub job: Option<JobStatus>,
    /// What is to be done after that, in order.
    pub queued: Vec<JobStatus>,
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// A state that a validator starts from.
    Fastboot,
    /// A plain tree for each slot.
    Tree,
}

/// How a target stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetState {
    /// Nothing is to be done.
    Idle,
    /// A job is running.
    Working,
    /// A job cannot run yet: it is paused, or a validator is in its way.
    Waiting,
    /// The last attempt has failed; another follows.
    Failing,
}

/// Something that has been unpacked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultStatus {
    /// Its slot.
    pub slot: u64,
    /// The full archive's slot, if it was made of two.
    pub base_slot: Option<u64>,
    /// Where it is.
    #[serde(with = "super::path")]
    pub path: PathBuf,
    /// When it was complete and durable.
    pub finished_unix_ms: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its files.
    pub files: u64,
}

/// A job: one pair of archives for one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its number, which no other job has had.
    pub id: u64,
    /// What it is for.
    pub target: String,
    /// The slot that comes of it.
    pub slot: u64,
    /// The full archive's slot, if there is an incremental one.
    pub base_slot: Option<u64>,
    /// The full archive, and the incremental one if there is one.
    #[serde(with = "super::path::list")]
    pub archives: Vec<PathBuf>,
    /// Who wanted it.
    pub origin: Origin,
    /// How it stands.
    pub state: JobState,
    /// What it is doing, in words.
    pub phase: Option<String>,
    /// The how manieth attempt it is, from 1.
    pub attempt: u32,
    /// Time until the next attempt.
    pub retry_in_ms: Option<u64>,
    /// When this attempt began.
    pub started_unix_ms: Option<u64>,
    /// Why the attempt before failed.
    pub last_error: Option<String>,
    /// How far it is, while it runs.
    pub progress: Option<JobProgress>,
}

/// Who wanted a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The service has found the archives itself.
    Found,
    /// A client has submitted them.
    Submitted,
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// Others come before it.
    Queued,
    /// It runs.
    Running,
    /// It runs, but rests.
    Paused,
    /// It has failed, and waits for its next attempt.
    Retrying,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobProgress {
    /// Size of its archives.
    pub bytes_total: Option<u64>,
    /// Compressed bytes of them that have been decoded.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Files that are complete.
    pub files: u64,
    /// Bytes written a second, of late.
    pub rate_bytes_per_s: Option<u64>,
    /// How long it will go on like this.
    pub eta_ms: Option<u64>,
}

/// An archive that is passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadArchive {
    /// Where it is.
    #[serde(with = "super::path")]
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
    /// When that was found.
    pub seen_unix_ms: u64,
}
