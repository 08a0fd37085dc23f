//! The file system and the disks that hold a path, and whether writes and direct I/O work there.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use unsnap_failure::{Code, Errno, Failure, Family, Remedy};
use unsnap_fit::Free;
use unsnap_ring::{DirectSupport, Syscalls};

use unsnap_cli::machine::proc_files::Mount;

use super::disk;
use crate::doctor::facts::{Direct, Place};

/// Size of the trial write and read: a block of any file system, aligned to its size.
const TRIAL_BYTES: usize = 4096;

/// A path cannot be examined.
#[derive(Debug, thiserror::Error)]
#[error("cannot examine {}: {reason}", path.display())]
pub struct Unfit {
    path: PathBuf,
    reason: io::Error,
}

impl Failure for Unfit {
    fn family(&self) -> Family {
        Family::Request
    }

    fn code(&self) -> Code {
        Code::Request
    }

    fn remedy(&self) -> Option<Remedy> {
        let is_kind = self.reason.kind() == io::ErrorKind::InvalidInput;
        let advice = || Remedy::advice("name a directory that is written to, or an archive");
        if is_kind { Some(advice()) } else { Remedy::of_io_error(&self.reason) }
    }

    fn errno(&self) -> Option<Errno> {
        Errno::from_io_error(&self.reason)
    }
}

/// Probes a path. Refuses paths that are neither directories nor regular files.
pub fn probe(path: &Path, mounts: &[Mount]) -> Result<Place, Unfit> {
    let refuse = |reason: io::Error| Unfit { path: path.to_owned(), reason };
    let metadata = fs::metadata(path).map_err(refuse)?;
    let whole = fs::canonicalize(path).map_err(refuse)?;
    if !metadata.is_dir() && !metadata.is_file() {
        let reason = "it is neither a directory nor a file";
        return Err(refuse(io::Error::new(io::ErrorKind::InvalidInput, reason)));
    }
    // A path that may not be read has free space, too.
    let named = open(&whole, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let named = named.map_err(|errno| refuse(errno.into()))?;
    let space = Free::of(&Syscalls::default(), &named, path)
        .map_err(|error| refuse(io::Error::other(error.to_string())))?;
    let mount = mount_of(&whole, mounts).cloned().unwrap_or_default();
    let mut place = Place {
        path: path.display().to_string(),
        is_directory: metadata.is_dir(),
        device: metadata.dev(),
        free_bytes: space.bytes.unwrap_or(0),
        total_bytes: space.total_bytes,
        free_inodes: space.inodes,
        disks: disk::below(metadata.dev(), &mount.source),
        file_system: mount.file_system,
        mount_point: mount.point,
        source: mount.source,
        options: mount.options,
        ..Place::default()
    };
    if place.is_directory {
        match tempfile::tempfile_in(&whole) {
            Ok(file) => place.direct = direct(&file, true),
            Err(error) => place.write_error = Some(error.to_string()),
        }
    } else {
        place.direct = direct(&File::open(&whole).map_err(refuse)?, false);
    }
    Ok(place)
}

/// Returns the innermost mount that holds a path; of two on one directory, the later one.
pub fn mount_of<'a>(path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| Path::new(&mount.point).components().count())
}

/// Returns whether the kernel declares direct I/O for the file, and whether it works.
fn direct(file: &File, write: bool) -> Direct {
    let declared = Syscalls::default().direct_support(file);
    let tried = try_directly(file, write);
    let mut direct = Direct {
        works: Some(tried.is_ok()),
        error: tried.err().map(|error| error.to_string()),
        ..Direct::default()
    };
    match declared {
        DirectSupport::Unknown => {}
        DirectSupport::No => direct.declared = Some(false),
        DirectSupport::Yes(needs) => {
            direct.declared = Some(true);
            direct.offset_align = Some(needs.offset_align as u64);
            direct.memory_align = Some(needs.memory_align as u64);
        }
    }
    direct
}

fn try_directly(file: &File, write: bool) -> io::Result<()> {
    fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT)?;
    let mut memory = vec![0x5A_u8; 2 * TRIAL_BYTES];
    let start = memory.as_ptr().align_offset(TRIAL_BYTES).min(TRIAL_BYTES);
    let block = &mut memory[start..start + TRIAL_BYTES];
    if write {
        file.write_all_at(block, 0)?;
        block.fill(0);
    }
    let read = file.read_at(block, 0)?;
    if write && (read < block.len() || block.iter().any(|byte| *byte != 0x5A)) {
        return Err(io::Error::other("the data read differs from the data written"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_latest_mount_counts() {
        let mount = |point: &str, source: &str| Mount {
            point: point.to_owned(),
            source: source.to_owned(),
            ..Mount::default()
        };
        let mounts = [mount("/mnt", "old"), mount("/", "root"), mount("/mnt", "new")];
        let source = |path: &str| mount_of(Path::new(path), &mounts).unwrap().source.clone();
        assert_eq!(source("/mnt/ledger"), "new");
        assert_eq!(source("/mntx"), "root");
        assert_eq!(mount_of(Path::new("relative"), &mounts), None);
    }

    #[test]
    fn a_probed_directory_stays_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let place = probe(directory.path(), &[]).unwrap();
        assert_eq!(place.write_error, None);
        assert!(place.direct.works.is_some());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(probe(&directory.path().join("absent"), &[]).is_err());
        assert!(probe(Path::new("/dev/null"), &[]).is_err());
    }
}
