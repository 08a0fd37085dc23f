//! Staging and publishing: no destination gets its final name before it is durable.
//!
//! Each destination is built in a staging directory on its own file system, in one of three ways:
//!
//! | destination | staging directory | published by |
//! |---|---|---|
//! | absent, or empty and replaceable | `<parent>/.<name>.unsnap-staging` | one rename over the destination |
//! | to be cleared before publication (a validator's state) | as [`Existing::WillBeCleared`] says | one rename, over an empty directory if there is one |
//! | empty, but a mount point, or in a read-only directory | `<destination>/.unsnap-staging` | renaming each entry into the destination |
//!
//! The staging directory is locked (`flock`) from its creation to the end of the process, so two
//! runs cannot share it. A staging directory without a lock was left by an interrupted run. It is
//! emptied, unless the new run resumes.
//!
//! This order survives a power cut: sync everything staged, rename, sync the directory that holds
//! the new name. Every shorter variant loses the rename on ext4 and XFS. With several destinations
//! the output directory is published last: its presence shows that all of them are complete.

mod check;
mod files;
mod names;
mod place;
mod taking;
mod withdrawal;

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use unsnap_failure::Remedy;
use unsnap_pass::{Need, Unfinished};
use unsnap_ring::Syscalls;

use crate::{CommitError, SyncTarget};

pub use place::{Existing, Spot};

use files::empty;
use names::EMPTYING;
use place::{Place, Publication};

/// Descriptors that the removal of staged files takes at a time: the staging directory, a directory
/// in it, and the one whose entries are being read.
const REMOVAL_DESCRIPTORS: usize = 3;

/// Destinations under construction. Dropping it removes everything staged, unless it was published
/// or is to be [kept](Self::keep).
#[derive(Debug)]
pub struct Staging {
    places: Vec<Place>,
    /// Whether dropping leaves the staging directories as they are.
    keep: bool,
    /// Whether this run has written to the staging directories.
    begun: bool,
    /// Whether publishing has begun, after which no run can resume.
    journal_removed: bool,
    /// Descriptors to close when staged files are removed, so that the removal works even if the
    /// process may open no more files.
    spare: Vec<OwnedFd>,
}

impl Staging {
    /// Makes and locks a staging directory for each spot; the first is the output directory.
    /// Removes files left by an interrupted run, unless `resume` is set. Notes the staging
    /// directories in `unfinished` until they are published or removed.
    ///
    /// # Errors
    ///
    /// [`CommitError::Request`] if destinations overlap, [`CommitError::NotClean`] if one is not
    /// empty, [`CommitError::Locked`] if another process uses one. Staging directories that were
    /// made before the error are removed again.
    pub fn prepare(
        calls: &Syscalls,
        unfinished: &Unfinished,
        spots: &[Spot],
        resume: bool,
    ) -> Result<Self, CommitError> {
        let paths: Vec<&Path> = spots.iter().map(|spot| &*spot.path).collect();
        let resolved = resolve_all(calls, &paths)?;
        // Filled one by one, so that dropping it after an error removes the earlier ones.
        let spare = keep_descriptors(calls, &resolved)?;
        let mut staging =
            Self { places: Vec::new(), keep: false, begun: false, journal_removed: false, spare };
        for (path, spot) in resolved.into_iter().zip(spots) {
            let place = Place::prepare(calls, unfinished, path, &spot.existing, resume);
            let place = place.inspect_err(|_| {
                // Files that may still be resumed stay.
                staging.places.retain(|place| !(resume && place.left_over));
            })?;
            staging.places.push(place);
        }
        // Kept until the caller knows whether the run can be resumed.
        staging.keep = resume && staging.is_left_over();
        Ok(staging)
    }

    /// Returns whether an interrupted run has left a staging directory.
    pub fn is_left_over(&self) -> bool {
        self.places.iter().any(|place| place.left_over)
    }

    /// Empties the staging directories, which are no longer kept. After an error some of their files
    /// remain; dropping removes them.
    pub fn clear(&mut self) -> Result<(), CommitError> {
        self.keep = false;
        self.places.iter().try_for_each(|place| {
            let emptied = empty(&place.calls, &place.staging);
            emptied.map_err(|errno| place.error(EMPTYING, errno))
        })
    }

    /// Sets whether dropping leaves the staging directories as they are, for a later run to resume.
    /// Returns whether it will: not once publishing has begun, since that removes the journal.
    pub fn keep(&mut self, keep: bool) -> bool {
        self.keep = keep && !self.journal_removed;
        self.begun = true;
        self.keep
    }

