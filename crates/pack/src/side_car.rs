//! The file beside an archive that says where everything is in it.

use std::path::{Path, PathBuf};

use unsnap_index::{Index, side_car_path};
use unsnap_ring::{DirectMode, Syscalls};

use crate::{PackError, output::Output};

/// Writes an index beside its archive, in one step, durably, in place of an older one. Gives its path and
/// length. What a run that was killed has left of one is used again.
pub fn write_side_car(
    calls: &Syscalls,
    archive: &Path,
    index: &Index,
) -> Result<(PathBuf, u64), PackError> {
    let path = side_car_path(archive);
    let mut output = Output::create(calls, &path, true, DirectMode::Off)?;
    output.write(&index.encode())?;
    Ok((path, output.publish()?))
}
