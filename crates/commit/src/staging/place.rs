//! A single destination: its staging directory and its publication.

use std::{
    ffi::{CStr, CString, OsStr},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use unsnap_failure::Remedy;
use unsnap_pass::{Unfinished, UnfinishedPath};
use unsnap_ring::Syscalls;

use super::{
    files::{empty, names_directory},
    names::{MARKS, STAGING_NAME},
    taking::{Contents, c_string, check_empty, is_mount_point, make_staging, open_holder},
};
use crate::{CommitError, journal::remove_journal, mount::is_same_mount};

/// A requested destination.
#[derive(Clone, Debug)]
pub struct Spot {
    /// Path of the destination.
    pub path: PathBuf,
    /// Treatment of existing files.
    pub existing: Existing,
}

/// Treatment of existing files at a destination.
#[derive(Clone, Debug)]
pub enum Existing {
    /// The destination must be absent or empty.
    MustBeEmpty,
    /// The caller clears the destination before publishing. An empty directory may remain.
    WillBeCleared {
        /// Directory in which the staging directory is made, if files can be renamed from there to
        /// the destination.
        stage_in: Option<PathBuf>,
        /// Name of the staging directory.
        stage_as: &'static str,
    },
}

impl Spot {
    /// Returns a destination that must be absent or empty.
    pub fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), existing: Existing::MustBeEmpty }
    }
}

/// A destination and its staging directory.
#[derive(Debug)]
pub(super) struct Place {
    pub calls: Syscalls,
    /// Path of the destination.
    pub path: PathBuf,
    /// Directory that holds the destination, or the destination itself if it is filled in place.
    pub holder: OwnedFd,
    /// Directory that holds the staging directory, if it is not `holder`.
    pub stage_in: Option<OwnedFd>,
    /// Name of the staging directory.
    pub staging_name: CString,
    /// The staging directory, locked.
    pub staging: OwnedFd,
    /// Notes the staging directory.
    pub unfinished: UnfinishedPath,
    /// Whether an interrupted run made the staging directory.
    pub left_over: bool,
    /// How the destination gets its name.
    pub publication: Publication,
}

/// Way in which a destination gets its name.
#[derive(Debug)]
pub(super) enum Publication {
    /// Renames the staging directory to `name` in the holder. `replaces_empty` tells whether an
    /// empty directory of that name exists.
    Rename { name: CString, replaces_empty: bool },
    /// The same, where only publishing finds out whether there is an empty directory.
    RenameWhenCleared { name: CString, replaced_empty: bool },
    /// Renames each entry into the holder, which is the destination. `moved` lists those done.
    MoveEntries { moved: Vec<CString> },
}

impl Place {
    /// Makes and locks the staging directory for a destination. `path` must be free of links.
    pub fn prepare(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: PathBuf,
        existing: &Existing,
        resume: bool,
    ) -> Result<Self, CommitError> {
        if let Existing::WillBeCleared { stage_in, stage_as } = existing {
            let stage_in = stage_in.as_deref();
            return Self::replacing(calls, unfinished, path, stage_in, stage_as, resume);
        }
        let at = |step, errno| CommitError::Staging { step, path: path.clone(), errno };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let existing = match calls.open(&path, flags) {
            Ok(directory) => Some((check_empty(calls, &directory, &path)?, directory)),
            Err(Errno::NOENT) => None,
            Err(Errno::NOTDIR) => {
                return Err(CommitError::NotClean {
                    path,
                    reason: "exists and is not a directory",
                });
            }
            Err(errno) => return Err(at("open", errno)),
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            // The root directory is a mount point without a parent.
            let Some((_, destination)) = existing else { return Err(at("open", Errno::NOENT)) };
            return Self::inside(calls, unfinished, path, destination, resume);
        };
        let holder = open_holder(calls, parent)?;
        match existing {
            // A rename cannot replace such a directory.
            Some((contents, destination))
                if contents == Contents::Harmless
                    || is_mount_point(calls, &holder, &destination)
                        .map_err(|errno| at("look at", errno))? =>
            {
                Self::inside(calls, unfinished, path, destination, resume)
            }
            Some((_, destination)) => {
                match Self::beside(calls, unfinished, path.clone(), holder, name, true, resume) {
                    Err(CommitError::Staging {
                        errno: Errno::ACCESS | Errno::ROFS | Errno::PERM,
                        ..
                    }) => Self::inside(calls, unfinished, path, destination, resume),
                    result => result,
                }
            }
            None => Self::beside(calls, unfinished, path.clone(), holder, name, false, resume),
        }
    }