    /// Returns the inode of each staging directory.
    pub fn identities(&self) -> Result<Vec<u64>, CommitError> {
        let identity = |place: &Place| {
            let stat = place.calls.fstat(&place.staging);
            let stat = stat.map_err(|errno| place.error("look at", errno))?;
            Ok(stat.st_ino)
        };
        self.places.iter().map(identity).collect()
    }

    /// Returns a descriptor of each staging directory, with the destination's path for messages.
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

    /// Opens one staging directory on each file system. The kernel reports a write-back error once
    /// for each open file description, so an error reported to these is reported to the others as
    /// well.
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

    /// Returns the directories that staging and publishing need from now on, with the kind of
    /// access. `reads` tells whether created files are read again.
    pub fn needs(&self, reads: bool) -> Vec<(BorrowedFd<'_>, Need)> {
        self.places
            .iter()
            .flat_map(|place| {
                let (staging, holder) = (place.staging.as_fd(), place.staging_holder().as_fd());
                let reads = reads || place.left_over;
                let build = if reads { Need::Resume } else { Need::Build };
                match place.publication {
                    // A destination that is to be cleared is published unconfined. Here its holder
                    // is needed only for removing the staging directory.
                    Publication::Rename { .. } | Publication::RenameWhenCleared { .. } => {
                        vec![(staging, build), (holder, Need::Publish)]
                    }
                    // The staging directory is inside the destination. Landlock forbids moving a
                    // file to a directory with more rights, and a publication may have to be taken
                    // back, so both get the same rights.
                    Publication::MoveEntries { .. } => vec![(holder, build)],
                }
            })
            .collect()
    }

    /// Returns the first place on each file system.
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

    /// Waits until everything staged is on the disk, with one `syncfs` for each file system. It
    /// reports every write-back error since the staging directory was opened (Linux 5.8), so a
    /// success covers every file. A failure is final.
    pub fn sync(&self) -> Result<(), CommitError> {
        for place in self.one_on_each_device()? {
            place.calls.syncfs(&place.staging).map_err(|errno| place.error("sync", errno))?;
        }
        Ok(())
    }

    /// Gives every destination its final name, durably. Everything must have been synced. After an
    /// error, publications have been taken back, and dropping removes the staged files.
    pub fn publish(&mut self) -> Result<(), CommitError> {
        (self.keep, self.journal_removed) = (false, true);
        // The output directory is the first, and is published last.
        for index in (0..self.places.len()).rev() {
            if let Err(error) = self.places[index].publish() {
                for place in &mut self.places[index..] {
                    place.withdraw();
                }
                return Err(error);
            }
        }
        (self.keep, self.begun) = (true, true);
        self.places.iter_mut().for_each(|place| place.unfinished.finish());
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.spare.clear();
        // A run that has written nothing keeps only the directories of the interrupted run.
        let kept = |place: &&Place| self.keep && (place.left_over || self.begun);
        for place in self.places.iter().filter(|place| !kept(place)) {
            if let Err(error) = place.remove() {
                tracing::warn!(%error, "cannot remove staged files; the next run will");
            }
        }
    }
}

/// Opens the descriptors to close when staged files are removed.
fn keep_descriptors(calls: &Syscalls, paths: &[PathBuf]) -> Result<Vec<OwnedFd>, CommitError> {
    let path = paths.first().cloned().unwrap_or_default();
    let one = |_| calls.open(Path::new("/"), OFlags::PATH | OFlags::CLOEXEC);
    let kept: Result<Vec<OwnedFd>, Errno> = (0..REMOVAL_DESCRIPTORS).map(one).collect();
    kept.map_err(|errno| CommitError::Staging { step: "keep a descriptor for", path, errno })
}

/// Resolves destinations, none of which may contain another.
fn resolve_all(calls: &Syscalls, paths: &[&Path]) -> Result<Vec<PathBuf>, CommitError> {
    let mut resolved: Vec<PathBuf> = Vec::with_capacity(paths.len());
    for path in paths {
        let path = resolve(calls, path)?;
        if let Some(other) =
            resolved.iter().find(|other| path.starts_with(other) || other.starts_with(&path))
        {
            let reason = format!("destinations {} and {} overlap", other.display(), path.display());
            let remedy = Remedy::advice("give directories that do not contain one another");
            return Err(CommitError::Request { reason, remedy });
        }
        resolved.push(path);
    }
    Ok(resolved)
}

/// Resolves links in a path, so that staging happens on the destination's own file system.
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
        // Opening the parent reports that it is missing.
        Err(Errno::NOENT) => Ok(absolute),
        Err(errno) => Err(at(errno)),
    }
}

#[cfg(test)]
mod tests;
