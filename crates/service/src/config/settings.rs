//! Keys of the configuration and their defaults. `config/unpackd.toml` explains each of them.
//!
//! No key is optional: "" and 0 stand for "none" where that is allowed. The defaults, written as a
//! table, are therefore the list of all keys.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use unsnap_settings::{LimitsTable, Reserve, Size};

use super::values::{Slots, Span};

/// Default distance of states: 2 hours 47 minutes at 0.4 s a slot. A mainnet state has some 500 GB,
/// so at most 4.3 TB are written a day. A validator replays so many slots in about an hour. A guess:
/// less gives newer states and wears the disk more.
const MIN_SLOTS: u64 = 25_000;

/// The whole configuration, as written in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Search for archives.
    pub archives: Archives,
    /// Unpacking.
    pub unpack: Unpack,
    /// Limits on the load for other processes.
    pub neighbour: Neighbour,
    /// When jobs start that nobody asked for.
    pub cadence: Cadence,
    /// Retries of failed jobs.
    pub retry: Retry,
    /// The service itself.
    pub service: Service,
    /// Control socket and access rights.
    pub control: Control,
    /// Export of metrics.
    pub metrics: Metrics,
    /// Limits on the contents of an archive.
    pub limits: LimitsTable,
    /// Targets. Last, since TOML requires arrays of tables there.
    pub target: Vec<Target>,
}

/// `[archives]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Archives {
    /// Directory of full archives, and of incremental ones unless they have their own. Required.
    pub directory: PathBuf,
    /// Directory of incremental archives; "" for the same.
    pub incremental_directory: PathBuf,
    /// Interval between scans of the directories, besides those that inotify triggers.
    pub rescan: Span,
    /// Age at which archives that were set aside as bad are removed; 0 for never.
    pub bad_archives_max_age: Span,
    /// Time for which an archive must be unchanged, unless inotify reported that it is complete.
    pub settle: Span,
}

/// Kind of target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A directory tree for each archive.
    #[default]
    Tree,
    /// Local state that a validator starts from.
    Fastboot,
}

/// `[[target]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// Name in status, commands and metrics.
    pub name: String,
    /// Kind.
    pub kind: Kind,
    /// Number of results to keep.
    pub keep: u32,
    /// For a tree target: directory that holds the trees.
    pub directory: PathBuf,
    /// For a fastboot target: a validator whose own command line names all directories, by its unit
    /// ("unit:sol.service") or its process ("pid:1234"); "" for none.
    pub validator: String,
    /// For a fastboot target: the validator's `--ledger`.
    pub ledger: PathBuf,
    /// The validator's `--snapshots`; "" for the ledger.
    pub snapshots: PathBuf,
    /// The validator's `--accounts`; none for `<ledger>/accounts`.
    pub accounts: Vec<PathBuf>,
    /// Format of the list of storages: "auto", "3" or "5".
    pub format: String,
    /// Whether to keep a second hard link to each storage, for repairs.
    pub shadow: bool,
    /// Whether to prepare the state while a validator runs.
    pub beside: bool,
    /// Number of slots by which a ready state may be older than the newest archives and still be
    /// moved into place.
    pub max_behind: Slots,
}

/// `[unpack]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Unpack {
    /// "none", "structure" or "accounts".
    pub verify: String,
    /// "auto", "on" or "off".
    pub direct_io: String,
    /// "auto", "uring" or "threads".
    pub io_engine: String,
    /// Number of decoder threads; 0 for one per core, at most 16.
    pub decode_threads: u16,
    /// "auto", "own" or "libzstd".
    pub decoder: String,
    /// Memory in bytes; 0 for an amount derived from the number of threads.
    pub memory_budget: Size,
    /// Whether jobs run in a sandbox.
    pub sandbox: bool,
}

/// `[neighbour]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Neighbour {
    /// Most bytes written to each device per second; 0 for no limit.
    pub rate_limit: Size,
    /// "none", "idle" or "best-effort".
    pub io_class: String,
    /// I/O priority level within the class best-effort, 0 to 7.
    pub io_level: u8,
    /// Nice value, 0 to 19.
    pub nice: u8,
    /// CPUs, such as "0-3,8"; "" for all.
    pub cpus: String,
    /// Most files of old results removed per second; 0 for no limit.
    pub removal_files_per_second: u32,
    /// Free space to leave to other processes on every file system that is written to.
    pub min_free: Reserve,
}

