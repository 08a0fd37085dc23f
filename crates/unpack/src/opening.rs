//! Opening comes first: every name that a run ever looks up, outside of what it builds itself, is
//! looked up here. What follows works on descriptors, and so can be confined to them.

use std::{
    fs::File,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::Path,
    thread,
};

use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};
use unsnap_create::{Destination, FileSink};
use unsnap_ring::{DirectMode, Syscalls};
use unsnap_source::{ArchiveFile, DigestKind, SourceError};

use crate::{
    Archive, Config, Error, SandboxReport, Verify, manifest::Manifest, parts::SideCarFile, sandbox,
    staging::Staging, writeback::SyncTarget,
};

/// Threads beyond which decoding has never been seen to gain, for a default. A guess.
const DECODE_THREADS_MAX: usize = 16;

/// All that a run works on, opened. Not a byte of the archive has been read.
pub(crate) struct Opened {
    /// Where the files will go: nowhere, if nothing is to be written.
    pub target: Option<Target>,
    /// The archives, the one that others build on first.
    pub archives: Vec<OpenArchive>,
    /// Of each archive the side-car, if it has one that is to be used.
    pub side_cars: Vec<Option<SideCarFile>>,
    /// Threads that decode. Asked for here, since the answer is in files (of control groups).
    pub threads: usize,
    /// What will list the files, if that is wanted.
    pub manifest: Option<Manifest>,
    /// Takes what the verification of accounts cannot keep in memory.
    pub spill: Option<File>,
    pub status: ProcessStatus,
}

/// Where files will go.
pub(crate) struct Target {
    /// The way to the kernel.
    pub calls: Syscalls,
    /// Dropped before it was published, it takes everything back.
    pub staging: Staging,
    /// The staging directories, in the order of [`Config::spots`].
    pub directories: Vec<OwnedFd>,
    pub destinations: Vec<Destination>,
    pub sync: Vec<SyncTarget>,
}

/// The archive.
pub(crate) enum OpenArchive {
    /// A regular file, with its size.
    File(ArchiveFile),
    /// What can only be read in order: standard input, a pipe.
    Stream(OwnedFd),
}

impl Opened {
    /// `writes`: whether files are to be created; without, the destinations are not looked at.
    pub fn open(config: &Config, writes: bool) -> Result<Self, Error> {
        let calls = config.io_engine.syscalls();
        let target = if writes { Some(Target::open(&calls, config)?) } else { None };
        let open = |archive: &Archive| OpenArchive::open(&calls, archive, config.direct_io);
        let archives = config.archives().into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let side_cars =
            config.archives().into_iter().map(|archive| SideCarFile::open(config, archive));
        let side_cars = side_cars.collect();
        let kind = digest_kind(config).unwrap_or(DigestKind::Xxh3);
        let identity = match archives.first() {
            Some(OpenArchive::File(file)) => {
                let stat = file.stat().map_err(Error::Source)?;
                Some((stat.st_dev, stat.st_ino))
            }
            _ => None,
        };
        let destinations: Vec<_> = if writes {
            std::iter::once(&config.output).chain(&config.accounts).collect()
        } else {
            Vec::new()
        };
        let create = |path| Manifest::create(path, kind, identity, &destinations);
        let manifest = config.manifest.as_deref().map(create);
        let spill = if config.verify == Verify::Accounts { spill(target.as_ref()) } else { None };
        Ok(Self {
            target,
            archives,
            side_cars,
            spill,
            manifest: manifest.transpose()?,
            threads: decode_threads(config),
            status: ProcessStatus::open(),
        })
    }
}

