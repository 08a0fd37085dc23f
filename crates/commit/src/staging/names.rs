//! Names and modes that staging and publishing agree upon.

use std::ffi::CStr;

/// Name of a staging directory inside its destination; also the suffix of one beside it.
pub(super) const STAGING_NAME: &str = ".unsnap-staging";

/// Entry of a freshly made ext4 file system.
pub(super) const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Mode of staging directories, and so of destinations.
pub(super) const DIRECTORY_MODE: u32 = 0o755;

/// Step of emptying a staging directory, for messages.
pub(super) const EMPTYING: &str = "remove an interrupted run's files of";

/// Entries that mark a directory as complete. They are published last and taken back first: without
/// `fastboot_version` a directory is no state, without `version` no snapshot, and without `_SUCCESS` no
/// complete set of tables.
pub(super) const MARKS: [&CStr; 3] = [c"fastboot_version", c"version", c"_SUCCESS"];
