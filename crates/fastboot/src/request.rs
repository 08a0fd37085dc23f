//! Requests for a state.

use std::{num::NonZeroU32, path::PathBuf};

use unsnap_failure::{Failure, Family};
use unsnap_pass::{CancelToken, Handles, Newest, Peers, Progress, RemoteArchive};
use unsnap_ring::Syscalls;
use unsnap_state::Format;
use unsnap_unpack::{FileSink, PreflightMode, Reserve, Verify};

use crate::{Candidates, ExpectedCluster, FastbootError, FileIdentity, Pair, Places, SearchDirs};

/// Default number of files that are removed per second while an archive is being unpacked. The
/// limit leaves the file system's journal to unpacking. A guess.
pub const REMOVAL_FILES_PER_SECOND: NonZeroU32 = NonZeroU32::new(4000).unwrap();

/// A request to prepare a state.
#[derive(Clone, Debug)]
pub struct Request {
    /// The validator's directories.
    pub places: Places,
    /// What the validator's command line says about its cluster. What would end the validator for
    /// that reason is not prepared.
    pub cluster: ExpectedCluster,
    /// Checks of the archives.
    pub verify: Verify,
    /// Mode of the check for free space.
    pub preflight: PreflightMode,
    /// Free space to leave to other processes on each file system.
    pub min_free: Reserve,
    /// Options for reading archives.
    pub pass: unsnap_pass::Options,
    /// Receiver of complete files.
    pub files: Option<FileSink>,
    /// Format of the list of storages.
    pub format: Format,
    /// Keep a second name of every storage, for [`repair`](crate::repair).
    pub shadow: bool,
    /// Prepare the newest archives even if an equally new state exists.
    pub replace: bool,
    /// Archives on servers, which count as if they were in the validator's directories. They are kept
    /// there: a validator does not start from a state without its archives.
    pub offered: Offered,
    /// The only pair to prepare, even if it proves bad; `None` for the newest good pair.
    pub pair: Option<Pair>,
    /// Archives that proved bad in earlier runs. They are skipped.
    pub known_bad: Vec<KnownBad>,
    /// Slots of states with which a validator has ended early. [`prepare`](crate::prepare) verifies
    /// such a state by its accounts before it is served again; a wrong one is withdrawn, and the
    /// archives are unpacked with [`Verify::Accounts`].
    pub suspects: Vec<u64>,
    /// Number of slots by which an existing or ready state may be older than the newest pair of
    /// archives and still be taken for it, by [`prepare`](crate::prepare) and
    /// [`adopt_ready`](crate::adopt_ready); 0 for none. [`prepare_beside`](crate::prepare_beside)
    /// always prepares the newest pair.
    pub max_behind: u64,
    /// Whether [`prepare`](crate::prepare) fails with [`FastbootError::Locked`] instead of unpacking
    /// archives while another process prepares a ready state: the caller waits for that. Not with
    /// [`replace`](Self::replace), for which that state would be of no use.
    ///
    /// [`FastbootError::Locked`]: crate::FastbootError::Locked
    pub defer: bool,
    /// Number of files of older states that are removed per second while the new state is being
    /// unpacked. The rest is removed at full speed once the new state is complete.
    pub removal_files_per_second: NonZeroU32,
}

/// Archives on servers.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// Their addresses, perhaps ones that redirect to the newest archive.
    pub archives: Vec<RemoteArchive>,
    /// Servers whose newest archives count as well.
    pub peers: Option<Peers>,
    /// Whether the archives in the directories are taken, with a warning, if the network fails.
    pub is_optional: bool,
}

/// An archive that proved bad.
#[derive(Clone, Debug)]
pub struct KnownBad {
    /// Path of the archive.
    pub path: PathBuf,
    /// Identity of the bad file. Another file under the same name is not known to be bad.
    pub file: FileIdentity,
    /// The reason, in words.
    pub reason: String,
}

impl Request {
    /// Returns a request for the newest archives with defaults for everything else: checks of the
    /// structure, format 3, second names, and no space left to other processes.
    pub fn new(places: Places) -> Self {
        Self {
            places,
            cluster: ExpectedCluster::default(),
            verify: Verify::default(),
            preflight: PreflightMode::default(),
            min_free: Reserve::NONE,
            pass: unsnap_pass::Options::default(),
            files: None,
            format: Format::V3,
            shadow: true,
            replace: false,
            offered: Offered::default(),
            pair: None,
            known_bad: Vec::new(),
            suspects: Vec::new(),
            max_behind: 0,
            defer: false,
            removal_files_per_second: REMOVAL_FILES_PER_SECOND,
        }
    }

    /// Returns whether others that prepare a state are waited for.
    pub(crate) fn defers(&self) -> bool {
        self.defer && !self.replace
    }

    /// Returns the slot of the oldest state that may be taken for that of a pair of archives.
    pub(crate) fn oldest(&self, pair: &Pair) -> u64 {
        pair.slot().saturating_sub(self.max_behind)
    }
}

impl KnownBad {
    /// Returns whether the bad file still has its name.
    pub(crate) fn exists(&self) -> bool {
        self.file.is_that_of(&self.path)
    }
}

/// A request together with the caller's handles.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub request: &'a Request,
    pub calls: &'a Syscalls,
    pub progress: &'a Progress,
    pub cancel: &'a CancelToken,
}

impl Work<'_> {
    /// Returns the archives in these directories, and those on servers.
    pub(crate) fn candidates(&self, dirs: &SearchDirs) -> Result<Candidates, FastbootError> {
        if let Some(pair) = &self.request.pair {
            return Ok(Candidates::only(pair.clone()));
        }
        let mut candidates = Candidates::find(dirs)?;
        let Offered { archives, peers, is_optional } = &self.request.offered;
        let cancelled = || self.cancel.is_cancelled();
        let mut offers: Vec<_> =
            archives.iter().map(|archive| archive.resolved(&cancelled)).collect();
        if let Some(peers) = peers {
            match peers.archives(&[Newest::Full, Newest::Incremental], &cancelled) {
                Ok(archives) => offers.extend(archives.into_iter().map(Ok)),
                Err(error) => offers.push(Err(error)),
            }
        }
        for offered in offers {
            let offered = offered.map_err(FastbootError::from);
            if let Err(error) = offered.and_then(|offered| candidates.offer(dirs, offered)) {
                if !is_optional || error.family() == Family::Cancelled {
                    return Err(error);
                }
                tracing::warn!(%error, "an archive on a server is left out");
            }
        }
        Ok(candidates)
    }
}

impl Work<'_> {
    /// Returns copies of the caller's handles.
    pub fn handles(&self) -> Handles {
        Handles { progress: self.progress.clone(), cancel: self.cancel.clone() }
    }
}
