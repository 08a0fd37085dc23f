//! Helpers for small files and directories.

use std::{os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use unsnap_ring::Syscalls;

use crate::FastbootError;

/// Opens a directory.
pub(crate) fn open_directory(calls: &Syscalls, path: &Path) -> Result<OwnedFd, FastbootError> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    calls.open(path, flags).map_err(|errno| failed("open", path, errno))
}

/// Returns the content of a file; `None` if it does not exist. Fails with `EFBIG` if it is longer
/// than `bytes_max`.
pub(crate) fn read_small(
    calls: &Syscalls,
    directory: &OwnedFd,
    name: &str,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match calls.openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let size = u64::try_from(calls.fstat(&file)?.st_size).unwrap_or(0);
    if size > bytes_max {
        return Err(Errno::FBIG);
    }
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| Errno::FBIG)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match calls.pread(&file, &mut bytes[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(Some(bytes))
}

/// Removes a file durably. Returns whether it existed.
pub(crate) fn remove_durably(
    calls: &Syscalls,
    directory: &OwnedFd,
    name: &str,
) -> Result<bool, Errno> {
    match calls.unlinkat(directory, name, AtFlags::empty()) {
        // `fstat` on an XFS directory reports that the file system has shut down; `fsync` does not
        // (see `staging` in the crate `unsnap-commit`).
        Ok(()) => calls.fsync(directory).and_then(|()| calls.fstat(directory)).map(|_| true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn failed(step: &'static str, path: &Path, errno: Errno) -> FastbootError {
    FastbootError::file(step, path, errno)
}
