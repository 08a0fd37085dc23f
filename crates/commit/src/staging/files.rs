//! Operations on directories for staging and publishing.

use std::{
    ffi::{CStr, CString},
    os::fd::OwnedFd,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use unsnap_ring::Syscalls;

/// Returns whether a name in `holder` is that of the open directory.
pub(super) fn names_directory(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &CStr,
    directory: &OwnedFd,
) -> Result<bool, Errno> {
    let (ours, named) = (calls.fstat(directory)?, calls.lstatat(holder, name)?);
    Ok((ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino))
}

/// Removes everything in a directory, however deep, with two descriptors: nested directories are
/// moved up into it first.
pub(super) fn empty(calls: &Syscalls, root: &OwnedFd) -> Result<(), Errno> {
    let mut moved = 0_u64;
    loop {
        let entries = calls.entries(root)?;
        if entries.is_empty() {
            return Ok(());
        }
        for (name, kind) in entries {
            if kind != FileType::Directory {
                calls.unlinkat(root, &*name, AtFlags::empty())?;
                continue;
            }
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let inner = calls.openat(root, &*name, flags, Mode::empty())?;
            for (inner_name, kind) in calls.entries(&inner)? {
                if kind != FileType::Directory {
                    calls.unlinkat(&inner, &*inner_name, AtFlags::empty())?;
                    continue;
                }
                loop {
                    let up = format!(".unsnap-removed-{moved}");
                    moved += 1;
                    let up = CString::new(up).map_err(|_| Errno::INVAL)?;
                    match calls.rename_to_own(&inner, &inner_name, root, &up) {
                        Err(Errno::EXIST) => {}
                        result => break result?,
                    }
                }
            }
            calls.unlinkat(root, &*name, AtFlags::REMOVEDIR)?;
        }
    }
}
