//! One destination: its staging directory, and how it gets its name.

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
use unsnap_ring::Syscalls;

use super::{
    DIRECTORY_MODE, LAST_ENTRY, STAGING_NAME,
    files::{empty, names_directory},
    taking::{Contents, c_string, check_empty, is_mount_point, make_staging, open_holder},
};
use crate::{CommitError, journal::remove_journal};

/// A destination that is wanted.
#[derive(Clone, Debug)]
pub struct Spot {
    pub path: PathBuf,
    pub existing: Existing,
}

/// What becomes of what is at a destination before.
#[derive(Clone, Debug)]
pub enum Existing {
    /// There must be nothing.
    MustBeEmpty,
    /// Whoever publishes clears it away before, all but an empty directory. The staging directory is
    /// made in `stage_in`, if that is on the same file system, under the name `stage_as`.
    WillBeCleared { stage_in: Option<PathBuf>, stage_as: &'static str },
}

impl Spot {
    pub fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), existing: Existing::MustBeEmpty }
    }
}

#[derive(Debug)]
pub(super) struct Place {
    pub calls: Syscalls,
    /// The destination, as messages call it.
    pub path: PathBuf,
    /// The directory that holds the destination, or the destination itself if it is filled in place.
    pub holder: OwnedFd,
    /// The directory that holds the staging directory, if that is another.
    pub stage_in: Option<OwnedFd>,
    pub staging_name: CString,
    /// The staging directory itself, locked.
    pub staging: OwnedFd,
    /// An interrupted run has made it.
    pub left_over: bool,
    pub publication: Publication,
}

#[derive(Debug)]
pub(super) enum Publication {
    /// Rename the staging directory to this name in the holder. `replaces_empty`: over an empty
    /// directory that is there.
    Rename { name: CString, replaces_empty: bool },
    /// The same, but that it is known only then whether there is an empty directory.
    RenameWhenCleared { name: CString, replaced_empty: bool },
    /// Rename each entry into the holder, which is the destination.
    MoveEntries { moved: Vec<CString> },
}

impl Place {
    /// `path`: that of the spot, without links.
    pub fn prepare(
        calls: &Syscalls,
        path: PathBuf,
        existing: &Existing,
        resume: bool,
    ) -> Result<Self, CommitError> {
        if let Existing::WillBeCleared { stage_in, stage_as } = existing {
            return Self::replacing(calls, path, stage_in.as_deref(), stage_as);
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
            // The root directory: a mount point without a parent.
            let Some((_, destination)) = existing else { return Err(at("open", Errno::NOENT)) };
            return Self::inside(calls, path, destination, resume);
        };
        let holder = open_holder(calls, parent)?;
        match existing {
            // Such a directory cannot be replaced by a rename.
            Some((contents, destination))
                if contents == Contents::Harmless
                    || is_mount_point(calls, &holder, &destination)
                        .map_err(|errno| at("look at", errno))? =>
            {
                Self::inside(calls, path, destination, resume)
            }
            Some((_, destination)) => {
                match Self::beside(calls, path.clone(), holder, name, true, resume) {
                    Err(CommitError::Staging {
                        errno: Errno::ACCESS | Errno::ROFS | Errno::PERM,
                        ..
                    }) => Self::inside(calls, path, destination, resume),
                    result => result,
                }
            }
            None => Self::beside(calls, path.clone(), holder, name, false, resume),
        }
    }

    fn replacing(
        calls: &Syscalls,
        path: PathBuf,
        stage_in: Option<&Path>,
        stage_as: &str,
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
                        format!("{} is a mount point, and so cannot be replaced", path.display());
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
        let stage_in = stage_in.map(|path| open_holder(calls, path)).transpose()?;
        let device = |directory: &OwnedFd| {
            calls.fstat(directory).map(|stat| stat.st_dev).map_err(|errno| at("look at", errno))
        };
        let stage_in = match stage_in {
            Some(other) if device(&other)? == device(&holder)? => Some(other),
            _ => None,
        };
        let staging_name = c_string(OsStr::new(stage_as), &path)?;
        let name = c_string(name, &path)?;
        let around = stage_in.as_ref().unwrap_or(&holder);
        let (staging, left_over) = make_staging(calls, around, &staging_name, &path, false)?;
        let publication = Publication::RenameWhenCleared { name, replaced_empty: false };
        let calls = calls.clone();
        Ok(Self { calls, path, holder, stage_in, staging_name, staging, left_over, publication })
    }

    /// The directory that holds the staging directory.
    pub fn staging_holder(&self) -> &OwnedFd {
        self.stage_in.as_ref().unwrap_or(&self.holder)
    }

    fn beside(
        calls: &Syscalls,
        path: PathBuf,
        holder: OwnedFd,
        name: &OsStr,
        replaces_empty: bool,
        resume: bool,
    ) -> Result<Self, CommitError> {
        let name = c_string(name, &path)?;
        let staging_name = [b".", name.as_bytes(), STAGING_NAME.as_bytes()].concat();
        let staging_name = c_string(OsStr::from_bytes(&staging_name), &path)?;
        let (staging, left_over) = make_staging(calls, &holder, &staging_name, &path, resume)?;
        let publication = Publication::Rename { name, replaces_empty };
        let calls = calls.clone();
        let stage_in = None;
        Ok(Self { calls, path, holder, stage_in, staging_name, staging, left_over, publication })
    }

