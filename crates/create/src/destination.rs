//! Destination: a directory below which files are created.

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

/// Permissions of files and directories, whatever the archive says.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Alignment of payloads in memory, in bytes: they begin at multiples of 512 in the tar stream.
const PAYLOAD_ALIGN: usize = 512;

/// Name of a file and directory created and removed to probe the file system.
const PROBE_NAME: &str = ".unsnap-probe";

/// Maximum number of directories remembered as created. Bounds memory, not the number of
/// directories.
const KNOWN_DIRECTORIES_MAX: usize = 4096;

/// A directory below which files are created, with the capabilities of its file system.
#[derive(Debug)]
pub struct Destination {
    calls: Syscalls,
    directory: Arc<OwnedFd>,
    /// Final path of the directory, used in messages.
    path: PathBuf,
    device: u64,
    direct: Option<DirectIo>,
    fallback: Option<String>,
    force_mode: bool,
    known: HashSet<Box<str>>,
    directories_made: u64,
}

impl Destination {
    /// Probes an open directory by creating and removing a file and a directory in it.
    ///
    /// Messages use `path` as its name.
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
                // An interrupted run may have left its probe file.
                Errno::EXIST => {
                    let _ = calls.unlinkat(&directory, PROBE_NAME, AtFlags::empty());
                    let _ = calls.unlinkat(&directory, PROBE_NAME, AtFlags::REMOVEDIR);
                    create()
                }
                errno => Err(errno),
            })
            .map_err(|errno| at("create", errno))?;
        let stat = calls.fstat(&probe).map_err(|errno| at("examine", errno))?;
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
        let made = made.map_err(|errno| at("examine", errno))?;
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
            // The umask or a default ACL clears or adds bits, so the mode of each file must be set.
            force_mode: stat.st_mode & 0o7777 != FILE_MODE
                || made.st_mode & 0o777 != DIRECTORY_MODE,
            known: HashSet::new(),
            directories_made: 0,
        })
    }

    /// Returns the device of the directory (`st_dev`).
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Returns the alignment of direct writes, if they are possible and requested.
    pub fn direct(&self) -> Option<DirectIo> {
        self.direct
    }

    /// Returns the reason for buffered writes, if direct I/O was requested but is not available.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Returns the number of directories created so far, including implied ones.
    pub fn directories_made(&self) -> u64 {
        self.directories_made
    }

    /// Returns another handle on the destination, for a second stream of files. It reports no
    /// fallback.
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

    /// Counts the destination as one on another device, which gets creators of its own. For a
    /// modelled [`Machine`](unsnap_ring::Machine).
    #[must_use]
    pub fn on_device(mut self, device: u64) -> Self {
        self.device = device;
        self
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

    /// Creates a directory and its parents, unless they exist.
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
            // The layout has refused duplicates, so an earlier file has implied this directory.
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

/// Returns the alignment for direct writes from segments, or the reason why they do not work.
fn usable_direct(
    calls: &Syscalls,
    probe: &OwnedFd,
    directory: &OwnedFd,
) -> Result<DirectIo, String> {
    let direct = match calls.direct_support(probe) {
        DirectSupport::Yes(direct) => direct,
        DirectSupport::No => return Err("the file system does not support direct I/O".to_owned()),
        // The kernel does not report it; the write below shows it.
        DirectSupport::Unknown => {
            DirectIo { offset_align: FILE_BLOCK_BYTES, memory_align: PAYLOAD_ALIGN }
        }
    };
    let DirectIo { offset_align, memory_align } = direct;
    if memory_align > PAYLOAD_ALIGN || !FILE_BLOCK_BYTES.is_multiple_of(offset_align) {
        return Err(format!(
            "the file system requires an alignment of {memory_align} bytes in memory and \
             {offset_align} in the file; payloads have {PAYLOAD_ALIGN} and {FILE_BLOCK_BYTES}"
        ));
    }
    // Do not trust the reported alignment: write a block from memory that is aligned no better than
    // a payload.
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::DIRECT;
    let refused = |errno| format!("the file system refuses direct writes ({errno})");
    let file = calls.openat(directory, PROBE_NAME, flags, Mode::empty()).map_err(refused)?;
    let memory = vec![0_u8; 3 * FILE_BLOCK_BYTES];
    let to_page = memory.as_ptr().addr().wrapping_neg() % FILE_BLOCK_BYTES;
    let start = to_page + PAYLOAD_ALIGN;
    match calls.trial_write(&file, &memory[start..start + FILE_BLOCK_BYTES], 0) {
        Err(errno @ (Errno::INVAL | Errno::OPNOTSUPP)) => Err(refused(errno)),
        // Other errors, such as a full disk, do not rule out direct writes. The run reports them
        // when they matter.
        _ => Ok(direct),
    }
}