/// `[cadence]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cadence {
    /// Least number of slots between two states; 0 for any.
    pub min_slots: u64,
    /// Parts of the day in which jobs start, UTC, such as "02:00-05:00,14:00-15:00"; "" for all.
    pub windows: String,
    /// Most bytes written per target and day; 0 for no limit.
    pub bytes_per_day: Size,
}

/// `[retry]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Retry {
    /// Delay after the first failure. It doubles with each further one.
    pub first: Span,
    /// Longest delay.
    pub most: Span,
}

/// `[service]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Service {
    /// State directory; "" for systemd's, or /var/lib/unpackd.
    pub state_directory: PathBuf,
    /// Whether newer archives stop a running job of a tree.
    pub supersede: bool,
    /// Most queued jobs per target.
    pub queue: u16,
    /// Time without progress after which the watchdog is no longer notified.
    pub stuck_after: Span,
    /// Time that a job may take to end when the service stops.
    pub stop_within: Span,
    /// Program that is told of events that an operator should know of; "" for none.
    pub on_event: PathBuf,
}

/// `[control]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Control {
    /// Unix socket; "" for `control.sock` in systemd's runtime directory or /run/unpackd.
    pub socket: PathBuf,
    /// Users that may observe.
    pub observe_users: Vec<String>,
    /// Groups that may observe.
    pub observe_groups: Vec<String>,
    /// Users that may also operate.
    pub operate_users: Vec<String>,
    /// Groups that may also operate.
    pub operate_groups: Vec<String>,
    /// Most connections at a time.
    pub connections_max: u16,
}

/// `[metrics]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metrics {
    /// Loopback address and port to serve metrics and the status page on; "" for none.
    pub listen: String,
    /// File for node_exporter's textfile collector; "" for none.
    pub textfile: PathBuf,
    /// Interval at which the file is written.
    pub textfile_every: Span,
}

impl Default for Archives {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            incremental_directory: PathBuf::new(),
            rescan: Span::seconds(60),
            bad_archives_max_age: Span::seconds(7 * 24 * 3600),
            settle: Span::seconds(10),
        }
    }
}

impl Default for Target {
    fn default() -> Self {
        Self {
            name: String::new(),
            kind: Kind::default(),
            keep: 1,
            directory: PathBuf::new(),
            validator: String::new(),
            ledger: PathBuf::new(),
            snapshots: PathBuf::new(),
            accounts: Vec::new(),
            format: "auto".to_owned(),
            shadow: true,
            beside: true,
            max_behind: Slots::Any,
        }
    }
}

impl Default for Unpack {
    fn default() -> Self {
        Self {
            verify: "structure".to_owned(),
            direct_io: "auto".to_owned(),
            io_engine: "auto".to_owned(),
            decode_threads: 0,
            decoder: "auto".to_owned(),
            memory_budget: Size(0),
            sandbox: true,
        }
    }
}

impl Default for Neighbour {
    fn default() -> Self {
        Self {
            rate_limit: Size(0),
            io_class: "best-effort".to_owned(),
            io_level: 7,
            nice: 10,
            cpus: String::new(),
            removal_files_per_second: 1000,
            min_free: Reserve::AUTO,
        }
    }
}

impl Default for Cadence {
    fn default() -> Self {
        Self { min_slots: MIN_SLOTS, windows: String::new(), bytes_per_day: Size(0) }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self { first: Span::seconds(30), most: Span::seconds(3600) }
    }
}

impl Default for Service {
    fn default() -> Self {
        Self {
            state_directory: PathBuf::new(),
            supersede: true,
            queue: 16,
            stuck_after: Span::seconds(300),
            stop_within: Span::seconds(60),
            on_event: PathBuf::new(),
        }
    }
}

impl Default for Control {
    fn default() -> Self {
        Self {
            socket: PathBuf::new(),
            observe_users: Vec::new(),
            observe_groups: Vec::new(),
            operate_users: Vec::new(),
            operate_groups: Vec::new(),
            connections_max: 64,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { listen: String::new(), textfile: PathBuf::new(), textfile_every: Span::seconds(15) }
    }
}
