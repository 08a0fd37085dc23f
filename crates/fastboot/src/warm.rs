//! Bringing a state's storages into the page cache.
//!
//! A validator that starts from a state reads all its storages once, each by one thread and in small
//! parts, in a random order. What unsnap has written past the page cache comes from the disk then, and
//! the thread waits for it. Read ahead of it, the storages come at the speed of the disks.

use std::{
    collections::VecDeque, num::NonZeroU64, os::fd::OwnedFd, panic::resume_unwind, path::Path,
    thread,
};

use rustix::{
    fs::{Advice, FileType, Mode, OFlags, fadvise},
    io::Errno,
};
use serde::Serialize;
use unsnap_ring::Syscalls;

use crate::{
    FastbootError, Places,
    files::{failed, open_directory},
};

/// Most bytes of each accounts path that the kernel has been asked for and that have not come: enough
/// to keep a disk busy. Measured: with 64 MiB, the validator's own reads wait behind them, and its start
/// takes longer.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// Most files that these bytes are of, more or less: mainnet's have 1.2 MB on average.
const AHEAD_FILES_MAX: usize = 4;

/// Storages that were brought into the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Warmed {
    /// Number of files.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// Whether these are all storages: nothing has ended the reading early.
    pub complete: bool,
}

/// Reads the storages of all accounts paths into the page cache, one thread for each path. Nothing is
/// copied, and the memory stays the kernel's, which takes it back whenever it is needed.
///
/// `may_read` is asked before each file, with its size; once it answers no, its thread ends. Files that
/// disappear are passed over.
///
/// Fails if a directory or a file cannot be read. What has been read stays in the page cache.
pub fn warm(
    calls: &Syscalls,
    places: &Places,
    may_read: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Warmed, FastbootError> {
    let paths: Vec<_> = places.run_directories().collect();
    thread::scope(|scope| {
        let threads: Vec<_> = paths
            .iter()
            .map(|path| {
                thread::Builder::new()
                    .name("unsnap-warm".to_owned())
                    .spawn_scoped(scope, || warm_path(calls, path, may_read))
                    .map_err(|error| {
                        failed(
                            "read the storages in",
                            path,
                            Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
                        )
                    })
            })
            .collect();
        let mut all = Warmed { complete: true, ..Warmed::default() };
        for thread in threads {
            let one = thread?.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            all.files += one.files;
            all.bytes += one.bytes;
            all.complete &= one.complete;
        }
        Ok(all)
    })
}

fn warm_path(
    calls: &Syscalls,
    path: &Path,
    may_read: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Warmed, FastbootError> {
    let at = |errno| failed("read the storages in", path, errno);
    let directory = open_directory(calls, path)?;
    let mut warmed = Warmed::default();
    let mut ahead = Ahead { calls, files: VecDeque::new(), bytes: 0 };
    for (name, kind) in calls.entries(&directory).map_err(at)? {
        if kind != FileType::RegularFile {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match calls.openat(&directory, &name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP) => continue,
            Err(errno) => return Err(at(errno)),
        };
        let size = u64::try_from(calls.fstat(&file).map_err(at)?.st_size).unwrap_or(0);
        let Some(bytes) = NonZeroU64::new(size) else { continue };
        if !may_read(size) {
            return Ok(warmed);
        }
        fadvise(&file, 0, Some(bytes), Advice::WillNeed).map_err(at)?;
        ahead.add(file, size).map_err(at)?;
        warmed.files += 1;
        warmed.bytes += size;
    }
    ahead.wait_until_below(0).map_err(at)?;
    Ok(Warmed { complete: true, ..warmed })
}

/// Files that the kernel has been asked for.
struct Ahead<'a> {
    calls: &'a Syscalls,
    files: VecDeque<(OwnedFd, u64)>,
    bytes: u64,
}

impl Ahead<'_> {
    fn add(&mut self, file: OwnedFd, bytes: u64) -> Result<(), Errno> {
        self.files.push_back((file, bytes));
        self.bytes += bytes;
        self.wait_until_below(AHEAD_BYTES_MAX)
    }

    /// Waits for the oldest files until fewer bytes, or none, are left to come.
    fn wait_until_below(&mut self, bytes_max: u64) -> Result<(), Errno> {
        while self.bytes > bytes_max || self.files.len() > AHEAD_FILES_MAX {
            let Some((file, bytes)) = self.files.pop_front() else { break };
            self.bytes -= bytes;
            // The last byte comes last: reads of one file are queued in order.
            self.calls.pread(&file, &mut [0], bytes - 1)?;
        }
        Ok(())
    }
}
