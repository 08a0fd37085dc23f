//! Where the files of a run go: staging directories, open.

use std::{
    fs::File,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::fs::{Mode, OFlags};
use unsnap_create::Destination;
use unsnap_pass::Need;
use unsnap_ring::{DirectMode, Syscalls};

use crate::{CommitError, Spot, Staging, SyncTarget};

/// Where the files of a run go. Dropped before it was published, it takes everything back.
pub struct Target {
    /// The way to the kernel.
    pub calls: Syscalls,
    /// The staging directories.
    pub staging: Staging,
    /// The same, open, in the order of the spots.
    pub directories: Vec<OwnedFd>,
    /// Those of them that take the archives' files, for the creators.
    pub destinations: Vec<Destination>,
    /// A directory on each file system, for syncs.
    pub sync: Vec<SyncTarget>,
}

impl Target {
    /// Makes the staging directories of `spots` and opens them. The first `destinations` of them
    /// take the archives' files. `resume`: keep the files of an interrupted run.
    pub fn open(
        calls: &Syscalls,
        spots: &[Spot],
        destinations: usize,
        direct: DirectMode,
        resume: bool,
    ) -> Result<Self, CommitError> {
        let staging = Staging::prepare(calls, spots, resume)?;
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

    /// Returns the directories that must stay usable when the process is confined. `target`: `None`
    /// if nothing is written. `reads`: whether created files are read again.
    pub fn needs(target: Option<&Self>, reads: bool) -> Vec<(BorrowedFd<'_>, Need)> {
        target.map_or_else(Vec::new, |target| target.staging.needs(reads))
    }

    /// Opens a file without a name for temporary data: where the files go, or, if nothing is written,
    /// in the directory for temporary files. `None` if the file system does not support that.
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
                tracing::debug!(%errno, "no temporary file");
                None
            }
        }
    }
}
