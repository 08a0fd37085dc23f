//! `ArchiveFile`: a regular file, opened once and for all.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use unsnap_arena::PAGE_BYTES;
use unsnap_ring::{DirectIo, DirectMode, DirectSupport, Syscalls, queue_depth};

use crate::{Hasher, SourceError};

/// Bytes of a read when nothing but a digest is wanted. A guess.
const DIGEST_READ_BYTES: usize = 1 << 20;

/// A regular file, opened, with all that reading it needs to ask of the file system: whoever has
/// one can read the file without opening anything else, and so may give up the right to.
#[derive(Debug)]
pub struct ArchiveFile {
    pub(crate) calls: Syscalls,
    pub(crate) path: PathBuf,
    /// Reads through the page cache.
    pub(crate) buffered: OwnedFd,
    /// The same file for direct I/O, where that is wanted and to be had.
    pub(crate) direct: Option<(OwnedFd, DirectIo)>,
    pub(crate) mode: DirectMode,
    /// What was wanted and could not be had, in words.
    pub(crate) fallback: Option<String>,
    pub(crate) size: u64,
    /// Reads that are worth keeping in flight, by the device.
    pub(crate) depth: usize,
}

impl ArchiveFile {
    /// Opens a regular file; nothing is read. `mode`: whether to bypass the page cache.
    pub fn open(calls: &Syscalls, path: &Path, mode: DirectMode) -> Result<Self, SourceError> {
        let open_error = |errno| SourceError::Open { path: path.to_owned(), errno };
        let buffered = open_noatime(calls, path, OFlags::RDONLY).map_err(open_error)?;
        let stat = calls.fstat(&buffered).map_err(open_error)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(open_error(Errno::ISDIR)),
            _ => return Err(open_error(Errno::INVAL)),
        }
        let (direct, fallback) = match mode {
            DirectMode::Off => (None, None),
            DirectMode::Auto | DirectMode::On => match open_direct(calls, path, &buffered) {
                Ok(direct) => (Some(direct), None),
                Err(reason) => (None, Some(refused(path, mode, reason)?)),
            },
        };
        Ok(Self {
            calls: calls.clone(),
            path: path.to_owned(),
            buffered,
            direct,
            mode,
            fallback,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            depth: queue_depth(stat.st_dev),
        })
    }

    /// The same open file once more.
    pub fn again(&self) -> Result<Self, SourceError> {
        let failed = |errno| SourceError::Open { path: self.path.clone(), errno };
        let duplicate = |file: &OwnedFd| self.calls.duplicate(file).map_err(failed);
        let direct = self.direct.as_ref();
        let direct = direct.map(|(file, direct)| duplicate(file).map(|file| (file, *direct)));
        let direct = direct.transpose()?;
        Ok(Self {
            calls: self.calls.clone(),
            path: self.path.clone(),
            buffered: duplicate(&self.buffered)?,
            direct,
            mode: self.mode,
            fallback: None,
            size: self.size,
            depth: self.depth,
        })
    }

    /// Its size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads at any place, through the page cache, to find out what it may tell.
    pub fn trial_read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.calls.trial_read(&self.buffered, buffer, offset)
    }

    /// To read it at any place, through the page cache.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.buffered.as_fd()
    }

    /// What identifies it, and when it was changed.
    pub fn stat(&self) -> Result<rustix::fs::Stat, SourceError> {
        let failed = |errno| SourceError::Open { path: self.path.clone(), errno };
        self.calls.fstat(&self.buffered).map_err(failed)
    }

    /// Takes the bytes of a range into a hasher, through the page cache, and says where it ended:
    /// before `to` if the file does.
    pub fn digest_range(
        &self,
        hasher: &mut Hasher,
        from: u64,
        to: u64,
    ) -> Result<u64, SourceError> {
        let mut buffer = vec![0; DIGEST_READ_BYTES];
        let mut offset = from;
        loop {
            let left = to.saturating_sub(offset);
            let left = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            match self.calls.pread(&self.buffered, &mut buffer[..left], offset) {
                Ok(0) => return Ok(offset),
                Ok(read) => {
                    hasher.update(&buffer[..read]);
                    offset += read as u64;
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => {
                    return Err(SourceError::Read { path: self.path.clone(), offset, errno });
                }
            }
        }
    }

    /// The first `count` bytes, or all if it has fewer, through the page cache.
    pub fn read_head(&self, count: usize) -> Result<Vec<u8>, SourceError> {
        let mut head = vec![0; count];
        let mut filled = 0;
        while filled < count {
            match self.calls.pread(&self.buffered, &mut head[filled..], filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => {
                    let path = self.path.clone();
                    return Err(SourceError::Read { path, offset: filled as u64, errno });
                }
            }
        }
        head.truncate(filled);
        Ok(head)
    }
}

/// Direct I/O cannot be had: an error if it was demanded, otherwise words for the report.
pub(crate) fn refused(
    path: &Path,
    mode: DirectMode,
    reason: String,
) -> Result<String, SourceError> {
    match mode {
        DirectMode::On => Err(SourceError::DirectRefused { path: path.to_owned(), reason }),
        DirectMode::Auto | DirectMode::Off => Ok(format!("buffered reads: {reason}")),
    }
}

/// The file opened again for direct I/O, or the reason why it cannot be.
fn open_direct(
    calls: &Syscalls,
    path: &Path,
    buffered: &OwnedFd,
) -> Result<(OwnedFd, DirectIo), String> {
    let direct = match calls.direct_support(buffered) {
        DirectSupport::Yes(direct) => direct,
        DirectSupport::No => return Err("the file system knows no direct I/O".to_owned()),
        // The alignment that every file system with direct I/O takes.
        DirectSupport::Unknown => DirectIo { offset_align: PAGE_BYTES, memory_align: PAGE_BYTES },
    };
    let refused = |errno: Errno| format!("the file system refuses it ({errno})");
    let file = open_noatime(calls, path, OFlags::RDONLY | OFlags::DIRECT).map_err(refused)?;
    let reopened = calls.fstat(&file).map_err(refused)?;
    let opened = calls.fstat(buffered).map_err(refused)?;
    if (reopened.st_dev, reopened.st_ino) != (opened.st_dev, opened.st_ino) {
        return Err("the file was replaced while it was opened".to_owned());
    }
    Ok((file, direct))
}

/// Without updating the access time, which only the file's owner may ask for.
fn open_noatime(calls: &Syscalls, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    match calls.open(path, flags | OFlags::NOATIME) {
        Err(Errno::PERM) => calls.open(path, flags),
        result => result,
    }
}
