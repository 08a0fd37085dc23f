//! Archives: their names, those of one snapshot, and their open files.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use unsnap_fetch::{Address, Entrant, FetchError, FetchOptions, Look, Remote};
use unsnap_layout::{ArchiveName, Named, Pair, PairError};
use unsnap_ring::{DirectMode, Syscalls};
use unsnap_source::{ArchiveFile, SourceError};

use crate::{PassError, start::Start};

/// Origin of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Archive {
    /// A path: of a regular file, or of a pipe, which is read like standard input.
    File(PathBuf),
    /// A complete file that does not have its name yet. It is judged, and named in messages, by that
    /// name. An index beside it is ignored, since it belongs to an archive that had the name before.
    Unpublished {
        /// Path of the file.
        path: PathBuf,
        /// Path that it will have.
        name: PathBuf,
    },
    /// Standard input.
    Stdin,
    /// On a web server.
    Remote(Box<RemoteArchive>),
}

/// An archive on a web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteArchive {
    /// Its address. The last part is judged like a file name.
    pub address: Address,
    /// How to fetch it.
    pub options: FetchOptions,
    /// Names of which it must have one after all redirects; empty for any.
    pub expected: Vec<ArchiveName>,
    /// Other servers that send an archive of the same name, whose bytes may differ.
    pub rivals: Vec<Entrant>,
    /// What has come of it already.
    pub start: Start,
}

/// Longest time without a byte if there are other servers. A guess.
const GIVE_UP_FOR_RIVALS: Duration = Duration::from_secs(30);

impl RemoteArchive {
    /// Returns an archive of any name, at one server.
    pub fn new(address: Address, options: FetchOptions) -> Self {
        let start = Start::default();
        Self { address, options, expected: Vec::new(), rivals: Vec::new(), start }
    }

    fn open(&self) -> Result<Remote, FetchError> {
        let mut options = self.options.clone();
        if !self.rivals.is_empty() {
            options.patience.give_up = options.patience.give_up.min(GIVE_UP_FOR_RIVALS);
        }
        match self.start.take() {
            Some(start) => Remote::open_raced(start, &options),
            None => Remote::open(&self.address, &options, &|| false),
        }
    }

    /// Returns the archive under its own name. Asks the server where it is if the address does not have
    /// a snapshot's name.
    ///
    /// A validator redirects from a fixed path to its newest archive. What is checked against the name
    /// must be the archive of that name, also if there is a newer one a moment later.
    ///
    /// # Errors
    ///
    /// An error of the network, or [`FetchError::OtherName`] for an archive that is not expected.
    pub fn resolved(&self, cancelled: &dyn Fn() -> bool) -> Result<Self, PassError> {
        let mut resolved = self.clone();
        if ArchiveName::parse(self.address.file_name()).is_err() {
            let Look { address, options, .. } =
                Remote::look(&self.address, &self.options, cancelled)?;
            (resolved.address, resolved.options) = (address, options);
        }
        let name = ArchiveName::parse(resolved.address.file_name()).ok();
        if !self.expected.is_empty() && name.is_none_or(|name| !self.expected.contains(&name)) {
            let expected: Vec<_> = self.expected.iter().map(ArchiveName::to_string).collect();
            let expected = expected.join(" or ");
            return Err(FetchError::OtherName { address: resolved.address, expected }.into());
        }
        Ok(resolved)
    }
}

impl From<FetchError> for PassError {
    fn from(error: FetchError) -> Self {
        Self::Source(SourceError::Remote(Box::new(error)))
    }
}

impl Archive {
    /// Returns the name for messages.
    pub fn display_name(&self) -> String {
        match self {
            Self::File(path) | Self::Unpublished { name: path, .. } => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
            Self::Remote(remote) => remote.address.to_string(),
        }
    }

    /// Returns whether the archive can be read only once, from its first byte to its last.
    pub fn is_stream(&self) -> bool {
        matches!(self, Self::Stdin | Self::Remote(_))
    }

    /// Returns the parsed file name, if it is the name of a snapshot archive.
    pub fn snapshot_name(&self) -> Option<ArchiveName> {
        let name = match self {
            Self::File(path) | Self::Unpublished { name: path, .. } => {
                path.file_name()?.to_str()?
            }
            Self::Remote(remote) => remote.address.file_name(),
            Self::Stdin => return None,
        };
        match ArchiveName::parse(name) {
            Ok(name) => Some(name),
            Err(error) => {
                tracing::debug!(%error, "the file name is not that of a snapshot archive");
                None
            }
        }
    }
}

