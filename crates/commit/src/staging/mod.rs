//! Staging and publishing: nothing has its final name before it is durable.
//!
//! Each destination is built under a staging name on its own file system, in one of three ways:
//!
//! | destination | staging directory | published by |
//! |---|---|---|
//! | absent, or empty and replaceable | `<parent>/.<name>.unsnap-staging` | one rename over the destination |
//! | to be cleared before (a validator's state) | where it says | one rename over what is left, an empty directory or nothing |
//! | empty, but a mount point or in a directory we may not write to | `<destination>/.unsnap-staging` | renaming each entry into the destination |
//!
//! The staging directory is locked (`flock`) from its creation to the end of the process, so two
//! runs cannot share it; one that is found without a lock was left by a run that was interrupted,
//! and is emptied, unless its journal is asked for first.
//!
//! The order that survives a power cut: sync everything staged, rename, sync the directory that
//! holds the new name. Every shorter variant loses the rename on ext4 and XFS. With several
//! destinations the output directory is published last: it is what says that all are complete.

mod files;
mod place;
mod taking;

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use unsnap_failure::Remedy;
use unsnap_pass::Need;
use unsnap_ring::Syscalls;

use crate::{CommitError, SyncTarget};

use files::empty;
pub use place::{Existing, Spot};
use place::{Place, Publication};

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
pub struct Staging {
    places: Vec<Place>,
    /// Whether dropping it leaves everything where it is.
    keep: bool,
    /// Something has been written to the staging directories.
    begun: bool,
    /// Publishing has begun: nothing can be resumed any more.
    journal_removed: bool,
    /// Kept so that everything can be taken back although the process may open no more files.
    spare: Vec<OwnedFd>,
}

impl Staging {
    /// Makes a staging directory for each destination. The first is the output directory. What an
    /// interrupted run has left in them is removed, unless `resume` is set.
    pub fn prepare(calls: &Syscalls, spots: &[Spot], resume: bool) -> Result<Self, CommitError> {
        let mut resolved: Vec<PathBuf> = Vec::with_capacity(spots.len());
        for spot in spots {
            let path = resolve(calls, &spot.path)?;
            if let Some(other) =
                resolved.iter().find(|other| path.starts_with(other) || other.starts_with(&path))
            {
                let reason =
                    format!("destinations {} and {} overlap", other.display(), path.display());
                let remedy = Remedy::advice("give directories that do not contain one another");
                return Err(CommitError::Request { reason, remedy });
            }
            resolved.push(path);
        }
        // Grown one by one, so that a failure takes back those that were made before.
        let spare = keep_descriptors(calls, &resolved)?;
        let mut staging =
            Self { places: Vec::new(), keep: false, begun: false, journal_removed: false, spare };
        for (path, spot) in resolved.into_iter().zip(spots) {
            let place = Place::prepare(calls, path, &spot.existing, resume).inspect_err(|_| {
                // What may still be resumed is not ours to remove.
                staging.places.retain(|place| !(resume && place.left_over));
            })?;
            staging.places.push(place);
        }
        // Until it is known whether that can be resumed.
        staging.keep = resume && staging.is_left_over();
        Ok(staging)
    }

    /// Whether an interrupted run has left a staging directory.
    pub fn is_left_over(&self) -> bool {
        self.places.iter().any(|place| place.left_over)
    }

    /// Removes whatever is in the staging directories.
    pub fn clear(&mut self) -> Result<(), CommitError> {
        self.keep = false;
        self.places.iter().try_for_each(|place| {
            let emptied = empty(&place.calls, &place.staging);
            emptied.map_err(|errno| place.error(EMPTYING, errno))
        })
    }

    /// Whether dropping it leaves the staging directories as they are, for a run that resumes. Says
    /// whether it does: not without a journal.
    pub fn keep(&mut self, keep: bool) -> bool {
        self.keep = keep && !self.journal_removed;
        self.begun = true;
        self.keep
    }

    /// Inode of each staging directory.
    pub fn identities(&self) -> Result<Vec<u64>, CommitError> {
        let identity = |place: &Place| {
            let stat = place.calls.fstat(&place.staging);
            let stat = stat.map_err(|errno| place.error("look at", errno))?;
            Ok(stat.st_ino)
        };
        self.places.iter().map(identity).collect()
    }

    /// An open handle on each staging directory, with the name messages should use.
    pub fn directories(&self) -> Result<Vec<(OwnedFd, PathBuf)>, CommitError> {
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
    pub fn file_systems(&self) -> Result<Vec<SyncTarget>, CommitError> {
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

    /// What all of this needs of which directories from now on. `reads`: what is made is also read.
    pub fn needs(&self, reads: bool) -> Vec<(BorrowedFd<'_>, Need)> {
        self.places
            .iter()
            .flat_map(|place| {
                let (staging, holder) = (place.staging.as_fd(), place.staging_holder().as_fd());
                let reads = reads || place.left_over;
                let build = if reads { Need::Resume } else { Need::Build };
                match place.publication {
                    // Where something is cleared away, others publish: this removes, if anything.
                    Publication::Rename { .. } | Publication::RenameWhenCleared { .. } => {
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

    fn one_on_each_device(&self) -> Result<Vec<&Place>, CommitError> {
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
    pub fn sync(&self) -> Result<(), CommitError> {
        for place in self.one_on_each_device()? {
            place.calls.syncfs(&place.staging).map_err(|errno| place.error("sync", errno))?;
        }
        Ok(())
    }

    /// Gives every destination its final name, durably. Everything must have been synced.
    pub fn publish(&mut self) -> Result<(), CommitError> {
        (self.keep, self.journal_removed) = (false, true);
        // The output directory, which is the first, goes last.
        for index in (0..self.places.len()).rev() {
            if let Err(error) = self.places[index].publish() {
                for place in &mut self.places[index..] {
                    place.withdraw();
                }
                return Err(error);
            }
        }
        (self.keep, self.begun) = (true, true);
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.spare.clear();
        // Of a run that has not begun only what was there before is kept.
        let kept = |place: &&Place| self.keep && (place.left_over || self.begun);
        for place in self.places.iter().filter(|place| !kept(place)) {
            if let Err(error) = place.remove() {
                tracing::warn!(%error, "staged files are left behind; the next run removes them");
            }
        }
    }
}

/// Opens what is to be closed again when staged files are removed.
fn keep_descriptors(calls: &Syscalls, paths: &[PathBuf]) -> Result<Vec<OwnedFd>, CommitError> {
    let path = paths.first().cloned().unwrap_or_default();
    let one = |_| calls.open(Path::new("/"), OFlags::PATH | OFlags::CLOEXEC);
    let kept: Result<Vec<OwnedFd>, Errno> = (0..REMOVAL_DESCRIPTORS).map(one).collect();
    kept.map_err(|errno| CommitError::Staging { step: "keep a descriptor for", path, errno })
}

/// The path without links, so that staging happens where the destination really is.
fn resolve(calls: &Syscalls, path: &Path) -> Result<PathBuf, CommitError> {
    let at = |errno| CommitError::Staging { step: "resolve", path: path.to_owned(), errno };
    match calls.canonicalize(path) {
        Ok(path) => return Ok(path),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(at(errno)),
    }
    if calls.lstatat(rustix::fs::CWD, path).is_ok() {
        return Err(CommitError::NotClean { path: path.to_owned(), reason: "is a dangling link" });
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

#[cfg(test)]
mod tests;
