//! System calls made one at a time, outside engines, such as operations on directories.

use std::{
    ffi::CString,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, Stat,
        StatFs, Statx, StatxFlags,
    },
    io::{Errno, retry_on_intr},
    path::Arg,
};

use crate::{Call, DirectSupport, FaultPlan, direct, residency::cached};

/// Access to the system calls that no engine makes.
///
/// Each method makes the system call of its name and nothing more, unless the run has a
/// [`FaultPlan`]: then the plan counts the call and may return an error instead of making it. An
/// open, read, write or truncation that a signal interrupts is retried, except in
/// [`pread`](Self::pread) and the trial calls.
#[derive(Clone, Debug, Default)]
pub struct Syscalls {
    faults: Option<FaultPlan>,
}

impl Syscalls {
    /// Creates calls that fail as planned.
    pub fn with_faults(plan: FaultPlan) -> Self {
        Self { faults: Some(plan) }
    }

    fn call<T>(&self, call: Call, make: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        match self.faults.as_ref().and_then(|plan| plan.step(call)) {
            None => make(),
            Some(errno) if call.was_overtaken(errno) => make().and(Err(errno)),
            Some(errno) => Err(errno),
        }
    }

    /// Opens a file or directory that exists.
    pub fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.openat(rustix::fs::CWD, path, flags, Mode::empty())
    }

    /// Opens or creates a file below a directory.
    pub fn openat(
        &self,
        directory: impl AsFd,
        path: impl Arg + Copy,
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let open = || rustix::fs::openat(directory.as_fd(), path, flags, mode);
        retry_on_intr(|| self.call(kind_of_open(flags), open))
    }

    /// Opens a file below a directory, with a restriction on where its path may lead.
    pub fn openat2(
        &self,
        directory: impl AsFd,
        path: impl Arg + Copy,
        flags: OFlags,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let open = || rustix::fs::openat2(directory.as_fd(), path, flags, Mode::empty(), resolve);
        retry_on_intr(|| self.call(kind_of_open(flags), open))
    }

    /// Creates a file for writing below a directory. Fails if the file exists or the path contains
    /// a symbolic link.
    pub fn create_beneath(
        &self,
        directory: impl AsFd,
        path: impl Arg + Copy,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = || rustix::fs::openat2(directory.as_fd(), path, flags, mode, resolve);
        retry_on_intr(|| self.call(Call::Create, open))
    }

    /// Reads at the file's current position.
    pub fn read(&self, file: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
        let len = self.transfer(buffer.len());
        retry_on_intr(|| self.call(Call::Read, || rustix::io::read(&file, &mut buffer[..len])))
    }

    /// Reads at the offset `at`.
    pub fn pread(&self, file: impl AsFd, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
        let len = self.transfer(buffer.len());
        self.call(Call::Read, || rustix::io::pread(file, &mut buffer[..len], at))
    }

    /// Reads at the offset `at` to probe the file; a failure is a result.
    pub fn trial_read(&self, file: impl AsFd, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
        let len = self.transfer(buffer.len());
        self.call(Call::TrialRead, || rustix::io::pread(file, &mut buffer[..len], at))
    }

    /// Writes at the file's current position.
    pub fn write(&self, file: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
        let len = self.transfer(bytes.len());
        retry_on_intr(|| self.call(Call::Write, || rustix::io::write(&file, &bytes[..len])))
    }

    /// Writes at the offset `at`. The length of a write must be a multiple of `align`, which is 1
    /// except for direct I/O.
    pub fn write_at(
        &self,
        file: impl AsFd,
        bytes: &[u8],
        at: u64,
        align: usize,
    ) -> Result<usize, Errno> {
        // A write shortened by a plan must still be valid for the kernel.
        let len = self.transfer(bytes.len()).next_multiple_of(align).min(bytes.len());
        retry_on_intr(|| self.call(Call::Write, || rustix::io::pwrite(&file, &bytes[..len], at)))
    }

    /// Switches direct I/O on an open file on or off. Not every file supports it (`EINVAL`).
    pub fn set_direct(&self, file: impl AsFd, direct: bool) -> Result<(), Errno> {
        let set = || {
            let mut flags = rustix::fs::fcntl_getfl(&file)?;
            flags.set(OFlags::DIRECT, direct);
            rustix::fs::fcntl_setfl(&file, flags)
        };
        if direct { self.call(Call::OpenDirect, set) } else { set() }
    }

    /// Returns the number of bytes to transfer.
    fn transfer(&self, len: usize) -> usize {
        self.faults.as_ref().and_then(|plan| plan.transfer(len)).unwrap_or(len)
    }

    /// Sets a file's length.
    pub fn ftruncate(&self, file: impl AsFd, len: u64) -> Result<(), Errno> {
        retry_on_intr(|| self.call(Call::SetLen, || rustix::fs::ftruncate(&file, len)))
    }

    /// Writes at `offset` to probe the file; a failure is a result.
    pub fn trial_write(&self, file: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.call(Call::TrialWrite, || rustix::io::pwrite(file, bytes, offset))
    }

    /// Creates a directory.
    pub fn mkdirat(&self, holder: impl AsFd, name: impl Arg, mode: Mode) -> Result<(), Errno> {
        self.call(Call::MakeDirectory, || rustix::fs::mkdirat(holder, name, mode))
    }

    /// Removes a file, or with `AT_REMOVEDIR` an empty directory.
    pub fn unlinkat(&self, holder: impl AsFd, name: impl Arg, how: AtFlags) -> Result<(), Errno> {
        let directory = how.contains(AtFlags::REMOVEDIR);
        let call = if directory { Call::RemoveDirectory } else { Call::Remove };
        self.call(call, || rustix::fs::unlinkat(holder, name, how))
    }

    /// Renames, replacing an existing target.
    pub fn renameat(
        &self,
        from: impl AsFd,
        name: impl Arg,
        to: impl AsFd,
        new_name: impl Arg,
    ) -> Result<(), Errno> {
        self.call(Call::Rename, || rustix::fs::renameat(from, name, to, new_name))
    }

    /// Renames to a name that must not exist. Not every file system supports this (`EINVAL`).
    pub fn renameat_to_new(
        &self,
        from: impl AsFd,
        name: impl Arg,
        to: impl AsFd,
        new_name: impl Arg,
    ) -> Result<(), Errno> {
        let flags = RenameFlags::NOREPLACE;
        let rename = || rustix::fs::renameat_with(from, name, to, new_name, flags);
        self.call(Call::RenameToNew, rename)
    }

    /// Renames to a name that must not exist. If the file system does not support such a rename,
    /// checks for the name and then renames. Another process could create the name in between, so
    /// it must be one that only this process uses.
    pub fn rename_to_own(
        &self,
        from: impl AsFd + Copy,
        name: impl Arg + Copy,
        to: impl AsFd + Copy,
        new_name: impl Arg + Copy,
    ) -> Result<(), Errno> {
        match self.renameat_to_new(from, name, to, new_name) {
            Err(Errno::INVAL | Errno::NOSYS) => match self.lstatat(to, new_name) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => self.renameat(from, name, to, new_name),
                Err(errno) => Err(errno),
            },
            result => result,
        }
    }

    /// Exchanges two names. Not every file system supports this (`EINVAL`).
    pub fn exchange(
        &self,
        one: impl AsFd,
        name: impl Arg,
        other: impl AsFd,
        other_name: impl Arg,
    ) -> Result<(), Errno> {
        let flags = RenameFlags::EXCHANGE;
        let exchange = || rustix::fs::renameat_with(one, name, other, other_name, flags);
        self.call(Call::Exchange, exchange)
    }

    /// Creates a hard link to a file. The new name must not exist.
    pub fn linkat(
        &self,
        from: impl AsFd,
        name: impl Arg,
        to: impl AsFd,
        new_name: impl Arg,
    ) -> Result<(), Errno> {
        let link = || rustix::fs::linkat(from, name, to, new_name, AtFlags::empty());
        self.call(Call::Link, link)
    }

    /// Locks a file for this process alone, or fails with `EWOULDBLOCK`.
    pub fn lock(&self, file: impl AsFd) -> Result<(), Errno> {
        let how = FlockOperation::NonBlockingLockExclusive;
        self.call(Call::Lock, || rustix::fs::flock(file, how))
    }

    /// Returns the attributes of an open file.
    pub fn fstat(&self, file: impl AsFd) -> Result<Stat, Errno> {
        self.call(Call::Stat, || rustix::fs::fstat(file))
    }

    /// Returns the attributes of a directory entry, without following a symbolic link.
    pub fn lstatat(&self, directory: impl AsFd, name: impl Arg) -> Result<Stat, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        self.call(Call::Stat, || rustix::fs::statat(directory, name, flags))
    }

    /// Returns the attributes of the file at a path, following symbolic links.
    pub fn stat(&self, path: &Path) -> Result<Stat, Errno> {
        self.call(Call::Stat, || rustix::fs::stat(path))
    }

    /// Returns size and free space of the file system of an open file.
    pub fn fstatfs(&self, file: impl AsFd) -> Result<StatFs, Errno> {
        self.call(Call::StatFs, || rustix::fs::fstatfs(file))
    }

    /// Returns attributes of an open file that `fstat` does not report.
    pub fn fstatx(&self, file: impl AsFd, wanted: StatxFlags) -> Result<Statx, Errno> {
        let look = || rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted);
        self.call(Call::Statx, look)
    }

    /// Returns whether an open file supports direct I/O, and with which alignment.
    pub fn direct_support(&self, file: impl AsFd) -> DirectSupport {
        self.fstatx(file, StatxFlags::DIOALIGN)
            .map_or(DirectSupport::Unknown, |answer| direct::support(&answer))
    }

    /// Returns whether a range of a file is in the page cache; see [`is_cached`](crate::is_cached).
    pub fn is_cached(&self, file: impl AsFd, offset: u64, bytes: u64) -> Option<bool> {
        self.call(Call::CacheStat, || cached(file, offset, bytes)).ok()
    }

    /// Sets the permissions of an open file.
    pub fn fchmod(&self, file: impl AsFd, mode: Mode) -> Result<(), Errno> {
        self.call(Call::SetMode, || rustix::fs::fchmod(file, mode))
    }

    /// Returns another descriptor of the same open file.
    pub fn duplicate(&self, file: impl AsFd) -> Result<OwnedFd, Errno> {
        self.call(Call::Duplicate, || rustix::io::fcntl_dupfd_cloexec(file, 0))
    }

    /// Waits until a file or directory is on the disk. A failure is final: a repeated call may
    /// succeed although the data is lost.
    pub fn fsync(&self, file: impl AsFd) -> Result<(), Errno> {
        self.call(Call::Sync, || rustix::fs::fsync(file))
    }

    /// Waits until the content of a file is on the disk. A failure is final.
    pub fn fdatasync(&self, file: impl AsFd) -> Result<(), Errno> {
        self.call(Call::Sync, || rustix::fs::fdatasync(file))
    }

    /// Waits until the file system of an open file is on the disk. A failure is final.
    pub fn syncfs(&self, file: impl AsFd) -> Result<(), Errno> {
        self.call(Call::SyncFileSystem, || rustix::fs::syncfs(file))
    }

    /// Returns the absolute path, without symbolic links, of an existing file or directory.
    pub fn canonicalize(&self, path: &Path) -> Result<PathBuf, Errno> {
        self.call(Call::Resolve, || {
            path.canonicalize()
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
        })
    }

    /// Returns names and types of a directory's entries, without `.` and `..`.
    pub fn entries(&self, directory: impl AsFd) -> Result<Vec<(CString, FileType)>, Errno> {
        self.call(Call::List, || {
            let mut entries = Vec::new();
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                let kind = match entry.file_type() {
                    FileType::Unknown => {
                        let flags = AtFlags::SYMLINK_NOFOLLOW;
                        let stat = rustix::fs::statat(&directory, name, flags)?;
                        FileType::from_raw_mode(stat.st_mode)
                    }
                    kind => kind,
                };
                entries.push((name.to_owned(), kind));
            }
            Ok(entries)
        })
    }
}