impl Named for Archive {
    fn snapshot_name(&self) -> Option<ArchiveName> {
        self.snapshot_name()
    }

    fn display_name(&self) -> String {
        self.display_name()
    }
}

/// The archives of one snapshot: a single archive, of any name, or a [`Pair`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archives(Vec<Archive>);

impl Archives {
    /// Returns an archive, together with the incremental one that builds on it, if it is given.
    pub fn new(archive: Archive, incremental: Option<Archive>) -> Result<Self, PairError> {
        match incremental {
            None => Ok(archive.into()),
            Some(_) => Pair::new(archive, incremental).map(Self::from),
        }
    }

    /// Returns the archives, the full one first. There is at least one.
    pub fn as_slice(&self) -> &[Archive] {
        &self.0
    }
}

impl From<Archive> for Archives {
    fn from(archive: Archive) -> Self {
        Self(vec![archive])
    }
}

impl From<Pair<Archive>> for Archives {
    fn from(pair: Pair<Archive>) -> Self {
        Self(pair.into_iter().collect())
    }
}

/// An open archive, of which nothing has been read.
pub enum OpenArchive {
    /// A regular file.
    File(ArchiveFile),
    /// Standard input, a pipe, a socket or a character device, which can only be read in order.
    Stream(OwnedFd),
    /// An archive on a web server, whose first bytes have been received.
    Remote(Remote),
}

impl OpenArchive {
    /// Opens an archive without reading it.
    pub(crate) fn open(
        calls: &Syscalls,
        archive: &Archive,
        direct: DirectMode,
    ) -> Result<Self, PassError> {
        let path = match archive {
            Archive::Stdin => {
                let file = calls.duplicate(io::stdin().as_fd());
                return file
                    .map(Self::Stream)
                    .map_err(|errno| open_error(Path::new("standard input"), errno));
            }
            Archive::Remote(remote) => {
                return Ok(Self::Remote(remote.open()?));
            }
            Archive::File(path) | Archive::Unpublished { path, .. } => path,
        };
        let stat = calls.stat(path).map_err(|errno| open_error(path, errno))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let unsuitable = match kind {
            // A device such as /dev/zero has no end.
            FileType::CharacterDevice => Some("character device"),
            FileType::BlockDevice => Some("block device"),
            FileType::Directory => Some("directory"),
            _ => None,
        };
        if let Some(kind) = unsuitable {
            let path = path.display();
            let reason = format!("{path} is a {kind}: archives are files, pipes or sockets");
            return Err(PassError::request(reason));
        }
        if matches!(kind, FileType::Fifo | FileType::Socket) {
            let file = calls.open(path, OFlags::RDONLY | OFlags::CLOEXEC);
            return file.map(Self::Stream).map_err(|errno| open_error(path, errno));
        }
        let file = ArchiveFile::open(calls, path, direct);
        file.map(Self::File).map_err(PassError::source)
    }

    /// Opens the archive once more, at its beginning; `None` for what can be read only once.
    pub fn again(&self) -> Option<Result<Self, PassError>> {
        match self {
            Self::File(file) => Some(file.again().map(Self::File).map_err(PassError::source)),
            Self::Stream(_) | Self::Remote(_) => None,
        }
    }

    /// Returns the file, if the archive is one.
    pub fn file(&self) -> Option<&ArchiveFile> {
        match self {
            Self::File(file) => Some(file),
            Self::Stream(_) | Self::Remote(_) => None,
        }
    }
}

fn open_error(path: &Path, errno: Errno) -> PassError {
    PassError::Source(SourceError::Open { path: path.to_owned(), errno })
}

#[cfg(test)]
mod tests {
    use unsnap_failure::{Failure, Family};

    use super::*;

    #[test]
    fn a_device_or_directory_is_not_an_archive() {
        let calls = Syscalls::default();
        let open = |path: &str| {
            OpenArchive::open(&calls, &Archive::File(path.into()), DirectMode::Auto).map(drop)
        };
        for (path, kind) in [
            ("/dev/zero", "character device"),
            ("/dev/full", "character device"),
            ("/", "directory"),
        ] {
            let error = open(path).unwrap_err();
            assert_eq!(error.family(), Family::Request);
            assert!(error.to_string().contains(kind), "{error}");
        }
        assert!(open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).is_ok());
    }
}
