//! Staging and publishing: nothing has its final name before it is durable.
//!
//! Each destination is built under a staging name on its own file system, in one of two ways:
//!
//! | destination | staging directory | published by |
//! |---|---|---|
//! | absent, or empty and replaceable | `<parent>/.<name>.unsnap-staging` | one rename over the destination |
//! | empty, but a mount point or in a directory we may not write to | `<destination>/.unsnap-staging` | renaming each entry into the destination |
//!
//! The staging directory is locked (`flock`) from its creation to the end of the process, so two
//! runs cannot share it; one that is found without a lock was left by a run that was interrupted,
//! and is emptied, unless its journal is asked for first.
//!
//! The order that survives a power cut: sync everything staged, rename, sync the directory that
//! holds the new name. Every shorter variant loses the rename on ext4 and XFS. With several
//! destinations the output directory is published last: it is what says that all are complete.

use std::{
    ffi::{CStr, CString, OsStr},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, StatxAttributes, StatxFlags},
    io::Errno,
    process::geteuid,
};
use unsnap_ring::Syscalls;

use crate::{Error, journal::remove_journal, sandbox::Need, writeback::SyncTarget};

/// Name of a staging directory inside its destination; also the suffix of one beside it.
const STAGING_NAME: &str = ".unsnap-staging";

/// What an empty file system of its own may hold.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Where entries are moved one by one, this one is moved last: a snapshot without it is none.
const LAST_ENTRY: &[u8] = b"version";

/// How often a staging directory may vanish under our hands, because other runs end just then.
/// A guess.
const STAGING_ATTEMPTS_MAX: u32 = 100;

const DIRECTORY_MODE: u32 = 0o755;

/// What messages call emptying a staging directory.
const EMPTYING: &str = "remove an interrupted run's files of";

/// Descriptors that removing staged files takes at a time: the staging directory, a directory in
/// it, and the one that entries are being read from.
const REMOVAL_DESCRIPTORS: usize = 3;

/// Destinations under construction. Dropping it takes everything back.
#[derive(Debug)]
pub(crate) struct Staging {
    places: Vec<Place>,
    /// Whether dropping it leaves everything where it is.
    keep: bool,
    /// Kept so that everything can be taken back although the process may open no more files.
    spare: Vec<OwnedFd>,
}

#[derive(Debug)]
struct Place {
    calls: Syscalls,
    /// The destination, as messages call it.
    path: PathBuf,
    /// The directory that holds the staging directory.
    holder: OwnedFd,
    staging_name: CString,
    /// The staging directory itself, locked.
    staging: OwnedFd,
    /// An interrupted run has made it.
    left_over: bool,
    publication: Publication,
}

#[derive(Debug)]
enum Publication {
    /// Rename the staging directory to this name in the holder.
    Rename { name: CString, replaces_empty: bool },
    /// Rename each entry into the holder, which is the destination.
    MoveEntries { moved: Vec<CString> },
}

impl Staging {
    /// Makes a staging directory for each destination. The first is the output directory. What an
    /// interrupted run has left in them is removed, unless `resume` is set.
    pub fn prepare(calls: &Syscalls, paths: &[&PathBuf], resume: bool) -> Result<Self, Error> {
        let mut resolved: Vec<PathBuf> = Vec::with_capacity(paths.len());
        for path in paths {
            let path = resolve(calls, path)?;
            if let Some(other) =
                resolved.iter().find(|other| path.starts_with(other) || other.starts_with(&path))
            {
                let reason =
                    format!("destinations {} and {} overlap", other.display(), path.display());
                let hint = Some("give directories that do not contain one another".to_owned());
                return Err(Error::Request { reason, hint });
            }
            resolved.push(path);
        }
        // Grown one by one, so that a failure takes back those that were made before.
        let spare = keep_descriptors(calls, &resolved)?;
        let mut staging = Self { places: Vec::new(), keep: false, spare };
        for path in resolved {
            let place = Place::prepare(calls, path, resume).inspect_err(|_| {
                // What may still be resumed is not ours to remove.
                staging.places.retain(|place| !(resume && place.left_over));
            })?;
            staging.places.push(place);
        }
        // Until it is known whether that can be resumed.
        staging.keep = resume && staging.is_left_over();
        Ok(staging)
    }

