//! The open staging directories of a run.

use std::{
    fs::File,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::fs::{Mode, OFlags};
use unsnap_create::Destination;
use unsnap_pass::{Need, Unfinished};
use unsnap_ring::{DirectMode, Syscalls};

use crate::{CommitError, Spot, Staging, SyncTarget};

/// The open staging directories of a run. Dropping it before publication removes everything staged.
pub struct Target {
    /// System calls on the directories.
    pub calls: Syscalls,
    /// Staging directories of all destinations.
    pub staging: Staging,
    /// Descriptors of the staging directories, in the order of the spots.
    pub directories: Vec<OwnedFd>,
    /// Destinations of the creators: the staging directories that take the archives' files.
    pub destinations: Vec<Destination>,
    /// One directory on each file system, for syncs.
    pub sync: Vec<SyncTarget>,
}

impl Target {
    /// Makes and opens the staging directories of `spots`. The first `destinations` of them take
    /// the archives' files. With `resume`, files of an interrupted run are kept. Notes the staging
    /// directories in `unfinished` as long as they exist. After an error, the staging directories
    /// that were made are removed again.
    pub fn open(
        calls: &Syscalls,
        unfinished: &Unfinished,
        spots: &[Spot],
        destinations: usize,
        direct: DirectMode,
        resume: bool,
    ) -> Result<Self, CommitError> {
        let staging = Staging::prepare(calls, unfinished, spots, resume)?;
        let directories = staging.directories()?.into_iter().map(|(directory, _)| directory);
        let directories = directories.collect();
        let destinations = staging
            .directories()?
            .into_iter()
            .take(destinations)
            .map(|(directory, path)| Destination::open(calls.clone(), directory, path, direct))
            .collect::<Result<_, _>>()?;
        let sync = staging.file_systems()?;
        Ok(Self { calls: calls.clone(), staging, directories, destinations, sync })
    }

    /// Returns the directories that a confined run needs, with the kind of access; none without a
    /// target. `reads` tells whether created files are read again.
    pub fn needs(target: Option<&Self>, reads: bool) -> Vec<(BorrowedFd<'_>, Need)> {
        target.map_or_else(Vec::new, |target| target.staging.needs(reads))
    }

    /// Opens an unnamed file for temporary data: in the first staging directory or, without a
    /// target, in the system's directory for temporary files. Returns `None` if the file system
    /// does not support `O_TMPFILE`.
    pub fn temporary_file(target: Option<&Self>) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let opened = match target.and_then(|target| target.directories.first()) {
            Some(directory) => rustix::fs::openat(directory, ".", flags, mode),
            None => rustix::fs::open(std::env::temp_dir(), flags, mode),
        };
        match opened {
            Ok(file) => Some(file.into()),
            Err(errno) => {
                tracing::debug!(%errno, "cannot open a temporary file");
                None
            }
        }
    }
}
