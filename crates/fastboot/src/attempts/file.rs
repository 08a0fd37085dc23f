//! Small files that are whole after a power cut.

use std::{ffi::OsStr, path::Path};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use unsnap_ring::Syscalls;

use crate::{
    FastbootError,
    files::{failed, open_directory},
};

/// Overwrites a file with as many bytes as it has, so that the file system needs no space.
pub(super) fn overwrite(calls: &Syscalls, path: &Path, bytes: &[u8]) -> Result<(), Errno> {
    let file = calls.open(path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW)?;
    if u64::try_from(calls.fstat(&file)?.st_size) != Ok(bytes.len() as u64) {
        return Err(Errno::NOSPC);
    }
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match calls.write_at(&file, rest, written as u64, 1)? {
            0 => return Err(Errno::IO),
            count => written += count,
        }
    }
    calls.fsync(&file)
}

/// Replaces a small file, durably: after a power cut it is whole, the old one or the new one. Another
/// process that does the same at the same time wins or loses as a whole.
pub fn write_durably(calls: &Syscalls, path: &Path, bytes: &[u8]) -> Result<(), FastbootError> {
    let at = |step, errno| failed(step, path, errno);
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(at("write", Errno::ISDIR));
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let directory = open_directory(calls, parent)?;
    let new_name = new_name(name);
    let new_name = new_name.as_os_str();
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let written = calls
        .openat(&directory, new_name, flags, Mode::from_raw_mode(0o644))
        .and_then(|file| {
            let mut rest = bytes;
            while !rest.is_empty() {
                let count = calls.write(&file, rest)?;
                rest = rest.get(count..).filter(|_| count > 0).ok_or(Errno::IO)?;
            }
            calls.fsync(&file)
        })
        .and_then(|()| calls.renameat(&directory, new_name, &directory, name))
        .and_then(|()| calls.fsync(&directory));
    written.map_err(|errno| {
        // After the rename it is gone already.
        let _ = calls.unlinkat(&directory, new_name, AtFlags::empty());
        at("write", errno)
    })
}

/// Returns the name under which a new version of a file is written: hidden, so that programs that
/// read all files of a directory, such as `node_exporter`, do not see half of it.
fn new_name(name: &OsStr) -> std::ffi::OsString {
    let mut new_name = std::ffi::OsString::from(".");
    new_name.push(name);
    new_name.push(".unsnap-new");
    new_name
}
