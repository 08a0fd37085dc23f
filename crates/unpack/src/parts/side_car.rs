//! The side-car of an archive, opened with it and read when the process is confined.

use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf};

use rustix::fs::{Advice, Mode, OFlags, fadvise};
use unsnap_decode::ReadAt;
use unsnap_index::{Index, IndexError, SIDE_CAR_BYTES_MAX, side_car_path};
use unsnap_source::ArchiveFile;

use crate::{Archive, CancelToken, Config, Error, IndexUse, Phase, Progress, opening::OpenArchive};

/// An open archive, read wherever one likes, through the page cache.
pub(crate) struct Anywhere<'a>(pub &'a ArchiveFile);

impl ReadAt for Anywhere<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.trial_read(buffer, offset)?)
    }

    fn will_read(&self, offset: u64, bytes: u64) {
        // Only advice: where it is refused, reads take longer.
        let bytes = std::num::NonZeroU64::new(bytes);
        let _ = fadvise(self.0.descriptor(), offset, bytes, Advice::WillNeed);
    }
}

/// A side-car that has been opened.
pub(crate) struct SideCarFile {
    path: PathBuf,
    file: File,
}

impl SideCarFile {
    /// Opens what lies beside an archive, if it is wanted and there. Nothing is read.
    pub fn open(config: &Config, archive: &Archive) -> Option<Self> {
        let path = match archive {
            Archive::File(path) if config.index != IndexUse::Ignore => side_car_path(path),
            _ => return None,
        };
        // Whatever it is (a pipe, say): opening it must not wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => Some(Self { path, file: file.into() }),
            Err(rustix::io::Errno::NOENT) => None,
            Err(errno) => {
                tracing::warn!("the index {} is passed over: {errno}", path.display());
                None
            }
        }
    }

    fn read(&self) -> Result<Vec<u8>, IndexError> {
        let failed = |source| IndexError::Read { offset: 0, source };
        let metadata = self.file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(IndexError::NotAnIndex("it is no regular file"));
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

/// The index of each archive: `None` where there is none, or none that is to be believed.
pub(crate) fn load(
    side_cars: Vec<Option<SideCarFile>>,
    archives: &[OpenArchive],
    config: &Config,
    progress: &Progress,
    cancel: &CancelToken,
) -> Result<Vec<Option<Index>>, Error> {
    let mut indexes = Vec::with_capacity(archives.len());
    for ((side_car, archive), given) in side_cars.into_iter().zip(archives).zip(config.archives()) {
        let name = given.display_name();
        let loaded = match (&side_car, archive) {
            (Some(side_car), OpenArchive::File(file)) => {
                Some(load_one(side_car, file, config.index, progress, cancel))
            }
            _ if config.index == IndexUse::Proven => {
                let missing = IndexError::NotAnIndex("there is none beside the archive");
                return Err(Error::index(&name, missing));
            }
            _ => None,
        };
        indexes.push(match loaded {
            None => None,
            Some(Ok(index)) => Some(index),
            Some(Err(IndexError::Cancelled)) => return Err(Error::Cancelled),
            Some(Err(error)) if config.index == IndexUse::Proven => {
                return Err(Error::index(&name, error));
            }
            Some(Err(error)) => {
                let path = side_car.map(|side_car| side_car.path).unwrap_or_default();
                tracing::warn!("the index {} is passed over: {error}", path.display());
                None
            }
        });
    }
    Ok(indexes)
}

fn load_one(
    side_car: &SideCarFile,
    archive: &ArchiveFile,
    wanted: IndexUse,
    progress: &Progress,
    cancel: &CancelToken,
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
