//! Archives to choose from: the newest full one, and the newest incremental one that builds on it.

#![allow(clippy::disallowed_methods, reason = "looks for archives before anything is written")]

use std::cmp::Reverse;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use unsnap_failure::{Failure, Family, Remedy};
use unsnap_layout::{ArchiveName, Named};
use unsnap_pass::{Archive, PassError, RemoteArchive};
use unsnap_tarstream::printable;

use crate::FastbootError;

/// Directories that are searched for archives, together with their subdirectories `remote`, where
/// validators put downloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchDirs {
    /// Directory of full archives.
    pub full: PathBuf,
    /// Directory of incremental archives; may be the same.
    pub incremental: PathBuf,
}

impl SearchDirs {
    /// Searches one directory for both kinds, as validators do by default.
    pub fn new(archives: impl Into<PathBuf>) -> Self {
        let full = archives.into();
        Self { incremental: full.clone(), full }
    }

    /// Returns the path without links of a file in one of the directories that are searched; `None`
    /// for other files.
    pub(crate) fn holding(&self, file: &Path) -> Option<PathBuf> {
        let holder = fs::canonicalize(file.parent()?).ok()?;
        let dirs = [&self.full, &self.incremental].into_iter();
        let mut dirs = dirs.flat_map(|dir| [dir.clone(), dir.join(REMOTE)]);
        let is_one = dirs.any(|dir| fs::canonicalize(dir).is_ok_and(|dir| dir == holder));
        is_one.then(|| fs::canonicalize(file).ok()).flatten()
    }
}

/// The archives that a validator would choose from, best first.
///
/// The rules are Agave's (`agave-snapshots` 4.2.2, `paths.rs`): the full archive of the highest
/// slot, then the incremental archive of the highest slot among those that build on it. Incremental
/// archives for other full ones do not count, however new they are. Other names are skipped, among
/// them the `tmp-` names of unfinished archives. Size and content are not examined.
///
/// Among archives of one slot, Agave takes the one that the file system lists last. Here the
/// directory itself goes before `remote`, then the first file name wins.
///
/// An archive must be a regular file or a symbolic link to one. Anything else is skipped.
///
/// ```no_run
/// use unsnap_fastboot::{Candidates, SearchDirs};
///
/// # fn main() -> Result<(), unsnap_fastboot::FastbootError> {
/// # fn usable(path: &std::path::Path) -> bool { path.exists() }
/// let mut candidates = Candidates::find(&SearchDirs::new("/mnt/ledger/snapshots"))?;
/// while let Some(pair) = candidates.best() {
///     let Some(bad) = pair.archives().find(|archive| !usable(&archive.path)) else { break };
///     let bad = bad.path.clone();
///     candidates.set_aside(&bad);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Best first, at most [`CANDIDATES_MAX`].
    full: Vec<Candidate>,
    /// Best first, of all base slots, at most [`CANDIDATES_MAX`].
    incremental: Vec<Candidate>,
}

/// An archive in one of the directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Path of the archive.
    pub path: PathBuf,
    /// Slots, hash and compression in its name.
    pub name: ArchiveName,
    /// Size in bytes when it was found.
    pub bytes: u64,
    /// Whether it is in `remote`.
    pub remote: bool,
    /// Where it comes from, if it is not there yet: it is received while it is unpacked, and kept under
    /// the path.
    pub offered: Option<Box<RemoteArchive>>,
}

/// A full archive, and an incremental one to unpack together with it.
pub type Pair = unsnap_layout::Pair<Candidate>;

/// Returns the archive of a pair whose content an error is about.
pub fn blamed<'p>(pair: &'p Pair, error: &FastbootError) -> &'p Candidate {
    let is_it = |candidate: &&Candidate| {
        error.archive().is_some_and(|archive| archive == candidate.archive().display_name())
    };
    pair.incremental().filter(is_it).unwrap_or(pair.full())
}

/// Identity of a file's content. A file that is replaced or written to has another identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change of its content, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// Inode number.
    pub inode: u64,
}

impl FileIdentity {
    /// Returns the identity of the file under a path now. Follows links.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let (seconds, ns) = (i128::from(metadata.mtime()), i128::from(metadata.mtime_nsec()));
        Ok(Self {
            bytes: metadata.len(),
            modified_ns: seconds * 1_000_000_000 + ns,
            inode: metadata.ino(),
        })
    }

    /// Returns the identities of all files that exist.
    pub fn of_all<'p>(paths: impl Iterator<Item = &'p Path>) -> Vec<(PathBuf, Self)> {
        paths.filter_map(|path| Some((path.to_owned(), Self::of(path).ok()?))).collect()
    }

    /// Returns whether the file under this path has this identity.
    pub fn is_that_of(&self, path: &Path) -> bool {
        Self::of(path).is_ok_and(|now| now == *self)
    }
}

