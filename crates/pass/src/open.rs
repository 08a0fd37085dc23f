//! Opening comes first: every name that a run ever looks up, apart from what it builds itself, is
//! looked up here. Everything after it works on descriptors, so the process can be confined to them.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use unsnap_index::Index;
use unsnap_ring::{DirectMode, Syscalls};
use unsnap_source::{ArchiveFile, SourceError};

use crate::{
    Archive, Handles, Options, PassError,
    indexes::{self, SideCarFile},
    sandbox::{self, Need, SandboxReport},
};

/// An open archive. Not a byte of it has been read.
pub enum OpenArchive {
    /// A regular file, with its size.
    File(ArchiveFile),
    /// A stream, which can only be read in order: standard input or a pipe.
    Stream(OwnedFd),
}

/// Archives and their indexes, open.
pub struct Opened {
    /// The archives as the caller named them; the one that the others build on comes first.
    pub named: Vec<Archive>,
    /// The archives, in the same order.
    pub archives: Vec<OpenArchive>,
    /// The side-car of each archive, if it has one that is to be used.
    side_cars: Vec<Option<SideCarFile>>,
    /// Decoding threads. Determined here, since the kernel answers in files (of control groups).
    pub threads: usize,
}

impl Opened {
    /// Opens archives and their side-cars. Reads nothing.
    pub fn open(archives: &[Archive], options: &Options) -> Result<Self, PassError> {
        let calls = options.io.engine.syscalls();
        let open = |archive: &Archive| OpenArchive::open(&calls, archive, options.io.direct);
        Ok(Self {
            named: archives.to_vec(),
            archives: archives.iter().map(open).collect::<Result<_, _>>()?,
            side_cars: archives
                .iter()
                .map(|archive| SideCarFile::open(archive, options.io.index))
                .collect(),
            threads: options.resources.threads(),
        })
    }

    /// Opens archives that are only read, and confines the calling thread for good. `confined` is
    /// called when that is done: the place to start threads that are to be confined as well.
    pub fn to_read(
        archives: &[Archive],
        options: &Options,
        handles: &Handles,
        confined: impl FnOnce() -> io::Result<()>,
    ) -> Result<Self, PassError> {
        handles.progress.reset(options.neighbour.pace.as_ref());
        options.neighbour.settle()?;
        let opened = Self::open(archives, options)?;
        opened.confine(options, &[]);
        confined().map_err(PassError::thread)?;
        Ok(opened)
    }

    /// Confines the calling thread, and all threads that it will start, to the open descriptors and
    /// to these directories.
    pub fn confine(&self, options: &Options, needs: &[(BorrowedFd<'_>, Need)]) -> SandboxReport {
        sandbox::confine(options.sandbox, needs)
    }

    /// Reads the index of each archive: `None` where there is none, or none that can be trusted.
    pub fn load_indexes(
        &mut self,
        options: &Options,
        handles: &Handles,
    ) -> Result<Vec<Option<Index>>, PassError> {
        let side_cars = std::mem::take(&mut self.side_cars);
        let archives = self.named.iter().zip(&self.archives);
        let wanted = options.io.index;
        side_cars
            .into_iter()
            .zip(archives)
            .map(|(side_car, (named, archive))| {
                indexes::load(side_car, named, archive, wanted, handles)
            })
            .collect()
    }
}

impl OpenArchive {
    fn open(calls: &Syscalls, archive: &Archive, direct: DirectMode) -> Result<Self, PassError> {
        let path = match archive {
            Archive::Stdin => {
                let file = calls.duplicate(io::stdin().as_fd());
                return file
                    .map(Self::Stream)
                    .map_err(|errno| open_error(Path::new("standard input"), errno));
            }
            Archive::File(path) => path,
        };
        let stat = calls.stat(path).map_err(|errno| open_error(path, errno))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        // A device such as /dev/zero has no end.
        let device = match kind {
            FileType::CharacterDevice => Some("character"),
            FileType::BlockDevice => Some("block"),
            _ => None,
        };
        if let Some(device) = device {
            let reason = format!(
                "{} is a {device} device: archives are files, pipes or sockets",
                path.display()
            );
            return Err(PassError::request(reason));
        }
        if matches!(kind, FileType::Fifo | FileType::Socket) {
            let file = calls.open(path, OFlags::RDONLY | OFlags::CLOEXEC);
            return file.map(Self::Stream).map_err(|errno| open_error(path, errno));
        }
        let file = ArchiveFile::open(calls, path, direct);
        file.map(Self::File).map_err(PassError::source)
    }

    /// Returns the archive once more, to be read from the beginning; `None` for a stream.
    pub fn again(&self) -> Option<Result<Self, PassError>> {
        match self {
            Self::File(file) => Some(file.again().map(Self::File).map_err(PassError::source)),
            Self::Stream(_) => None,
        }
    }

    /// Returns the file, unless the archive is a stream.
    pub fn file(&self) -> Option<&ArchiveFile> {
        match self {
            Self::File(file) => Some(file),
            Self::Stream(_) => None,
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
    fn a_device_is_not_an_archive() {
        let calls = Syscalls::default();
        let open = |path: &str| {
            OpenArchive::open(&calls, &Archive::File(path.into()), DirectMode::Auto).map(drop)
        };
        for device in ["/dev/zero", "/dev/full"] {
            let error = open(device).unwrap_err();
            assert_eq!(error.family(), Family::Request);
            assert!(error.to_string().contains("character device"), "{error}");
        }
        assert!(open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).is_ok());
    }
}
