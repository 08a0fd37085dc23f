//! The keys of the configuration, with their defaults. Each is explained in `config/unpackd.toml`.
//!
//! There is no key that can be absent: "" and 0 stand for "none" where there may be none. So the
//! defaults, written as a table, are the list of all keys.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use unsnap_unpack::settings::{LimitsTable, Size};

use super::values::Span;

/// The whole configuration, as it stands in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where archives are looked for.
    pub archives: Archives,
    /// How they are unpacked.
    pub unpack: Unpack,
    /// How much others are left.
    pub neighbour: Neighbour,
    /// When what has failed is tried again.
    pub retry: Retry,
    /// The service itself.
    pub service: Service,
    /// Who may ask and tell it what.
    pub control: Control,
    /// Where figures are told.
    pub metrics: Metrics,
    /// What an archive may claim.
    pub limits: LimitsTable,
    /// What is made of archives. At the end, since TOML wants arrays of tables there.
    pub target: Vec<Target>,
}

/// `[archives]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Archives {
    /// Of full ones, and of incremental ones unless those have their own. Required.
    pub directory: PathBuf,
    /// Of incremental ones; "" for the same.
    pub incremental_directory: PathBuf,
    /// Between two looks at the directories, whatever inotify says.
    pub rescan: Span,
    /// How long an archive must have been as it is, if nobody has told that it is complete.
    pub settle: Span,
}

/// What a target is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A tree for each archive.
    #[default]
    Tree,
    /// The state that a validator starts from.
    Fastboot,
}

/// `[[target]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// What it is called, in status, commands and metrics.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// How many results stay.
    pub keep: u32,
    /// Of a tree: where trees are made.
    pub directory: PathBuf,
    /// Of a fastboot target: the validator's `--ledger`.
    pub ledger: PathBuf,
    /// Its `--snapshots`; "" for the ledger.
    pub snapshots: PathBuf,
    /// Its `--accounts`; none for `<ledger>/accounts`.
    pub accounts: Vec<PathBuf>,
    /// The form of the list of storages: "auto", "3" or "5".
    pub format: String,
    /// Whether to keep second names of storages, for repairs.
    pub shadow: bool,
    /// Whether to prepare beside a running validator.
    pub beside: bool,
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
    /// 0 for as many as there are cores, at most 16.
    pub decode_threads: u16,
    /// Bytes; 0 for what suits the threads.
    pub memory_budget: Size,
    /// Whether jobs are confined.
    pub sandbox: bool,
}

/// `[neighbour]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Neighbour {
    /// Bytes a second written to each device; 0 for no limit.
    pub rate_limit: Size,
    /// "none", "idle" or "best-effort".
    pub io_class: String,
    /// 0 to 7, of the class best-effort.
    pub io_level: u8,
    /// 0 to 19.
    pub nice: u8,
    /// Such as "0-3,8"; "" for all.
    pub cpus: String,
    /// Files of old results removed in a second; 0 for as many as can be.
    pub removal_files_per_second: u32,
}

/// `[retry]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Retry {
    /// After the first failure; twice as long after each further one.
    pub first: Span,
    /// The longest wait.
    pub most: Span,
}

/// `[service]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Service {
    /// Where it remembers; "" for systemd's, or /var/lib/unpackd.
    pub state_directory: PathBuf,
    /// Whether a newer pair of archives ends a running job.
    pub supersede: bool,
    /// Jobs of a target that wait, at most.
    pub queue: u16,
    /// How long a job may stand still before the watchdog is no longer fed.
    pub stuck_after: Span,
    /// How long a job may take to end when the service does.
    pub stop_within: Span,
}

/// `[control]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Control {
    /// The Unix socket; "" for systemd's runtime directory, or /run/unpackd, and `control.sock`.
    pub socket: PathBuf,
    /// Users that may ask.
    pub observe_users: Vec<String>,
    /// Groups that may ask.
    pub observe_groups: Vec<String>,
    /// Users that may also tell it what to do.
    pub operate_users: Vec<String>,
    /// Groups that may also tell it what to do.
    pub operate_groups: Vec<String>,
    /// Connections at a time.
    pub connections_max: u16,
}

/// `[metrics]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metrics {
    /// A loopback address and port; "" for none.
    pub listen: String,
    /// A file for node_exporter's textfile collector; "" for none.
    pub textfile: PathBuf,
    /// How often it is written.
    pub textfile_every: Span,
}

impl Default for Archives {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            incremental_directory: PathBuf::new(),
            rescan: Span::seconds(60),
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
            ledger: PathBuf::new(),
            snapshots: PathBuf::new(),
            accounts: Vec::new(),
            format: "auto".to_owned(),
            shadow: true,
            beside: true,
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
        }
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
