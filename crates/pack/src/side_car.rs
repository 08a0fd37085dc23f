//! The side-car: the file with an archive's index.

use std::path::{Path, PathBuf};

use unsnap_index::{Index, side_car_path};
use unsnap_pass::Unfinished;
use unsnap_ring::{DirectMode, Syscalls};

use crate::{PackError, output::Output};

/// A side-car under construction. It is locked, so that only one process writes it. It is removed
/// if dropped before it is written; a later run reuses the file left by a killed one.
pub struct SideCarFile {
    output: Output,
}

impl SideCarFile {
    /// Creates the file beside an archive. Call this before reading the archive, so that an
    /// obstacle (a read-only file system, say) is reported at once. Notes the file in
    /// `unfinished`.
    pub fn begin(
        calls: &Syscalls,
        unfinished: &Unfinished,
        archive: &Path,
    ) -> Result<Self, PackError> {
        let path = side_car_path(archive);
        Ok(Self { output: Output::create(calls, unfinished, &path, true, DirectMode::Off)? })
    }

    /// Publishes the index durably, in place of an older one. Returns its path and size in bytes.
    pub fn write(mut self, index: &Index) -> Result<(PathBuf, u64), PackError> {
        let path = self.output.path().to_owned();
        self.output.write(&index.encode())?;
        let bytes = self.output.sync()?;
        self.output.publish()?;
        Ok((path, bytes))
    }
}
