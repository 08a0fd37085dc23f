//! The file beside an archive that says where everything is in it.

use std::path::{Path, PathBuf};

use unsnap_index::{Index, side_car_path};
use unsnap_ring::{DirectMode, Syscalls};

use crate::{PackError, output::Output};

/// A side-car under construction, which is locked, so that one run at a time makes it. Dropped before it
/// is written, it is removed; what a run that was killed has left of one is used again.
pub struct SideCarFile {
    output: Output,
}

impl SideCarFile {
    /// Begins the index beside an archive. Before the archive is gone through, so that what stands in the way
    /// (a read-only file system, say) is told at once.
    pub fn begin(calls: &Syscalls, archive: &Path) -> Result<Self, PackError> {
        Ok(Self { output: Output::create(calls, &side_car_path(archive), true, DirectMode::Off)? })
    }

    /// Writes the index in one step, durably, in place of an older one. Gives its path and length.
    pub fn write(mut self, index: &Index) -> Result<(PathBuf, u64), PackError> {
        let path = self.output.path().to_owned();
        self.output.write(&index.encode())?;
        Ok((path, self.output.publish()?))
    }
}
