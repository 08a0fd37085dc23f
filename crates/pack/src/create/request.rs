//! Requests for a new archive.

use std::path::PathBuf;

use unsnap_unpack::Verify;

/// A request to make an archive from a directory.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// A tree made by `unpack`, or a state from which a validator starts: a directory
    /// `<snapshots>/<slot>`.
    pub directory: PathBuf,
    /// Directories of storages that are not in `accounts` below the directory: the directories
    /// themselves, or accounts paths, which hold storages in `run`.
    pub accounts: Vec<PathBuf>,
    /// Slot of the full snapshot that an incremental one builds on; `None` makes a full one.
    pub base_slot: Option<u64>,
    /// The archive, or the directory that will hold it. The bank file determines the archive's
    /// name.
    pub output: PathBuf,
    /// Checks of the archive between writing it and giving it its name.
    pub verify: Verify,
}