impl Candidates {
    /// Looks for archives. That there are none is no error: [`best`](Self::best) tells.
    ///
    /// A missing directory is one, but a missing `remote` is not. Of each kind no more than the
    /// best 1000 are remembered, with a warning; a directory of more than 1,000,000 entries is an
    /// error.
    pub fn find(dirs: &SearchDirs) -> Result<Self, FastbootError> {
        let mut found = Self { full: Vec::new(), incremental: Vec::new() };
        if dirs.full == dirs.incremental {
            found.search(&dirs.full, |_| true)?;
        } else {
            found.search(&dirs.full, |name| name.base_slot().is_none())?;
            found.search(&dirs.incremental, |name| name.base_slot().is_some())?;
        }
        for (kind, candidates) in
            [("full", &mut found.full), ("incremental", &mut found.incremental)]
        {
            candidates.sort_by_cached_key(Candidate::rank);
            if candidates.len() > CANDIDATES_MAX {
                let archives = candidates.len();
                tracing::warn!("{archives} {kind} archives: only the best {CANDIDATES_MAX} count");
                candidates.truncate(CANDIDATES_MAX);
            }
        }
        Ok(found)
    }

    /// Returns a choice of one pair only.
    pub fn only(pair: Pair) -> Self {
        let mut archives = pair.into_iter();
        Self { full: archives.by_ref().take(1).collect(), incremental: archives.collect() }
    }

    /// Adds an archive from a server, which has a snapshot's name, unless it is among them already. It
    /// is going to be kept in the directory of its kind.
    pub(crate) fn offer(
        &mut self,
        dirs: &SearchDirs,
        offered: RemoteArchive,
    ) -> Result<(), FastbootError> {
        let file_name = offered.address.file_name();
        let name = ArchiveName::parse(file_name)
            .map_err(|error| FastbootError::request(error.to_string(), None))?;
        let (candidates, directory) = match name {
            ArchiveName::Full { .. } => (&mut self.full, &dirs.full),
            ArchiveName::Incremental { .. } => (&mut self.incremental, &dirs.incremental),
        };
        if let Some(known) = candidates.iter().find(|known| known.name == name) {
            tracing::info!(archive = %known.path.display(), "the archive is there already");
            return Ok(());
        }
        let (path, offered) = (directory.join(file_name), Some(Box::new(offered)));
        candidates.push(Candidate { path, name, bytes: 0, remote: false, offered });
        candidates.sort_by_cached_key(Candidate::rank);
        Ok(())
    }

    /// Finds the fastest server of each archive of a pair that several send. An archive that all of them
    /// fail to send is removed.
    pub(crate) fn race(
        &mut self,
        pair: &Pair,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Pair, FastbootError> {
        let race = |candidate: &Candidate| -> Result<Candidate, (PathBuf, PassError)> {
            let offered = candidate.offered.as_ref().map(|offered| offered.raced(cancelled));
            let offered = offered.transpose().map_err(|error| (candidate.path.clone(), error))?;
            Ok(Candidate { offered: offered.map(Box::new), ..candidate.clone() })
        };
        let full = race(pair.full());
        let raced = full.and_then(|full| Ok((full, pair.incremental().map(race).transpose()?)));
        match raced {
            Ok((full, incremental)) => Ok(Pair::new(full, incremental).map_err(PassError::from)?),
            Err((path, error)) => {
                if error.family() != Family::Cancelled {
                    self.set_aside(&path);
                }
                Err(error.into())
            }
        }
    }

    /// Takes the archive of a pair that an error is about from its next server. Returns whether there
    /// is one.
    pub(crate) fn go_elsewhere(&mut self, pair: &Pair, error: &FastbootError) -> bool {
        let Some(name) = error.archive() else { return false };
        let blamed = pair.archives().find(|archive| archive.archive().display_name() == name);
        let next = blamed.and_then(|blamed| Some((blamed, blamed.offered.as_ref()?.after(error)?)));
        let Some((blamed, next)) = next else { return false };
        let known = self.full.iter_mut().chain(&mut self.incremental);
        for candidate in known.filter(|candidate| candidate.path == blamed.path) {
            candidate.offered = Some(Box::new(next.clone()));
        }
        true
    }

    /// Removes the archives from servers. Returns whether there were any.
    pub(crate) fn decline(&mut self) -> bool {
        let before = self.full.len() + self.incremental.len();
        self.full.retain(|candidate| candidate.offered.is_none());
        self.incremental.retain(|candidate| candidate.offered.is_none());
        self.full.len() + self.incremental.len() < before
    }

    /// Returns all archives, full ones first.
    pub fn archives(&self) -> impl Iterator<Item = &Candidate> {
        self.full.iter().chain(&self.incremental)
    }

    /// Returns the pair that a validator would unpack; `None` without a full archive.
    pub fn best(&self) -> Option<Pair> {
        self.pairs().next()
    }

    /// Returns all pairs, best first: each full archive with each incremental one that builds on
    /// it, then alone.
    pub fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.full.iter().flat_map(|full| {
            let slot = full.name.slot();
            let upon = self.incremental.iter().filter(move |i| i.name.base_slot() == Some(slot));
            upon.map(Some)
                .chain([None])
                .filter_map(|incremental| Pair::new(full.clone(), incremental.cloned()).ok())
        })
    }