    fn inside(
        calls: &Syscalls,
        path: PathBuf,
        destination: OwnedFd,
        resume: bool,
    ) -> Result<Self, CommitError> {
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
            left_over,
            publication,
        })
    }

    pub fn error(&self, step: &'static str, errno: Errno) -> CommitError {
        CommitError::Staging { step, path: self.path.clone(), errno }
    }

    pub fn publish(&mut self) -> Result<(), CommitError> {
        let at = |step, errno| CommitError::Staging { step, path: self.path.clone(), errno };
        let calls = &self.calls;
        if !matches!(self.publication, Publication::MoveEntries { .. }) {
            self.check_name(self.staging_holder(), &self.staging_name)?;
        }
        // Last of all, so that what has been done until here can be resumed.
        remove_journal(calls, &self.staging).map_err(|errno| at("remove the journal of", errno))?;
        match &mut self.publication {
            Publication::Rename { name, replaces_empty: true } => {
                // Replaces an empty directory and nothing else.
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
                // What tells that the rest is there comes last.
                entries.sort_by_key(|(name, _)| name.to_bytes() == LAST_ENTRY);
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
                reason: "was filled by somebody else in the meantime",
            },
            errno => at("publish", errno),
        })?;
        if let Publication::Rename { name, .. } | Publication::RenameWhenCleared { name, .. } =
            &self.publication
        {
            self.check_name(&self.holder, name)?;
        }
        self.calls.fsync(&self.holder).map_err(|errno| at("sync the directory of", errno))?;
        // XFS answers an fsync of a directory by success after it has shut down: the change that
        // was to be synced has been dropped, so there is nothing to wait for (xfs_dir_fsync, Linux
        // 6.18). Asked for attributes it tells the truth.
        self.calls.fstat(&self.holder).map_err(|errno| at("sync the directory of", errno))?;
        if let Some(other) = &self.stage_in {
            self.calls.fsync(other).map_err(|errno| at("sync the directory of", errno))?;
        }
        Ok(())
    }

    /// Renames go by names. Looked at before, and again afterwards: what is reported as published
    /// is what was staged, whatever others have put in its place.
    fn check_name(&self, holder: &OwnedFd, name: &CStr) -> Result<(), CommitError> {
        match names_directory(&self.calls, holder, name, &self.staging) {
            Ok(true) => Ok(()),
            Ok(false) | Err(Errno::NOENT) => {
                let reason = "had its staging directory replaced by somebody else";
                Err(CommitError::NotClean { path: self.path.clone(), reason })
            }
            Err(errno) => Err(self.error("look at the staging directory of", errno)),
        }
    }

    /// Takes a publication back, as far as it went. What remains is staged, and removed by `remove`.
    pub fn withdraw(&mut self) {
        let calls = &self.calls;
        let from = self.stage_in.as_ref().unwrap_or(&self.holder);
        let result = match &mut self.publication {
            Publication::Rename { name, replaces_empty }
            | Publication::RenameWhenCleared { name, replaced_empty: replaces_empty } => {
                // If nothing was renamed, there is nothing to rename back.
                match calls.lstatat(from, &*self.staging_name) {
                    Ok(_) => Ok(()),
                    Err(_) => calls
                        .renameat(&self.holder, &**name, from, &*self.staging_name)
                        .and_then(|()| {
                            let mode = Mode::from_raw_mode(DIRECTORY_MODE);
                            if *replaces_empty {
                                calls.mkdirat(&self.holder, &**name, mode)
                            } else {
                                Ok(())
                            }
                        }),
                }
            }
            Publication::MoveEntries { moved } => {
                // The last first, so that what says that all is there goes before the rest.
                // The staging directory is gone if everything had been moved.
                let mode = Mode::from_raw_mode(DIRECTORY_MODE);
                match calls.mkdirat(&self.holder, &*self.staging_name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => {
                        tracing::error!(%errno, "cannot make the staging directory again");
                    }
                }
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let staging = calls.openat(&self.holder, &*self.staging_name, flags, Mode::empty());
                staging.and_then(|staging| {
                    let back = moved
                        .drain(..)
                        .rev()
                        .map(|name| calls.renameat(&self.holder, &*name, &staging, &*name));
                    // Every one is tried, whatever becomes of the others.
                    back.fold(Ok(()), Result::and)
                })
            }
        };
        let result = result.and_then(|()| calls.fsync(&self.holder));
        if let Err(errno) = result {
            tracing::error!(%errno, path = %self.path.display(), "cannot take back a publication");
        }
    }

    /// Removes the staging directory and all in it.
    pub fn remove(&self) -> Result<(), CommitError> {
        // The handle may be of a directory that a withdrawn publication has replaced.
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
