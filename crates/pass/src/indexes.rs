//! The side-car of an archive: opened together with the archive, read once the process is confined.

use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf};

use rustix::fs::{Advice, Mode, OFlags, fadvise};
use unsnap_decode::ReadAt;
use unsnap_index::{Index, IndexError, SIDE_CAR_BYTES_MAX, side_car_path};
use unsnap_source::ArchiveFile;

use crate::{Archive, Handles, IndexUse, OpenArchive, PassError, Phase};

/// Random access to an open archive through the page cache.
pub struct Anywhere<'a>(pub &'a ArchiveFile);

impl ReadAt for Anywhere<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.trial_read(buffer, offset)?)
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        // If the kernel refuses the advice, reads take longer.
        let bytes = std::num::NonZeroU64::new(bytes);
        let _ = fadvise(self.0.descriptor(), offset, bytes, Advice::WillNeed);
    }
}

/// An open side-car.
pub(crate) struct SideCarFile {
    path: PathBuf,
    file: File,
}

impl SideCarFile {
    /// Opens the side-car of an archive, if it exists and `wanted` allows its use. Reads nothing.
    pub fn open(archive: &Archive, wanted: IndexUse) -> Option<Self> {
        let path = match archive {
            Archive::File(path) if wanted != IndexUse::Ignore => side_car_path(path),
            _ => return None,
        };
        // NONBLOCK, so that opening a pipe of that name does not wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => Some(Self { path, file: file.into() }),
            Err(rustix::io::Errno::NOENT) => None,
            Err(errno) => {
                tracing::warn!("ignoring the index {}: {errno}", path.display());
                None
            }
        }
    }

    fn read(&self) -> Result<Vec<u8>, IndexError> {
        let failed = |source| IndexError::Read { offset: 0, source };
        let metadata = self.file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(IndexError::NotAnIndex("it is not a regular file"));
        }
        let (bytes, limit) = (metadata.len(), SIDE_CAR_BYTES_MAX);
        if bytes > limit {
            return Err(IndexError::TooLarge { bytes, limit });
        }
        let mut content = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.file.read_exact_at(&mut content, 0).map_err(failed)?;
        Ok(content)
    }
}

/// Reads the index of an archive. Returns `None` if there is no trustworthy one; that is an error
/// if `wanted` is [`IndexUse::Proven`].
pub(crate) fn load(
    side_car: Option<SideCarFile>,
    named: &Archive,
    archive: &OpenArchive,
    wanted: IndexUse,
    handles: &Handles,
) -> Result<Option<Index>, PassError> {
    let failed = |error| Err(PassError::index(&named.display_name(), error));
    let (Some(side_car), OpenArchive::File(file)) = (side_car, archive) else {
        if wanted == IndexUse::Proven {
            return failed(IndexError::NotAnIndex("there is no index beside the archive"));
        }
        return Ok(None);
    };
    match load_one(&side_car, file, wanted, handles) {
        Ok(index) => Ok(Some(index)),
        Err(error) if wanted == IndexUse::Proven || matches!(error, IndexError::Cancelled) => {
            failed(error)
        }
        Err(error) => {
            tracing::warn!("ignoring the index {}: {error}", side_car.path.display());
            Ok(None)
        }
    }
}

/// Reads a side-car and checks that it belongs to the archive.
fn load_one(
    side_car: &SideCarFile,
    archive: &ArchiveFile,
    wanted: IndexUse,
    Handles { progress, cancel }: &Handles,
) -> Result<Index, IndexError> {
    let index = Index::decode(&side_car.read()?)?;
    let (archive, bytes) = (Anywhere(archive), archive.size());
    if wanted == IndexUse::Proven {
        progress.begin_bytes(Phase::CheckingIndex, bytes);
        let mut counted = 0;
        let checked = index.identity.check_digest(&archive, bytes, &mut |read| {
            progress.count_read(read - std::mem::replace(&mut counted, read));
            if cancel.is_cancelled() { Err(IndexError::Cancelled) } else { Ok(()) }
        });
        progress.begin_bytes(Phase::Preparing, 0);
        checked?;
    } else {
        index.identity.check(&archive, bytes)?;
    }
    Ok(index)
}
