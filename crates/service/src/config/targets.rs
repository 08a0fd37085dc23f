//! Targets, as they are configured.

use std::path::PathBuf;

use unsnap_fastboot::Places;
use unsnap_state::Format;

/// A target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name: letters, digits, dashes and underscores.
    pub name: String,
    /// Kind.
    pub kind: TargetKind,
    /// Number of results to keep; at least 1.
    pub keep: usize,
}

/// Kind of target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A directory tree for each archive.
    Tree {
        /// Directory that holds the trees.
        directory: PathBuf,
    },
    /// Local state that a validator starts from.
    Fastboot {
        /// The validator's directories.
        places: Places,
        /// Format of the list of storages.
        format: Format,
        /// Whether to keep a second hard link to each storage.
        shadow: bool,
        /// Whether to prepare the state while a validator runs.
        beside: bool,
        /// Number of slots by which a ready state may be older than the newest archives and still be
        /// adopted.
        max_behind: u64,
    },
}