    /// Whether every staging directory was left by an interrupted run. What is in them is theirs.
    pub fn is_left_over(&self) -> bool {
        self.places.iter().all(|place| place.left_over)
    }

    /// Removes whatever is in the staging directories.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.keep = false;
        self.places.iter().try_for_each(|place| {
            let emptied = empty(&place.calls, &place.staging);
            emptied.map_err(|errno| place.error(EMPTYING, errno))
        })
    }

    /// Whether dropping it leaves the staging directories as they are, for a run that resumes.
    pub fn keep(&mut self, keep: bool) {
        self.keep = keep;
    }

    /// Device and inode of each staging directory.
    pub fn identities(&self) -> Result<Vec<(u64, u64)>, Error> {
        let identity = |place: &Place| {
            let stat = place.calls.fstat(&place.staging);
            let stat = stat.map_err(|errno| place.error("look at", errno))?;
            Ok((stat.st_dev, stat.st_ino))
        };
        self.places.iter().map(identity).collect()
    }

    /// An open handle on each staging directory, with the name messages should use.
    pub fn directories(&self) -> Result<Vec<(OwnedFd, PathBuf)>, Error> {
        self.places
            .iter()
            .map(|place| {
                let directory = place.calls.duplicate(&place.staging);
                let directory = directory.map_err(|errno| place.error("open", errno))?;
                Ok((directory, place.path.clone()))
            })
            .collect()
    }

    /// A directory on each file system, opened anew: errors in writing back that are reported to
    /// these descriptors are still reported to the others.
    pub fn file_systems(&self) -> Result<Vec<SyncTarget>, Error> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let open = |place: &Place| {
            let directory = place
                .calls
                .openat(&place.staging, ".", flags, Mode::empty())
                .map_err(|errno| place.error("open", errno))?;
            Ok((directory, place.path.clone()))
        };
        self.one_on_each_device()?.into_iter().map(open).collect()
    }

    /// What all of this needs of which directories from now on.
    pub fn needs(&self) -> Vec<(BorrowedFd<'_>, Need)> {
        self.places
            .iter()
            .flat_map(|place| {
                let (staging, holder) = (place.staging.as_fd(), place.holder.as_fd());
                let build = if place.left_over { Need::Resume } else { Need::Build };
                match place.publication {
                    Publication::Rename { .. } => {
                        vec![(staging, build), (holder, Need::Publish)]
                    }
                    // The staging directory is in the destination. Nothing can be moved to where
                    // more is allowed, and a publication may have to be taken back: so to both the
                    // same.
                    Publication::MoveEntries { .. } => vec![(holder, build)],
                }
            })
            .collect()
    }

    fn one_on_each_device(&self) -> Result<Vec<&Place>, Error> {
        let (mut devices, mut chosen) = (Vec::new(), Vec::new());
        for place in &self.places {
            let stat = place.calls.fstat(&place.staging);
            let stat = stat.map_err(|errno| place.error("look at", errno))?;
            if !devices.contains(&stat.st_dev) {
                devices.push(stat.st_dev);
                chosen.push(place);
            }
        }
        Ok(chosen)
    }

    /// Waits until everything staged is on the disk: one `syncfs` for each file system. It
    /// reports every write-back error since the staging directory was opened (Linux 5.8), so a
    /// success speaks for every file. A failure is final.
    pub fn sync(&self) -> Result<(), Error> {
        for place in self.one_on_each_device()? {
            place.calls.syncfs(&place.staging).map_err(|errno| place.error("sync", errno))?;
        }
        Ok(())
    }

    /// Gives every destination its final name, durably. Everything must have been synced.
    pub fn publish(&mut self) -> Result<(), Error> {
        // The output directory, which is the first, goes last.
        for index in (0..self.places.len()).rev() {
            if let Err(error) = self.places[index].publish() {
                for place in &mut self.places[index..] {
                    place.withdraw();
                }
                return Err(error);
            }
        }
        self.keep = true;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        self.spare.clear();
        for place in &self.places {
            if let Err(error) = place.remove() {
                tracing::warn!(%error, "staged files are left behind; the next run removes them");
            }
        }
    }
}