    /// Removes an archive that proved bad from the choice. Returns whether it was in it.
    pub fn set_aside(&mut self, path: &Path) -> bool {
        let before = self.full.len() + self.incremental.len();
        self.full.retain(|candidate| candidate.path != path);
        self.incremental.retain(|candidate| candidate.path != path);
        self.full.len() + self.incremental.len() < before
    }

    /// Adds the archives in a directory and in its `remote` whose names are wanted.
    fn search(
        &mut self,
        dir: &Path,
        wanted: impl Fn(&ArchiveName) -> bool,
    ) -> Result<(), FastbootError> {
        let entries = fs::read_dir(dir).map_err(|error| refused(dir, &error))?;
        self.add(dir, entries, false, &wanted)?;
        let remote = dir.join(REMOTE);
        match fs::read_dir(&remote) {
            Ok(entries) => self.add(&remote, entries, true, &wanted),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(refused(&remote, &error)),
        }
    }

    fn add(
        &mut self,
        dir: &Path,
        entries: fs::ReadDir,
        remote: bool,
        wanted: impl Fn(&ArchiveName) -> bool,
    ) -> Result<(), FastbootError> {
        for (index, entry) in entries.enumerate() {
            let entry = entry.map_err(|error| refused(dir, &error))?;
            if index >= DIRECTORY_ENTRIES_MAX {
                let directory = dir.display();
                let reason = format!("{directory} has more than {DIRECTORY_ENTRIES_MAX} entries");
                return Err(FastbootError::request(reason, Some(Remedy::NameSnapshots)));
            }
            let file_name = entry.file_name();
            let shown = || printable(file_name.as_encoded_bytes());
            let name = match file_name.to_str().map(ArchiveName::parse) {
                Some(Ok(name)) => name,
                Some(Err(reason)) => {
                    tracing::debug!("skipped in {}: {reason}", dir.display());
                    continue;
                }
                None => {
                    tracing::debug!("skipped in {}: {} is not UTF-8", dir.display(), shown());
                    continue;
                }
            };
            if !wanted(&name) {
                continue;
            }
            let path = entry.path();
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                // Just removed, or a link to nothing or to itself.
                Err(error) if is_nothing(&error) => {
                    tracing::debug!("skipped in {}: {}: {error}", dir.display(), shown());
                    continue;
                }
                Err(error) => return Err(refused(&path, &error)),
            };
            if !metadata.is_file() {
                tracing::debug!("skipped in {}: {} is not a file", dir.display(), shown());
                continue;
            }
            let candidates = match name {
                ArchiveName::Full { .. } => &mut self.full,
                ArchiveName::Incremental { .. } => &mut self.incremental,
            };
            candidates.push(Candidate { path, name, bytes: metadata.len(), remote, offered: None });
        }
        Ok(())
    }
}

impl Candidate {
    /// Returns the archive under a path given by the user: a file with an archive's name.
    pub fn named(path: &Path) -> Result<Self, FastbootError> {
        let file_name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let name = ArchiveName::parse(&file_name)
            .map_err(|error| FastbootError::request(error.to_string(), None))?;
        let metadata = fs::metadata(path).map_err(|error| refused(path, &error))?;
        if !metadata.is_file() {
            let reason = format!("{} is not a file", path.display());
            return Err(FastbootError::request(reason, None));
        }
        Ok(Self {
            path: path.to_owned(),
            name,
            bytes: metadata.len(),
            remote: false,
            offered: None,
        })
    }

    /// Returns the archive for reading it.
    pub(crate) fn archive(&self) -> Archive {
        match &self.offered {
            Some(offered) => Archive::Remote(offered.clone()),
            None => Archive::File(self.path.clone()),
        }
    }

    /// Returns a key that is smallest for the best archive.
    fn rank(&self) -> (Reverse<u64>, bool, bool, PathBuf) {
        (Reverse(self.name.slot()), self.offered.is_some(), self.remote, self.path.clone())
    }
}

impl Named for Candidate {
    fn snapshot_name(&self) -> Option<ArchiveName> {
        Some(self.name)
    }

    fn display_name(&self) -> String {
        self.archive().display_name()
    }
}

fn is_nothing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::LOOP)
}

fn refused(path: &Path, error: &io::Error) -> FastbootError {
    // Every error here comes from the kernel and has a number.
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    FastbootError::Search { path: path.to_owned(), errno }
}

/// Subdirectory for downloads (`agave-snapshots`, `paths.rs`).
const REMOTE: &str = "remote";
/// Most archives of each kind. A guess: validators keep two full and four incremental archives.
const CANDIDATES_MAX: usize = 1_000;
/// Most entries of a directory. A guess: twice the number of files in mainnet's accounts directory,
/// in case that is given by mistake.
const DIRECTORY_ENTRIES_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests;
