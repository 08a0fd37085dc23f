//! Free space of destinations.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustix::{
    fs::StatFs,
    io::Errno,
    thread::{CapabilitySet, capabilities},
};
use unsnap_ring::Syscalls;
use unsnap_settings::Reserve;

use crate::{FitError, MinFree};

/// Free space and inodes of a file system, for the current user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Bytes that may be written: those that are free for this process, or what is left of them
    /// after [`keep`](Self::keep). `None` if the file system does not report them.
    pub bytes: Option<u64>,
    /// Bytes that are free for processes without privileges: without ext4's reserved blocks.
    pub common_bytes: Option<u64>,
    /// What stays free for others, if anything does.
    pub min_free: Option<MinFree>,
    /// Free inodes; `None` if their number has no limit.
    pub inodes: Option<u64>,
    /// Allocation unit in bytes.
    pub unit_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
    /// Number of all inodes.
    pub total_inodes: u64,
}

/// Magic number of ext2, ext3 and ext4 (linux/magic.h).
const EXT4_MAGIC: u64 = 0xef53;

impl Free {
    /// Measures the file system of an open directory; `path` is for messages.
    pub fn of(calls: &Syscalls, directory: &OwnedFd, path: &Path) -> Result<Self, FitError> {
        let stat = calls.fstatfs(directory).map_err(|errno| FitError::FileSystem {
            step: "determine the free space of",
            path: path.to_owned(),
            errno,
        })?;
        Ok(Self::from_stat(&stat, may_use_reserve()))
    }

    fn from_stat(stat: &StatFs, may_use_reserve: bool) -> Self {
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        let unit_bytes = match number(stat.f_frsize) {
            0 => number(stat.f_bsize).max(1),
            unit => unit,
        };
        // Only ext4 keeps a reserve for privileged processes. On other file systems the difference
        // is not free space (btrfs: space that is allocated for metadata).
        let with_reserve = may_use_reserve && number(stat.f_type) == EXT4_MAGIC;
        let blocks = if with_reserve { stat.f_bfree } else { stat.f_bavail };
        let bytes = |blocks: u64| (stat.f_blocks > 0).then_some(blocks.saturating_mul(unit_bytes));
        Self {
            bytes: bytes(blocks),
            common_bytes: bytes(stat.f_bavail),
            min_free: None,
            inodes: (stat.f_files > 0).then_some(stat.f_ffree),
            unit_bytes,
            total_bytes: stat.f_blocks.saturating_mul(unit_bytes),
            total_inodes: stat.f_files,
        }
    }

    /// Subtracts what is to stay free for other processes. A file system that does not report its
    /// free space has no such part.
    #[must_use]
    pub fn keep(self, reserve: &Reserve) -> Self {
        let kept = reserve.on(self.total_bytes);
        let (Some(bytes), Some(free_bytes), 1..) = (self.bytes, self.common_bytes, kept) else {
            return self;
        };
        let bytes = Some(bytes.min(free_bytes.saturating_sub(kept)));
        Self { bytes, min_free: Some(MinFree { bytes: kept, free_bytes }), ..self }
    }

    /// Counts free bytes as used; for tests.
    pub(crate) fn hide(self, hidden_bytes: u64) -> Self {
        let less = |bytes: u64| bytes.saturating_sub(hidden_bytes);
        let min_free =
            self.min_free.map(|kept| MinFree { free_bytes: less(kept.free_bytes), ..kept });
        Self { bytes: self.bytes.map(less), min_free, ..self }
    }
}

/// Returns whether this thread may use ext4's reserved blocks for certain: it has CAP_SYS_RESOURCE in
/// the initial user namespace, which ext4 asks for (`capable`, in `ext4_has_free_clusters` of
/// fs/ext4/balloc.c). A container's root lacks it by default, and a root of a child namespace has it
/// there only. The user for whom the blocks are reserved (`resuid`, by default root) may use them
/// without it, but `statfs` does not tell that user, so they do not count then: a figure that is too
/// low refuses an archive, a figure that is too high lets a run fail in the middle.
fn may_use_reserve() -> bool {
    let has_capability = || {
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
    };
    has_capability() && is_initial_user_namespace()
}

/// Inode number of the initial user namespace (`USER_NS_INIT_INO`, linux/nsfs.h; the same since
/// Linux 3.8).
const INITIAL_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Returns whether this process is in the initial user namespace; false if /proc does not tell. A
/// process can change it only before it starts threads, so it is asked for once.
fn is_initial_user_namespace() -> bool {
    static IS_INITIAL: OnceLock<bool> = OnceLock::new();
    *IS_INITIAL.get_or_init(|| {
        let namespace = rustix::fs::stat("/proc/self/ns/user");
        namespace.is_ok_and(|namespace| namespace.st_ino == INITIAL_USER_NAMESPACE)
    })
}

