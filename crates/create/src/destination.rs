//! A directory below which files are created.

use std::{
    collections::HashSet,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use unsnap_ring::{DirectIo, DirectMode, DirectSupport, Syscalls};

use crate::{CreateError, FILE_BLOCK_BYTES};

/// Permissions of every file and directory, whatever the archive says.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Payloads begin at multiples of 512 of the tar stream, so that is how their memory is aligned.
const PAYLOAD_ALIGN: usize = 512;

/// A file that is made and removed to see what the file system does.
const PROBE_NAME: &str = ".unsnap-probe";

/// Directories remembered as made. A bound on memory, not on directories.
const KNOWN_DIRECTORIES_MAX: usize = 4096;

/// A directory below which files are created, and what its file system can do.
#[derive(Debug)]
pub struct Destination {
    calls: Syscalls,
    directory: Arc<OwnedFd>,
    /// What messages call it: where its files will be found in the end.
    path: PathBuf,
    device: u64,
    direct: Option<DirectIo>,
    fallback: Option<String>,
    force_mode: bool,
    known: HashSet<Box<str>>,
    directories_made: u64,
}

impl Destination {
    /// Looks at an open directory by creating a file in it and removing it again.
    ///
    /// `path` is what messages call it.
    pub fn open(
        calls: Syscalls,
        directory: OwnedFd,
        path: PathBuf,
        mode: DirectMode,
    ) -> Result<Self, CreateError> {
        let at = |step, errno| CreateError::File { step, path: path.join(PROBE_NAME), errno };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file_mode = Mode::from_raw_mode(FILE_MODE);
        let create = || calls.openat(&directory, PROBE_NAME, flags, file_mode);
        let probe = create()
            .or_else(|errno| match errno {
                // An interrupted run may have left its own.
                Errno::EXIST => {
                    let _ = calls.unlinkat(&directory, PROBE_NAME, AtFlags::empty());
                    let _ = calls.unlinkat(&directory, PROBE_NAME, AtFlags::REMOVEDIR);
                    create()
                }
                errno => Err(errno),
            })
            .map_err(|errno| at("create", errno))?;
        let stat = calls.fstat(&probe).map_err(|errno| at("look at", errno))?;
        let direct = match mode {
            DirectMode::Off => Err(None),
            DirectMode::Auto | DirectMode::On => {
                usable_direct(&calls, &probe, &directory).map_err(Some)
            }
        };
        calls
            .unlinkat(&directory, PROBE_NAME, AtFlags::empty())
            .map_err(|errno| at("remove", errno))?;
        let directory_mode = Mode::from_raw_mode(DIRECTORY_MODE);
        calls
            .mkdirat(&directory, PROBE_NAME, directory_mode)
            .map_err(|errno| at("create", errno))?;
        let made = calls.lstatat(&directory, PROBE_NAME);
        calls
            .unlinkat(&directory, PROBE_NAME, AtFlags::REMOVEDIR)
            .map_err(|errno| at("remove", errno))?;
        let made = made.map_err(|errno| at("look at", errno))?;
        let (direct, fallback) = match direct {
            Ok(direct) => (Some(direct), None),
            Err(None) => (None, None),
            Err(Some(reason)) if mode == DirectMode::On => {
                return Err(CreateError::DirectRefused { path, reason });
            }
            Err(Some(reason)) => (None, Some(format!("buffered writes: {reason}"))),
        };
        Ok(Self {
            calls,
            directory: Arc::new(directory),
            path,
            device: stat.st_dev,
            direct,
            fallback,
            // The umask or a default ACL takes bits away (or adds some): set them file by file.
            force_mode: stat.st_mode & 0o7777 != FILE_MODE
                || made.st_mode & 0o777 != DIRECTORY_MODE,
            known: HashSet::new(),
            directories_made: 0,
        })
    }

    /// The device it lies on.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Alignment of direct writes, where they are possible and wanted.
    pub fn direct(&self) -> Option<DirectIo> {
        self.direct
    }

    /// What was wanted and could not be had, in words.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Directories made so far, implied ones included.
    pub fn directories_made(&self) -> u64 {
        self.directories_made
    }

    /// The same destination, for another who creates files in it at the same time. Says no more
    /// about fallbacks.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            calls: self.calls.clone(),
            directory: Arc::clone(&self.directory),
            path: self.path.clone(),
            device: self.device,
            direct: self.direct,
            fallback: None,
            force_mode: self.force_mode,
            known: HashSet::new(),
            directories_made: 0,
        }
    }

    pub(crate) fn handle(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file_mode(&self) -> (u32, bool) {
        (FILE_MODE, self.force_mode)
    }

    /// Makes a directory, and those above it, unless they are there already.
    pub fn make_directory(&mut self, path: &str) -> Result<(), CreateError> {
        if self.known.contains(path) {
            return Ok(());
        }
        let (parent, name) = match path.rsplit_once('/') {
            Some((parent, name)) => {
                self.make_directory(parent)?;
                (Some(parent), name)
            }
            None => (None, path),
        };
        let at = |step, errno| CreateError::Directory { step, path: self.path.join(path), errno };
        let above = match parent {
            None => None,
            Some(parent) => {
                let flags = OFlags::DIRECTORY | OFlags::PATH;
                Some(self.open_beneath(parent, flags).map_err(|errno| at("open", errno))?)
            }
        };
        let above = above.as_ref().map_or(self.directory.as_fd(), |above| above.as_fd());
        match self.calls.mkdirat(above, name, Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) => self.directories_made += 1,
            // The layout has refused doubles; this one was implied by a file before.
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(at("create", errno)),
        }
        if self.force_mode {
            let opened = self
                .open_beneath(path, OFlags::DIRECTORY | OFlags::RDONLY)
                .map_err(|errno| at("open", errno))?;
            self.calls
                .fchmod(&opened, Mode::from_raw_mode(DIRECTORY_MODE))
                .map_err(|errno| at("set the mode of", errno))?;
        }
        if self.known.len() >= KNOWN_DIRECTORIES_MAX {
            self.known.clear();
        }
        self.known.insert(path.into());
        Ok(())
    }

    fn open_beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        self.calls.openat2(&self.directory, path, flags | OFlags::CLOEXEC, resolve)
    }
}