/// A file without a name, where the files go; in a dry run, where temporary files do. `None` if the file
/// system has no such files: then there is only memory.
fn spill(target: Option<&Target>) -> Option<File> {
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

impl Target {
    fn open(calls: &Syscalls, config: &Config) -> Result<Self, Error> {
        let staging = Staging::prepare(calls, &config.spots(), config.resume)?;
        let directories = staging.directories()?.into_iter().map(|(directory, _)| directory);
        let directories = directories.collect();
        let destinations = staging
            .directories()?
            .into_iter()
            .take(config.destinations())
            .map(|(directory, path)| {
                Destination::open(calls.clone(), directory, path, config.direct_io)
            })
            .collect::<Result<_, _>>()?;
        let sync = staging.file_systems()?;
        let calls = calls.clone();
        Ok(Self { calls, staging, directories, destinations, sync })
    }
}

impl Opened {
    /// Confines this thread, and all that it starts, to what has been opened.
    pub fn confine(&self, config: &Config) -> SandboxReport {
        // Files that are handed on open are opened for reading too.
        // Of accounts that occur twice all records are read again.
        let reads = config.files.as_ref().is_some_and(FileSink::wants_open_files)
            || config.verify == Verify::Accounts;
        let needs = self.target.as_ref().map(|target| target.staging.needs(reads));
        sandbox::confine(config.sandbox, &needs.unwrap_or_default())
    }
}

impl OpenArchive {
    /// The same once more, to be read from the beginning. `None` for a stream.
    pub fn again(&self) -> Option<Result<Self, Error>> {
        match self {
            Self::File(file) => Some(file.again().map(Self::File).map_err(Error::Source)),
            Self::Stream(_) => None,
        }
    }

    fn open(calls: &Syscalls, archive: &Archive, direct: DirectMode) -> Result<Self, Error> {
        let path = match archive {
            Archive::Stdin => {
                let file = calls.duplicate(std::io::stdin().as_fd());
                return file
                    .map(Self::Stream)
                    .map_err(|errno| open_error(Path::new("standard input"), errno));
            }
            Archive::File(path) => path,
        };
        let stat = calls.stat(path).map_err(|errno| open_error(path, errno))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::Socket) {
            let file = calls.open(path, OFlags::RDONLY | OFlags::CLOEXEC);
            return file.map(Self::Stream).map_err(|errno| open_error(path, errno));
        }
        let file = ArchiveFile::open(calls, path, direct);
        file.map(Self::File).map_err(Error::Source)
    }
}

fn open_error(path: &Path, errno: Errno) -> Error {
    Error::Source(SourceError::Open { path: path.to_owned(), errno })
}

/// How the archive is digested: as the expected digest was.
pub(crate) fn digest_kind(config: &Config) -> Option<DigestKind> {
    config.expect_digest.map(|digest| digest.kind()).or(config.digest)
}

pub(crate) fn decode_threads(config: &Config) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    config.decode_threads.unwrap_or(cores.min(DECODE_THREADS_MAX)).clamp(1, 256)
}

/// What the kernel tells about this process, to be asked again later.
pub(crate) struct ProcessStatus(Option<File>);

impl ProcessStatus {
    /// More than the kernel tells.
    const BYTES_MAX: usize = 16 << 10;

    #[allow(clippy::disallowed_methods, reason = "procfs")]
    fn open() -> Self {
        Self(File::open("/proc/self/status").ok())
    }

    /// Most memory the process has had resident, in bytes; 0 where the kernel does not say.
    pub fn peak_rss_bytes(&self) -> u64 {
        let mut text = vec![0; Self::BYTES_MAX];
        let file = self.0.as_ref();
        let filled = file.and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        String::from_utf8_lossy(&text[..filled])
            .lines()
            .find_map(|line| {
                line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok()
            })
            .map_or(0, |kib: u64| kib * 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_can_be_asked_for_again() {
        let status = ProcessStatus::open();
        let before = status.peak_rss_bytes();
        assert!(before > 0);
        let memory = vec![1_u8; 64 << 20];
        assert!(std::hint::black_box(&memory).iter().all(|byte| *byte == 1));
        assert!(status.peak_rss_bytes() >= before + (32 << 20), "{before}");
        assert_eq!(ProcessStatus(None).peak_rss_bytes(), 0);
    }
}