fn kind_of_open(flags: OFlags) -> Call {
    if flags.contains(OFlags::DIRECT) {
        Call::OpenDirect
    } else if flags.contains(OFlags::CREATE) {
        Call::Create
    } else {
        Call::Open
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn an_overtaken_call_leaves_the_state_that_its_error_implies() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = File::open(scratch.path()).unwrap();
        // EEXIST is the fifth errno of `mkdir`, ENOENT the fourth of `rmdir`.
        let plan = FaultPlan::new(0).fail_by_choice(0, 4).fail_by_choice(1, 3);
        let calls = Syscalls::with_faults(plan);
        let mode = Mode::from_raw_mode(0o755);
        assert_eq!(calls.mkdirat(&directory, "made", mode), Err(Errno::EXIST));
        assert!(scratch.path().join("made").is_dir());
        let removed = calls.unlinkat(&directory, "made", AtFlags::REMOVEDIR);
        assert_eq!(removed, Err(Errno::NOENT));
        assert!(!scratch.path().join("made").exists());
    }

    #[test]
    fn an_interrupted_open_is_retried() {
        let plan = FaultPlan::new(0).fail(0, Errno::INTR).fail(2, Errno::MFILE);
        let calls = Syscalls::with_faults(plan.clone());
        let open = || calls.open(Path::new("/"), OFlags::RDONLY | OFlags::CLOEXEC);
        assert!(open().is_ok());
        assert_eq!(open().err(), Some(Errno::MFILE));
        assert_eq!(plan.steps(), 3);
    }
}
