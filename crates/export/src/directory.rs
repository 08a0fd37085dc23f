//! The directory of an export: while it is made, and when it is read again.

use std::{
    ffi::CString,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use unsnap_commit::{CommitError, Target};
use unsnap_ring::{DirectMode, Syscalls};

use crate::{ExportError, Problem};

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// The directory of an export.
#[derive(Clone)]
pub(crate) struct Directory<'a> {
    pub calls: Syscalls,
    opened: &'a OwnedFd,
    /// The final path, for messages.
    path: &'a Path,
    pub direct: DirectMode,
}

impl<'a> Directory<'a> {
    /// Returns the output directory of a target. `path` is its final path.
    pub fn of(target: &'a Target, path: &'a Path, direct: DirectMode) -> Option<Self> {
        let directory = target.directories.first()?;
        Some(Self { calls: target.calls.clone(), opened: directory, path, direct })
    }

    /// Returns an existing directory, which is only read.
    pub fn existing(calls: &Syscalls, opened: &'a OwnedFd, path: &'a Path) -> Self {
        Self { calls: calls.clone(), opened, path, direct: DirectMode::Off }
    }

    pub fn failed(&self, step: &'static str, name: &str) -> impl Fn(Errno) -> ExportError + use<> {
        let path = self.path_of(name);
        move |errno| CommitError::Staging { step, path: path.clone(), errno }.into()
    }

    pub fn make_directory(&self, name: &str) -> Result<(), ExportError> {
        let mode = Mode::from_raw_mode(DIRECTORY_MODE);
        self.calls.mkdirat(self.opened, name, mode).map_err(self.failed("make", name))
    }

    pub fn create(&self, name: &str) -> Result<OwnedFd, ExportError> {
        let mode = Mode::from_raw_mode(FILE_MODE);
        let created = self.calls.create_beneath(self.opened, name, mode);
        created.map_err(self.failed("create", name))
    }

    /// Writes a small file.
    pub fn write_file(&self, name: &str, mut bytes: &[u8]) -> Result<(), ExportError> {
        let file = self.create(name)?;
        let failed = self.failed("write to", name);
        while !bytes.is_empty() {
            match self.calls.write(&file, bytes).map_err(&failed)? {
                0 => return Err(failed(Errno::NOSPC)),
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }

    /// Opens a file for reading.
    pub fn open(&self, name: &str) -> Result<OwnedFd, ExportError> {
        self.open_as(name, OFlags::RDONLY | OFlags::NONBLOCK).map_err(self.failed("open", name))
    }

    /// Opens a file below the directory without following links. NONBLOCK, since it may be a pipe.
    pub fn open_as(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        self.calls.openat2(self.opened, name, flags | OFlags::CLOEXEC, resolve)
    }

    /// Returns the names in the directory.
    pub fn entries(&self) -> Result<Vec<(CString, FileType)>, ExportError> {
        self.calls.entries(self.opened).map_err(self.failed("list", ""))
    }

    /// Returns the names in a directory below.
    pub fn entries_of(&self, name: &str) -> Result<Vec<(CString, FileType)>, ExportError> {
        let opened = self.open_as(name, OFlags::RDONLY | OFlags::DIRECTORY);
        let entries = opened.and_then(|opened| self.calls.entries(opened));
        entries.map_err(self.failed("list", name))
    }

    /// Returns the error about a file, or about the directory if the name is empty.
    pub fn bad(&self, name: &str, problem: impl Into<Box<Problem>>) -> ExportError {
        ExportError::BadExport { path: self.path_of(name), problem: problem.into() }
    }

    /// Returns the final path of a file; of the directory if the name is empty.
    pub fn path_of(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.to_owned() } else { self.path.join(name) }
    }
}
