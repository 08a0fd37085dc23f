//! Mounts between which no file can be renamed.

use std::os::fd::OwnedFd;

use rustix::{fs::StatxFlags, io::Errno};
use unsnap_ring::Syscalls;

/// Returns whether two open directories are on the same file system and in the same mount of it, so
/// that files can be renamed between them: `rename` fails with `EXDEV` also between two bind mounts
/// of one file system. Mount ids need Linux 5.8; without them, mounts of one file system count as
/// one.
pub fn is_same_mount(calls: &Syscalls, one: &OwnedFd, other: &OwnedFd) -> Result<bool, Errno> {
    if calls.fstat(one)?.st_dev != calls.fstat(other)?.st_dev {
        return Ok(false);
    }
    let mount = |directory| {
        let answer = calls.fstatx(directory, StatxFlags::MNT_ID).ok();
        let answer = answer.filter(|it| it.stx_mask & StatxFlags::MNT_ID.bits() != 0);
        answer.map(|it| it.stx_mnt_id)
    };
    Ok(mount(one).zip(mount(other)).is_none_or(|(one, other)| one == other))
}