/// Whether direct writes from segments work here; the reason if not.
fn usable_direct(
    calls: &Syscalls,
    probe: &OwnedFd,
    directory: &OwnedFd,
) -> Result<DirectIo, String> {
    let direct = match calls.direct_support(probe) {
        DirectSupport::Yes(direct) => direct,
        DirectSupport::No => return Err("the file system knows no direct I/O".to_owned()),
        // The kernel does not tell; the write below will.
        DirectSupport::Unknown => {
            DirectIo { offset_align: FILE_BLOCK_BYTES, memory_align: PAYLOAD_ALIGN }
        }
    };
    let DirectIo { offset_align, memory_align } = direct;
    if memory_align > PAYLOAD_ALIGN || !FILE_BLOCK_BYTES.is_multiple_of(offset_align) {
        return Err(format!(
            "the file system asks for an alignment of {memory_align} bytes in memory and \
             {offset_align} in the file, payloads have {PAYLOAD_ALIGN} and {FILE_BLOCK_BYTES}"
        ));
    }
    // Claims are one thing: write a block from memory that is aligned no better than a payload.
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::DIRECT;
    let refused = |errno| format!("the file system refuses direct writes ({errno})");
    let file = calls.openat(directory, PROBE_NAME, flags, Mode::empty()).map_err(refused)?;
    let memory = vec![0_u8; 3 * FILE_BLOCK_BYTES];
    let to_page = memory.as_ptr().addr().wrapping_neg() % FILE_BLOCK_BYTES;
    let start = to_page + PAYLOAD_ALIGN;
    match calls.trial_write(&file, &memory[start..start + FILE_BLOCK_BYTES], 0) {
        Err(errno @ (Errno::INVAL | Errno::OPNOTSUPP)) => Err(refused(errno)),
        // A full disk, say, is no reason to write another way; it will be reported in its place.
        _ => Ok(direct),
    }
}
