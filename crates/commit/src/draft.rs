//! A single file under construction: complete and durable under its final name, or not there.

use std::{
    ffi::{OsStr, OsString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use unsnap_failure::{Code, Failure, Family, Remedy};
use unsnap_pass::{Unfinished, UnfinishedPath};
use unsnap_ring::Syscalls;

/// Suffix of the name of a file under construction. Its name also begins with a dot, so that
/// validators, which look for archives by name, ignore it.
const UNDER_CONSTRUCTION: &str = ".unsnap-partial";

/// A file under construction, beside its final name. It is removed if dropped before it is published
/// or kept.
///
/// The file is locked while a process writes it. An unlocked file was left by a killed run and is
/// reused.
#[derive(Debug)]
pub struct Draft {
    calls: Syscalls,
    directory: OwnedFd,
    path: PathBuf,
    name: OsString,
    replace: bool,
    file: Arc<OwnedFd>,
    /// Empty when the file has its final name.
    temporary: OsString,
    /// Whether it stays where it is when this is dropped.
    stays: bool,
    unfinished: UnfinishedPath,
}

/// Failure to make or publish a file under construction.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The path does not name a file.
    #[error("{} does not name a file", path.display())]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// There is no such directory.
    #[error("there is no directory {}", holder.display())]
    NoDirectory {
        /// The directory.
        holder: PathBuf,
    },
    /// A file exists under the final name.
    #[error("{} exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Another process is writing the same file.
    #[error("another process is writing {}", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {step} {}: {errno}", path.display())]
    Failed {
        /// The step, as a verb.
        step: &'static str,
        /// The directory, or the final path of the file.
        path: PathBuf,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl Failure for DraftError {
    fn family(&self) -> Family {
        match self {
            Self::NoName { .. } | Self::NoDirectory { .. } => Family::Request,
            Self::Exists { .. } | Self::Locked { .. } => Family::NotClean,
            Self::Failed { .. } => Family::Environment,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::NoName { .. } | Self::NoDirectory { .. } => Code::Request,
            Self::Exists { .. } => Code::NotClean,
            Self::Locked { .. } => Code::Locked,
            Self::Failed { errno, .. } => Code::of_errno(*errno),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::NoName { .. } => Some(Remedy::advice("give the name of an archive")),
            Self::NoDirectory { .. } => Some(Remedy::advice("make the directory first")),
            Self::Exists { .. } => {
                Some(Remedy::advice("unpack that file, or keep the archive in another directory"))
            }
            Self::Locked { .. } => Some(Remedy::WaitOrMove),
            Self::Failed { errno, .. } => Remedy::of_errno(*errno),
        }
    }

    fn errno(&self) -> Option<Errno> {
        match self {
            Self::Failed { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

impl Draft {
    /// Opens the file under construction for `path`, in an existing directory: a new one, or one that
    /// a killed run has left, with its content. `replace`: an existing file may be replaced. Notes the
    /// file in `unfinished` as long as it is under construction.
    pub fn open(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: &Path,
        replace: bool,
    ) -> Result<Self, DraftError> {
        let name = path.file_name().ok_or_else(|| DraftError::NoName { path: path.to_owned() })?;
        let failed = |step| failed(step, path);
        let holder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let directory = calls.open(holder, flags).map_err(|errno| match errno {
            Errno::NOENT => DraftError::NoDirectory { holder: holder.to_owned() },
            errno => DraftError::Failed { step: "open", path: holder.to_owned(), errno },
        })?;
        if !replace {
            match calls.lstatat(&directory, name) {
                Err(Errno::NOENT) => {}
                Ok(_) => return Err(DraftError::Exists { path: path.to_owned() }),
                Err(errno) => return Err(failed("examine")(errno)),
            }
        }
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(UNDER_CONSTRUCTION);
        let unfinished = unfinished.begin(path.with_file_name(&temporary));
        let file = Arc::new(begin(calls, &directory, &temporary, path)?);
        Ok(Self {
            calls: calls.clone(),
            directory,
            path: path.to_owned(),
            name: name.to_owned(),
            replace,
            file,
            temporary,
            stays: false,
            unfinished,
        })
    }

    /// Returns the final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path as long as the file is under construction.
    pub fn temporary_path(&self) -> PathBuf {
        self.path.with_file_name(&self.temporary)
    }

    /// Returns the file, which is open for reading and writing.
    pub fn file(&self) -> &Arc<OwnedFd> {
        &self.file
    }

    /// Returns the directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Renames the file to its final name, durably. It must have been synced.
    pub fn publish(&mut self) -> Result<(), DraftError> {
        let failed = |step| failed(step, &self.path);
        let (directory, from, to) = (&self.directory, &*self.temporary, &*self.name);
        let renamed = if self.replace {
            self.calls.renameat(directory, from, directory, to)
        } else {
            match self.calls.renameat_to_new(directory, from, directory, to) {
                // The file system does not support this. A hard link does not replace a file
                // either.
                Err(Errno::INVAL) => self
                    .calls
                    .linkat(directory, from, directory, to)
                    .and_then(|()| self.calls.unlinkat(directory, from, AtFlags::empty())),
                renamed => renamed,
            }
        };
        match renamed {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(DraftError::Exists { path: self.path.clone() }),
            Err(errno) => return Err(failed("publish")(errno)),
        }
        let synced = self.sync_directory();
        self.temporary.clear();
        self.unfinished.finish();
        synced
    }

    /// Decides whether the file stays as it is when this is dropped, for a later run.
    pub fn set_stays(&mut self, stays: bool) {
        self.stays = stays;
    }

    /// Removes the file beside it that has this name, durably. Returns whether there was one.
    pub fn remove_beside(&self, name: &OsStr) -> Result<bool, DraftError> {
        match self.calls.unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) => self.sync_directory().map(|()| true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => {
                let path = self.path.with_file_name(name);
                Err(DraftError::Failed { step: "remove", path, errno })
            }
        }
    }

    fn sync_directory(&self) -> Result<(), DraftError> {
        let failed = failed("sync the directory of", &self.path);
        // `fsync` on a directory succeeds on an XFS that has shut down; `fstat` fails.
        let synced = self.calls.fsync(&self.directory);
        synced.and_then(|()| self.calls.fstat(&self.directory)).map(drop).map_err(failed)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.stays || self.temporary.is_empty() {
            return;
        }
        let removed = self.calls.unlinkat(&self.directory, &*self.temporary, AtFlags::empty());
        if let Err(errno) = removed {
            tracing::warn!(name = ?self.temporary, %errno, "the unfinished file cannot be removed");
        }
    }
}

/// Opens the file under construction, a new one or one left by a killed run, and locks it.
fn begin(
    calls: &Syscalls,
    directory: &OwnedFd,
    temporary: &OsString,
    path: &Path,
) -> Result<OwnedFd, DraftError> {
    let failed = |step| failed(step, path);
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    loop {
        let file = calls
            .openat(directory, temporary.as_os_str(), flags, mode)
            .map_err(failed("create"))?;
        match calls.lock(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(DraftError::Locked { path: path.to_owned() }),
            Err(errno) => return Err(failed("lock")(errno)),
        }
        // The former holder of the lock may have published or removed the file since it was opened.
        let opened = calls.fstat(&file).map_err(failed("examine"))?;
        match calls.lstatat(directory, temporary.as_os_str()) {
            Ok(named) if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino) => {
                return Ok(file);
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed("examine")(errno)),
        }
    }
}

fn failed(step: &'static str, path: &Path) -> impl Fn(Errno) -> DraftError + use<> {
    let path = path.to_owned();
    move |errno| DraftError::Failed { step, path: path.clone(), errno }
}