impl Place {
    fn prepare(calls: &Syscalls, path: PathBuf, resume: bool) -> Result<Self, Error> {
        let at = |step, errno| Error::Staging { step, path: path.clone(), errno };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let existing = match calls.open(&path, flags) {
            Ok(directory) => Some((check_empty(calls, &directory, &path)?, directory)),
            Err(Errno::NOENT) => None,
            Err(Errno::NOTDIR) => {
                return Err(Error::NotClean { path, reason: "exists and is not a directory" });
            }
            Err(errno) => return Err(at("open", errno)),
        };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            // The root directory: a mount point without a parent.
            let Some((_, destination)) = existing else { return Err(at("open", Errno::NOENT)) };
            return Self::inside(calls, path, destination, resume);
        };
        let holder = match calls.open(parent, flags) {
            Ok(holder) => holder,
            Err(Errno::NOENT) => {
                return Err(Error::Request {
                    reason: format!("directory {} does not exist", parent.display()),
                    hint: Some(format!("make it first: mkdir -p {}", parent.display())),
                });
            }
            Err(errno) => {
                return Err(Error::Staging { step: "open", path: parent.to_owned(), errno });
            }
        };
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
                    Err(Error::Staging {
                        errno: Errno::ACCESS | Errno::ROFS | Errno::PERM,
                        ..
                    }) => Self::inside(calls, path, destination, resume),
                    result => result,
                }
            }
            None => Self::beside(calls, path.clone(), holder, name, false, resume),
        }
    }

    fn beside(
        calls: &Syscalls,
        path: PathBuf,
        holder: OwnedFd,
        name: &OsStr,
        replaces_empty: bool,
        resume: bool,
    ) -> Result<Self, Error> {
        let name = c_string(name, &path)?;
        let staging_name = [b".", name.as_bytes(), STAGING_NAME.as_bytes()].concat();
        let staging_name = c_string(OsStr::from_bytes(&staging_name), &path)?;
        let (staging, left_over) = make_staging(calls, &holder, &staging_name, &path, resume)?;
        let publication = Publication::Rename { name, replaces_empty };
        let calls = calls.clone();
        Ok(Self { calls, path, holder, staging_name, staging, left_over, publication })
    }

    fn inside(
        calls: &Syscalls,
        path: PathBuf,
        destination: OwnedFd,
        resume: bool,
    ) -> Result<Self, Error> {
        let staging_name = c_string(OsStr::new(STAGING_NAME), &path)?;
        let (staging, left_over) = make_staging(calls, &destination, &staging_name, &path, resume)?;
        let publication = Publication::MoveEntries { moved: Vec::new() };
        let calls = calls.clone();
        Ok(Self { calls, path, holder: destination, staging_name, staging, left_over, publication })
    }

    fn error(&self, step: &'static str, errno: Errno) -> Error {
        Error::Staging { step, path: self.path.clone(), errno }
    }

    fn publish(&mut self) -> Result<(), Error> {
        let at = |step, errno| Error::Staging { step, path: self.path.clone(), errno };
        let calls = &self.calls;
        if let Publication::Rename { .. } = self.publication {
            self.check_name(&self.staging_name)?;
        }
        // Last of all, so that what has been done until here can be resumed.
        remove_journal(calls, &self.staging).map_err(|errno| at("remove the journal of", errno))?;
        match &mut self.publication {
            Publication::Rename { name, replaces_empty: true } => {
                // Replaces an empty directory and nothing else.
                calls.renameat(&self.holder, &*self.staging_name, &self.holder, &**name)
            }
            Publication::Rename { name, replaces_empty: false } => {
                rename_to_new(calls, &self.holder, &self.staging_name, &self.holder, name)
            }
            Publication::MoveEntries { moved } => {
                let mut entries =
                    calls.entries(&self.staging).map_err(|errno| at("read", errno))?;
                // What tells that the rest is there comes last.
                entries.sort_by_key(|(name, _)| name.to_bytes() == LAST_ENTRY);
                entries
                    .into_iter()
                    .try_for_each(|(name, _)| {
                        rename_to_new(calls, &self.staging, &name, &self.holder, &name)?;
                        moved.push(name);
                        Ok(())
                    })
                    .and_then(|()| {
                        calls.unlinkat(&self.holder, &*self.staging_name, AtFlags::REMOVEDIR)
                    })
            }
        }
        .map_err(|errno| match errno {
            Errno::NOTEMPTY | Errno::EXIST => Error::NotClean {
                path: self.path.clone(),
                reason: "was filled by somebody else in the meantime",
            },
            errno => at("publish", errno),
        })?;
        if let Publication::Rename { name, .. } = &self.publication {
            self.check_name(name)?;
        }
        self.calls.fsync(&self.holder).map_err(|errno| at("sync the directory of", errno))?;
        // XFS answers an fsync of a directory by success after it has shut down: the change that
        // was to be synced has been dropped, so there is nothing to wait for (xfs_dir_fsync, Linux
        // 6.18). Asked for attributes it tells the truth.
        self.calls.fstat(&self.holder).map_err(|errno| at("sync the directory of", errno))?;
        Ok(())
    }

    /// Renames go by names. Looked at before, and again afterwards: what is reported as published
    /// is what was staged, whatever others have put in its place.
    fn check_name(&self, name: &CStr) -> Result<(), Error> {
        match names_directory(&self.calls, &self.holder, name, &self.staging) {
            Ok(true) => Ok(()),
            Ok(false) | Err(Errno::NOENT) => {
                let reason = "had its staging directory replaced by somebody else";
                Err(Error::NotClean { path: self.path.clone(), reason })
            }
            Err(errno) => Err(self.error("look at the staging directory of", errno)),
        }
    }

    /// Takes a publication back, as far as it went. What remains is staged, and removed by `remove`.
    fn withdraw(&mut self) {
        let calls = &self.calls;
        let result = match &mut self.publication {
            Publication::Rename { name, replaces_empty } => {
                // If nothing was renamed, there is nothing to rename back.
                match calls.lstatat(&self.holder, &*self.staging_name) {
                    Ok(_) => Ok(()),
                    Err(_) => calls
                        .renameat(&self.holder, &**name, &self.holder, &*self.staging_name)
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
    fn remove(&self) -> Result<(), Error> {
        // The handle may be of a directory that a withdrawn publication has replaced.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let staging = self.calls.openat(&self.holder, &*self.staging_name, flags, Mode::empty());
        let staging =
            staging.map_err(|errno| self.error("open the staging directory of", errno))?;
        empty(&self.calls, &staging)
            .map_err(|errno| self.error("remove staged files of", errno))?;
        self.calls
            .unlinkat(&self.holder, &*self.staging_name, AtFlags::REMOVEDIR)
            .map_err(|errno| self.error("remove the staging directory of", errno))
    }
}

/// Opens what is to be closed again when staged files are removed.
fn keep_descriptors(calls: &Syscalls, paths: &[PathBuf]) -> Result<Vec<OwnedFd>, Error> {
    let path = paths.first().cloned().unwrap_or_default();
    let one = |_| calls.open(Path::new("/"), OFlags::PATH | OFlags::CLOEXEC);
    let kept: Result<Vec<OwnedFd>, Errno> = (0..REMOVAL_DESCRIPTORS).map(one).collect();
    kept.map_err(|errno| Error::Staging { step: "keep a descriptor for", path, errno })
}

/// Makes and locks a staging directory, or takes over one that an interrupted run has left, and
/// says which. What is in it is removed, unless `resume` is set.
fn make_staging(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &CStr,
    path: &Path,
    resume: bool,
) -> Result<(OwnedFd, bool), Error> {
    let at = |step, errno| Error::Staging { step, path: path.to_owned(), errno };
    let mode = Mode::from_raw_mode(DIRECTORY_MODE);
    for _ in 0..STAGING_ATTEMPTS_MAX {
        let left_over = match calls.mkdirat(holder, name, mode) {
            Ok(()) => false,
            Err(Errno::EXIST) => true,
            Err(errno) => return Err(at("create the staging directory of", errno)),
        };
        match take_staging(calls, holder, name, path, left_over && !resume) {
            Ok(Some(staging)) => return Ok((staging, left_over)),
            Ok(None) => {}
            Err(error) => {
                // What we have made is empty, so this removes nothing of anybody's. If another run
                // has locked it meanwhile, it is that run's.
                if !left_over
                    && !matches!(error, Error::Locked { .. })
                    && let Err(errno) = calls.unlinkat(holder, name, AtFlags::REMOVEDIR)
                {
                    let path = path.display();
                    tracing::warn!(%errno, %path, "an empty staging directory is left behind");
                }
                return Err(error);
            }
        }
    }
    Err(Error::Locked { path: path.to_owned() })
}

/// Opens and locks a staging directory, and with `clear` empties it. `None`: its owner has just
/// published or removed it.
fn take_staging(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &CStr,
    path: &Path,
    clear: bool,
) -> Result<Option<OwnedFd>, Error> {
    let at = |step, errno| Error::Staging { step, path: path.to_owned(), errno };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let staging = match calls.openat(holder, name, flags, Mode::empty()) {
        Ok(staging) => staging,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(at("open the staging directory of", errno)),
    };
    match calls.lock(&staging) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(Error::Locked { path: path.to_owned() }),
        Err(errno) => return Err(at("lock the staging directory of", errno)),
    }
    // Between open and lock its owner may have renamed or removed it.
    let look_at = |errno| at("look at the staging directory of", errno);
    let ours = calls.fstat(&staging).map_err(look_at)?;
    match calls.lstatat(holder, name) {
        Ok(named) if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino) => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(look_at(errno)),
    }
    // In a directory that others may write to, it could be a trap.
    if ours.st_uid != geteuid().as_raw() {
        let reason = "has a staging directory of another user beside or in it";
        return Err(Error::NotClean { path: path.to_owned(), reason });
    }
    if clear {
        tracing::info!(path = %path.display(), "removing what an interrupted run has left");
        empty(calls, &staging).map_err(|errno| at(EMPTYING, errno))?;
    }
    // Whatever the umask or a default ACL made of it.
    calls
        .fchmod(&staging, Mode::from_raw_mode(DIRECTORY_MODE))
        .map_err(|errno| at("set the mode of", errno))?;
    Ok(Some(staging))
}

/// Whether a name is that of an open directory.
fn names_directory(
    calls: &Syscalls,
    holder: &OwnedFd,
    name: &CStr,
    directory: &OwnedFd,
) -> Result<bool, Errno> {
    let (ours, named) = (calls.fstat(directory)?, calls.lstatat(holder, name)?);
    Ok((ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino))
}

/// Removes everything in a directory, however deep, with two descriptors: subdirectories are
/// first moved up into it.
fn empty(calls: &Syscalls, root: &OwnedFd) -> Result<(), Errno> {
    let mut moved = 0_u64;
    loop {
        let entries = calls.entries(root)?;
        if entries.is_empty() {
            return Ok(());
        }
        for (name, kind) in entries {
            if kind != FileType::Directory {
                calls.unlinkat(root, &*name, AtFlags::empty())?;
                continue;
            }
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let inner = calls.openat(root, &*name, flags, Mode::empty())?;
            for (inner_name, kind) in calls.entries(&inner)? {
                if kind != FileType::Directory {
                    calls.unlinkat(&inner, &*inner_name, AtFlags::empty())?;
                    continue;
                }
                loop {
                    let up = format!(".unsnap-removed-{moved}");
                    moved += 1;
                    let up = CString::new(up).map_err(|_| Errno::INVAL)?;
                    match rename_to_new(calls, &inner, &inner_name, root, &up) {
                        Err(Errno::EXIST) => {}
                        result => break result?,
                    }
                }
            }
            calls.unlinkat(root, &*name, AtFlags::REMOVEDIR)?;
        }
    }
}

/// What a destination that may be used holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    Nothing,
    /// What a fresh file system or an interrupted run leaves.
    Harmless,
}

