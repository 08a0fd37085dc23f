//! The last checkpoint of a resumable run that failed or was interrupted.

use rustix::fs::{AtFlags, OFlags};
use unsnap_commit::{Checkpoints, Target};
use unsnap_create::LostFile;

use crate::resume::open_beneath;

/// Records the files that are complete. `lost` are those that are not; `None` if they are unknown.
///
/// Removes them first: they are of no use, and on a full disk the journal needs their space.
pub(crate) fn take(target: &Target, checkpoints: &mut Checkpoints, lost: Option<Vec<LostFile>>) {
    let Some(lost) = lost else { return };
    for file in &lost {
        remove(target, file);
    }
    // Checkpoints are those of the first archive.
    let of_first = lost.iter().map(|lost| lost.file).filter(|file| file.stream == 0);
    checkpoints.take_last(of_first.min());
}

/// Removes a file if it exists. If that fails, the run that resumes removes it.
fn remove(target: &Target, LostFile { destination, path, .. }: &LostFile) {
    let Target { calls, directories, .. } = target;
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let removed = open_beneath(calls, &directories[*destination], parent, OFlags::DIRECTORY)
        .and_then(|parent| calls.unlinkat(parent, name, AtFlags::empty()));
    if let Err(errno) = removed {
        tracing::debug!(path, %errno, "an incomplete file was not removed");
    }
}