    /// Stages a destination that is to be cleared before publication.
    fn replacing(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: PathBuf,
        stage_in: Option<&Path>,
        stage_as: &str,
        resume: bool,
    ) -> Result<Self, CommitError> {
        let at = |step, errno| CommitError::Staging { step, path: path.clone(), errno };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(at("replace", Errno::BUSY));
        };
        let holder = open_holder(calls, parent)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        match calls.open(&path, flags) {
            Ok(existing) => {
                if is_mount_point(calls, &holder, &existing)
                    .map_err(|errno| at("look at", errno))?
                {
                    let reason =
                        format!("{} is a mount point and cannot be replaced", path.display());
                    let remedy = Remedy::advice(format!(
                        "mount the file system on {} instead",
                        parent.display()
                    ));
                    return Err(CommitError::Request { reason, remedy });
                }
            }
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR) => {
                return Err(CommitError::NotClean {
                    path,
                    reason: "exists and is not a directory",
                });
            }
            Err(errno) => return Err(at("open", errno)),
        }
        let stage_in = stage_in
            .map(|path| Ok::<_, CommitError>((path, open_holder(calls, path)?)))
            .transpose()?;
        let is_same = |other: &OwnedFd| {
            is_same_mount(calls, other, &holder).map_err(|errno| at("look at", errno))
        };
        let stage_in = match stage_in {
            Some((path, other)) if is_same(&other)? => Some((path, other)),
            _ => None,
        };
        let around = stage_in.as_ref().map_or(parent, |(path, _)| path);
        let unfinished = unfinished.begin(around.join(stage_as));
        let stage_in = stage_in.map(|(_, directory)| directory);
        let staging_name = c_string(OsStr::new(stage_as), &path)?;
        let name = c_string(name, &path)?;
        let around = stage_in.as_ref().unwrap_or(&holder);
        let (staging, left_over) = make_staging(calls, around, &staging_name, &path, resume)?;
        let publication = Publication::RenameWhenCleared { name, replaced_empty: false };
        let calls = calls.clone();
        Ok(Self {
            calls,
            path,
            holder,
            stage_in,
            staging_name,
            staging,
            unfinished,
            left_over,
            publication,
        })
    }

    /// Returns the directory that holds the staging directory.
    pub fn staging_holder(&self) -> &OwnedFd {
        self.stage_in.as_ref().unwrap_or(&self.holder)
    }

    /// Stages beside the destination.
    fn beside(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: PathBuf,
        holder: OwnedFd,
        name: &OsStr,
        replaces_empty: bool,
        resume: bool,
    ) -> Result<Self, CommitError> {
        let name = c_string(name, &path)?;
        let staging_name = [b".", name.as_bytes(), STAGING_NAME.as_bytes()].concat();
        let unfinished = unfinished.begin(path.with_file_name(OsStr::from_bytes(&staging_name)));
        let staging_name = c_string(OsStr::from_bytes(&staging_name), &path)?;
        let (staging, left_over) = make_staging(calls, &holder, &staging_name, &path, resume)?;
        let publication = Publication::Rename { name, replaces_empty };
        Ok(Self {
            calls: calls.clone(),
            path,
            holder,
            stage_in: None,
            staging_name,
            staging,
            unfinished,
            left_over,
            publication,
        })
    }

    /// Stages inside the destination.
    fn inside(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: PathBuf,
        destination: OwnedFd,
        resume: bool,
    ) -> Result<Self, CommitError> {
        let unfinished = unfinished.begin(path.join(STAGING_NAME));
        let staging_name = c_string(OsStr::new(STAGING_NAME), &path)?;
        let (staging, left_over) = make_staging(calls, &destination, &staging_name, &path, resume)?;
        let publication = Publication::MoveEntries { moved: Vec::new() };
        let calls = calls.clone();
        Ok(Self {
            calls,
            path,
            holder: destination,
            stage_in: None,
            staging_name,
            staging,
            unfinished,
            left_over,
            publication,
        })
    }

    /// Returns the error for a failed system call.
    pub fn error(&self, step: &'static str, errno: Errno) -> CommitError {
        CommitError::Staging { step, path: self.path.clone(), errno }
    }

    /// Removes the journal and gives the destination its final name, durably.
    pub fn publish(&mut self) -> Result<(), CommitError> {
        let at = |step, errno| CommitError::Staging { step, path: self.path.clone(), errno };
        let calls = &self.calls;
        if !matches!(self.publication, Publication::MoveEntries { .. }) {
            self.check_name(self.staging_holder(), &self.staging_name)?;
        }
        // Removed only now, so that a run interrupted before this point can be resumed.
        remove_journal(calls, &self.staging).map_err(|errno| at("remove the journal of", errno))?;
        match &mut self.publication {
            Publication::Rename { name, replaces_empty: true } => {
                // Replaces only an empty directory.
                calls.renameat(&self.holder, &*self.staging_name, &self.holder, &**name)
            }
            Publication::Rename { name, replaces_empty: false } => {
                calls.rename_to_own(&self.holder, &self.staging_name, &self.holder, &*name)
            }
            Publication::RenameWhenCleared { name, replaced_empty } => {
                let from = self.stage_in.as_ref().unwrap_or(&self.holder);
                *replaced_empty = calls.lstatat(&self.holder, &**name).is_ok();
                if *replaced_empty {
                    // Fails on anything but an empty directory.
                    calls.renameat(from, &*self.staging_name, &self.holder, &**name)
                } else {
                    calls.rename_to_own(from, &self.staging_name, &self.holder, &*name)
                }
            }
            Publication::MoveEntries { moved } => {
                let mut entries =
                    calls.entries(&self.staging).map_err(|errno| at("read", errno))?;
                // The entry that marks the rest as complete is moved last.
                entries.sort_by_key(|(name, _)| MARKS.contains(&&**name));
                entries
                    .into_iter()
                    .try_for_each(|(name, _)| {
                        calls.rename_to_own(&self.staging, &name, &self.holder, &name)?;
                        moved.push(name);
                        Ok(())
                    })
                    .and_then(|()| {
                        calls.unlinkat(&self.holder, &*self.staging_name, AtFlags::REMOVEDIR)
                    })
            }
        }
        .map_err(|errno| match errno {
            Errno::NOTEMPTY | Errno::EXIST => CommitError::NotClean {
                path: self.path.clone(),
                reason: "was filled by another process in the meantime",
            },
            errno => at("publish", errno),
        })?;
        if let Publication::Rename { name, .. } | Publication::RenameWhenCleared { name, .. } =
            &self.publication
        {
            self.check_name(&self.holder, name)?;
        }
        self.calls.fsync(&self.holder).map_err(|errno| at("sync the directory of", errno))?;
        // After XFS has shut down, fsync of a directory still succeeds: the change has been
        // dropped, so there is nothing to wait for (xfs_dir_fsync, Linux 6.18). fstat reports the
        // error.
        self.calls.fstat(&self.holder).map_err(|errno| at("sync the directory of", errno))?;
        if let Some(other) = &self.stage_in {
            self.calls.fsync(other).map_err(|errno| at("sync the directory of", errno))?;
        }
        Ok(())
    }

    /// Checks that `name` is still that of the staging directory. A rename takes names, not
    /// descriptors, so this is checked before and after it. Then the published directory is the
    /// staged one, whatever other processes have put in its place.
    fn check_name(&self, holder: &OwnedFd, name: &CStr) -> Result<(), CommitError> {
        match names_directory(&self.calls, holder, name, &self.staging) {
            Ok(true) => Ok(()),
            Ok(false) | Err(Errno::NOENT) => {
                let reason = "had its staging directory replaced by another process";
                Err(CommitError::NotClean { path: self.path.clone(), reason })
            }
            Err(errno) => Err(self.error("look at the staging directory of", errno)),
        }
    }

    /// Removes the staging directory and everything in it.
    pub fn remove(&self) -> Result<(), CommitError> {
        // Opened by name, since a withdrawn publication may have recreated the directory.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let around = self.staging_holder();
        let staging = self.calls.openat(around, &*self.staging_name, flags, Mode::empty());
        let staging =
            staging.map_err(|errno| self.error("open the staging directory of", errno))?;
        empty(&self.calls, &staging)
            .map_err(|errno| self.error("remove staged files of", errno))?;
        self.calls
            .unlinkat(around, &*self.staging_name, AtFlags::REMOVEDIR)
            .map_err(|errno| self.error("remove the staging directory of", errno))
    }
}