fn check_empty(calls: &Syscalls, directory: &OwnedFd, path: &Path) -> Result<Contents, Error> {
    let entries = calls.entries(directory).map_err(|errno| Error::Staging {
        step: "read",
        path: path.to_owned(),
        errno,
    })?;
    let harmless = [LOST_AND_FOUND, STAGING_NAME.as_bytes()];
    if entries.is_empty() {
        Ok(Contents::Nothing)
    } else if entries.iter().all(|(name, _)| harmless.contains(&name.to_bytes())) {
        Ok(Contents::Harmless)
    } else {
        Err(Error::NotClean { path: path.to_owned(), reason: "is not empty" })
    }
}

/// Whether a directory is where something is mounted, be it a part of the same file system (a bind
/// mount, as containers have them).
fn is_mount_point(calls: &Syscalls, parent: &OwnedFd, directory: &OwnedFd) -> Result<bool, Errno> {
    if let Ok(answer) = calls.fstatx(directory, StatxFlags::BASIC_STATS)
        && answer.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
    {
        return Ok(answer.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // Before Linux 5.8.
    Ok(calls.fstat(parent)?.st_dev != calls.fstat(directory)?.st_dev)
}

/// Renames, unless the new name is taken; where the file system knows no such rename, after
/// looking.
fn rename_to_new(
    calls: &Syscalls,
    from: &OwnedFd,
    name: &CStr,
    to: &OwnedFd,
    new_name: &CStr,
) -> Result<(), Errno> {
    match calls.renameat_to_new(from, name, to, new_name) {
        Err(Errno::INVAL | Errno::NOSYS) => match calls.lstatat(to, new_name) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => calls.renameat(from, name, to, new_name),
            Err(errno) => Err(errno),
        },
        result => result,
    }
}

/// The path without links, so that staging happens where the destination really is.
fn resolve(calls: &Syscalls, path: &Path) -> Result<PathBuf, Error> {
    let at = |errno| Error::Staging { step: "resolve", path: path.to_owned(), errno };
    match calls.canonicalize(path) {
        Ok(path) => return Ok(path),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(at(errno)),
    }
    if calls.lstatat(rustix::fs::CWD, path).is_ok() {
        return Err(Error::NotClean { path: path.to_owned(), reason: "is a dangling link" });
    }
    let absolute = std::path::absolute(path)
        .map_err(|error| at(Errno::from_io_error(&error).unwrap_or(Errno::INVAL)))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Ok(absolute);
    };
    match calls.canonicalize(parent) {
        Ok(parent) => Ok(parent.join(name)),
        // Reported when it is opened.
        Err(Errno::NOENT) => Ok(absolute),
        Err(errno) => Err(at(errno)),
    }
}

fn c_string(name: &OsStr, path: &Path) -> Result<CString, Error> {
    CString::new(name.as_bytes()).map_err(|_| Error::Request {
        reason: format!("{} is not a path", path.display()),
        hint: None,
    })
}

#[cfg(test)]
mod tests;
