//! `ArchiveFile`: a regular file and every descriptor needed to read it.

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

/// Bytes of one read when only a digest is computed. A guess.
const DIGEST_READ_BYTES: usize = 1 << 20;

/// An open regular file, with everything that reading it requires. Its owner need not open anything
/// else and may therefore give up the right to open files.
#[derive(Debug)]
pub struct ArchiveFile {
    pub(crate) calls: Syscalls,
    pub(crate) path: PathBuf,
    /// Descriptor for reads through the page cache.
    pub(crate) buffered: OwnedFd,
    /// Descriptor for direct I/O and its alignment, if requested and available.
    pub(crate) direct: Option<(OwnedFd, DirectIo)>,
    pub(crate) mode: DirectMode,
    /// Reason why the file is read through the page cache although direct I/O was requested.
    pub(crate) fallback: Option<String>,
    pub(crate) size: u64,
    /// Number of reads that the device can use in flight.
    pub(crate) depth: usize,
    /// `st_dev`.
    pub(crate) device: u64,
}

impl ArchiveFile {
    /// Opens a regular file without reading from it. `mode` says whether to bypass the page cache.
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
            device: stat.st_dev,
        })
    }

    /// Duplicates the descriptors, for a second reader of the same open file.
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
            device: self.device,
        })
    }

    /// Returns the size in bytes when the file was opened.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads at any offset through the page cache, to probe the file's contents.
    pub fn trial_read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.calls.trial_read(&self.buffered, buffer, offset)
    }

    /// Returns the descriptor for reads through the page cache.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.buffered.as_fd()
    }

    /// Returns the file's current attributes, such as its identity and the time of its last change.
    pub fn stat(&self) -> Result<rustix::fs::Stat, SourceError> {
        let failed = |errno| SourceError::Open { path: self.path.clone(), errno };
        self.calls.fstat(&self.buffered).map_err(failed)
    }

    /// Adds the bytes from `from` to `to` to a hasher, read through the page cache. Returns the
    /// offset at which it stopped, which is before `to` if the file ends earlier.
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

    /// Reads the first `count` bytes, or all if the file has fewer, through the page cache.
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

/// Handles a refusal of direct I/O: returns an error if direct I/O was required, and otherwise a
/// text for the report.
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

/// Opens the file again for direct I/O. Returns the reason if that is impossible.
fn open_direct(
    calls: &Syscalls,
    path: &Path,
    buffered: &OwnedFd,
) -> Result<(OwnedFd, DirectIo), String> {
    let direct = match calls.direct_support(buffered) {
        DirectSupport::Yes(direct) => direct,
        DirectSupport::No => return Err("the file system does not support direct I/O".to_owned()),
        // Every file system with direct I/O accepts this alignment.
        DirectSupport::Unknown => DirectIo { offset_align: PAGE_BYTES, memory_align: PAGE_BYTES },
    };
    let refused = |errno: Errno| format!("the file system refuses direct reads ({errno})");
    let file = open_noatime(calls, path, OFlags::RDONLY | OFlags::DIRECT).map_err(refused)?;
    let reopened = calls.fstat(&file).map_err(refused)?;
    let opened = calls.fstat(buffered).map_err(refused)?;
    if (reopened.st_dev, reopened.st_ino) != (opened.st_dev, opened.st_ino) {
        return Err("the file was replaced while being opened".to_owned());
    }
    Ok((file, direct))
}

/// Opens without updates of the access time, which the kernel allows only to the file's owner.
fn open_noatime(calls: &Syscalls, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    match calls.open(path, flags | OFlags::NOATIME) {
        Err(Errno::PERM) => calls.open(path, flags),
        result => result,
    }
}