/// A file system, and the destinations on it.
#[derive(Clone, Debug)]
pub struct FileSystem {
    calls: Syscalls,
    directory: Arc<OwnedFd>,
    /// Device number, as in `stat`.
    pub device: u64,
    /// Indices of the destinations; 0 is the output.
    pub destinations: Vec<usize>,
    /// Paths of the destinations, for messages.
    pub paths: Vec<PathBuf>,
    /// Space that stays free for other processes.
    min_free: Reserve,
}

impl FileSystem {
    /// Returns the file systems of open directories, distinguished by their device numbers.
    /// Subvolumes of btrfs have separate numbers and share their space; they count as several.
    ///
    /// Fails with [`FitError::FileSystem`] if a directory cannot be examined.
    pub fn of(
        calls: &Syscalls,
        directories: Vec<(OwnedFd, PathBuf)>,
    ) -> Result<Vec<Self>, FitError> {
        let mut systems: Vec<Self> = Vec::new();
        for (index, (directory, path)) in directories.into_iter().enumerate() {
            let stat = calls.fstat(&directory).map_err(|errno| FitError::FileSystem {
                step: "examine",
                path: path.clone(),
                errno,
            })?;
            let known = systems.iter_mut().find(|system| system.device == stat.st_dev);
            if let Some(system) = known {
                system.destinations.push(index);
                system.paths.push(path);
            } else {
                let (calls, destinations, paths) = (calls.clone(), vec![index], vec![path]);
                let (device, directory) = (stat.st_dev, Arc::new(directory));
                let min_free = Reserve::NONE;
                systems.push(Self { calls, directory, device, destinations, paths, min_free });
            }
        }
        Ok(systems)
    }

    /// Leaves this much free for other processes: [`free`](Self::free) does not count it.
    #[must_use]
    pub fn keeping(self, min_free: Reserve) -> Self {
        Self { min_free, ..self }
    }

    /// Returns whether space stays free for other processes.
    pub(crate) fn keeps_some(&self) -> bool {
        !self.min_free.is_none()
    }

    /// Returns whether a destination other than the output is on it.
    pub fn holds_accounts(&self) -> bool {
        self.destinations.iter().any(|index| *index > 0)
    }

    /// Measures the free space, without what stays free for other processes.
    pub fn free(&self) -> Result<Free, FitError> {
        let free = Free::of(&self.calls, &self.directory, &self.paths[0])?;
        Ok(free.keep(&self.min_free))
    }

    /// Waits until everything written to it is on the disk. A failure is final.
    pub fn sync(&self) -> Result<(), Errno> {
        self.calls.syncfs(&self.directory)
    }

    /// Returns the paths of the destinations on it, as its name in messages.
    pub fn name(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(" and ")
    }
}

#[cfg(test)]
impl FileSystem {
    /// Returns a file system for tests that supply its free space.
    pub fn made_up(device: u64, destinations: &[usize]) -> Self {
        Self {
            calls: Syscalls::default(),
            directory: Arc::new(std::fs::File::open("/").expect("the root can be opened").into()),
            device,
            destinations: destinations.to_vec(),
            paths: destinations.iter().map(|index| format!("/made-up/{index}").into()).collect(),
            min_free: Reserve::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests read /proc by themselves")]

    use std::fs;

    use super::*;

    #[test]
    fn the_reserve_of_ext4_counts_for_privileged_processes_only() {
        let mut stat = rustix::fs::statfs("/").unwrap();
        (stat.f_frsize, stat.f_blocks, stat.f_bfree, stat.f_bavail) = (4096, 1000, 300, 100);
        for (magic, may_use_reserve, blocks) in [
            (EXT4_MAGIC, true, 300),
            (EXT4_MAGIC, false, 100),
            // btrfs
            (0x9123_683e, true, 100),
            (0x9123_683e, false, 100),
        ] {
            stat.f_type = i64::try_from(magic).unwrap();
            let free = Free::from_stat(&stat, may_use_reserve);
            assert_eq!(free.bytes, Some(blocks * 4096), "{magic:x} {may_use_reserve}");
            // Others may not use ext4's reserve, so what stays free for them is not in it.
            let kept = free.keep(&Reserve { bytes: 30 * 4096, ..Reserve::NONE });
            assert_eq!(kept.bytes, Some(70 * 4096), "{magic:x} {may_use_reserve}");
            let (bytes, free_bytes) = (30 * 4096, 100 * 4096);
            assert_eq!(kept.min_free, Some(MinFree { bytes, free_bytes }));
            assert_eq!(free.keep(&Reserve::NONE), free);
            assert_eq!(free.total_bytes, 1000 * 4096);
        }
    }

    #[test]
    fn the_reserve_follows_the_effective_capabilities_in_the_initial_user_namespace() {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let effective = u64::from_str_radix(effective.trim(), 16).unwrap();
        // The kernel's name for it, such as `user:[4026531837]`.
        let namespace = fs::read_link("/proc/self/ns/user").unwrap();
        let is_initial = namespace.to_str() == Some("user:[4026531837]");
        // CAP_SYS_RESOURCE is number 24 (linux/capability.h).
        assert_eq!(may_use_reserve(), effective >> 24 & 1 == 1 && is_initial);
    }
}
