//! What a run needs before it can start: the archive's beginning, and memory.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use unsnap_arena::{Arena, ArenaRanges, Pool};
use unsnap_decode::MemoryPlan;
use unsnap_ring::Syscalls;
use unsnap_source::{SourceError, read_head};

use crate::{Archive, CancelToken, Config, Error};

/// Bytes of the archive's beginning that decide how memory is divided; of a stream fewer, which
/// a slow sender delivers at once.
const HEAD_BYTES: usize = 64 << 10;
const STREAM_HEAD_BYTES: usize = 512;

/// The archive, opened far enough to know its beginning and its size.
pub(crate) enum Input {
    Seekable { head: Vec<u8>, bytes: u64 },
    Stream { file: OwnedFd, head: Vec<u8> },
}

impl Input {
    pub fn open(calls: &Syscalls, archive: &Archive, cancel: &CancelToken) -> Result<Self, Error> {
        let path = match archive {
            Archive::Stdin => {
                let file = calls.duplicate(std::io::stdin().as_fd());
                let file = file.map_err(|errno| open_error(Path::new("standard input"), errno))?;
                return Self::stream(file, archive, cancel);
            }
            Archive::File(path) => path,
        };
        let open_error = |errno| open_error(path, errno);
        let file = calls.open(path, OFlags::RDONLY | OFlags::CLOEXEC).map_err(open_error)?;
        let stat = calls.fstat(&file).map_err(open_error)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::Socket) {
            return Self::stream(file, archive, cancel);
        }
        let head = read_up_to(calls, &file, HEAD_BYTES).map_err(open_error)?;
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(Self::Seekable { head, bytes })
    }

    fn stream(file: OwnedFd, archive: &Archive, cancel: &CancelToken) -> Result<Self, Error> {
        let name = archive.display_name();
        let head = read_head(&file, name, STREAM_HEAD_BYTES, || cancel.is_cancelled());
        let head = head.map_err(|error| match error {
            SourceError::Cancelled => Error::Cancelled,
            error => Error::Source(error),
        })?;
        Ok(Self::Stream { file, head })
    }

    fn head(&self) -> &[u8] {
        match self {
            Self::Seekable { head, .. } | Self::Stream { head, .. } => head,
        }
    }
}

/// The next `count` bytes of a file, fewer at its end.
fn read_up_to(calls: &Syscalls, file: &OwnedFd, count: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while filled < count {
        match calls.read(file, &mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn open_error(path: &Path, errno: Errno) -> Error {
    Error::Source(SourceError::Open { path: path.to_owned(), errno })
}

/// Archives up to this size are unpacked before their memory is faulted in and pinned as a whole
/// (which took 0.2 s for 80 MiB on a virtual machine, November 2026): pages come as they are used.
const SMALL_ARCHIVE_BYTES: u64 = 64 << 20;

/// The one reservation and its pools.
pub(crate) struct Memory {
    pub arena: Arena,
    pub plan: MemoryPlan,
    pub read: Pool,
    pub segments: Pool,
    on_demand: bool,
}

impl Memory {
    pub fn reserve(config: &Config, input: &Input, threads: usize) -> Result<Self, Error> {
        let budget = match config.memory_budget {
            None => MemoryPlan::default_budget(threads),
            Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX / 2),
        };
        if budget < MemoryPlan::budget_min() {
            return Err(Error::Request {
                reason: format!("a memory budget of {budget} bytes is too small"),
                hint: Some(format!("at least {} bytes are needed", MemoryPlan::budget_min())),
            });
        }
        let plan = MemoryPlan::new(
            budget,
            threads,
            input.head(),
            &config.limits.decode,
            config.tuning.decode,
        );
        let memory = |error: unsnap_arena::ArenaError| Error::Memory { reason: error.to_string() };
        let small = matches!(input, Input::Seekable { bytes, .. } if *bytes <= SMALL_ARCHIVE_BYTES);
        let on_demand = small || config.dry_run;
        let builder = Arena::builder().bytes(plan.total_bytes()).hugetlb(config.hugetlb);
        let mut arena = builder.populate(!on_demand).build().map_err(memory)?;
        let read = arena.pool(plan.read_bytes).map_err(memory)?;
        let segments = arena.pool(plan.segments_bytes).map_err(memory)?;
        Ok(Self { arena, plan, read, segments, on_demand })
    }

    /// What rings should register.
    pub fn to_register(&self) -> Option<ArenaRanges> {
        (!self.on_demand).then(|| self.arena.ranges())
    }

    /// Ends all waiting for memory, and for a silent stream.
    pub fn close(&self) {
        self.closer()();
    }

    pub fn closer(&self) -> impl Fn() + Send + 'static {
        let pools = [self.read.clone(), self.segments.clone()];
        move || pools.iter().for_each(Pool::close)
    }
}
