//! Bringing disk and page cache into the same state before every run.

use crate::machine::device_number;
use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise, statvfs, syncfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a disk without requests counts as idle.
const IDLE: Duration = Duration::from_millis(500);

/// How long an idle disk is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// How well a run was prepared.
#[derive(Clone, Copy)]
pub struct Prepared {
    /// Whether the disk had come to rest.
    pub disk_idle: bool,
    /// Whether the page cache is as it should be. To drop all of it takes root.
    pub cache_right: bool,
}

/// Writes everything back, waits for the disk, and drops what is cached.
pub fn make_cold(archive: &Path) -> Result<Prepared> {
    rustix::fs::sync();
    let disk_idle = wait_until_idle(archive);
    let cache_right = fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    if !cache_right {
        fadvise(&File::open(archive)?, 0, None, Advice::DontNeed)?;
    }
    Ok(Prepared { disk_idle, cache_right })
}

/// Writes everything back, waits for the disk, and reads the archive into the page cache.
pub fn make_warm(archive: &Path) -> Result<Prepared> {
    rustix::fs::sync();
    let mut file = File::open(archive)?;
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer)? > 0 {}
    Ok(Prepared { disk_idle: wait_until_idle(archive), cache_right: true })
}

/// Writes back the file system that `directory` is on; returns how long that took.
pub fn sync(directory: &Path) -> Result<Duration> {
    let opened = File::open(directory)?;
    let start = Instant::now();
    syncfs(&opened).with_context(|| format!("cannot sync {}", directory.display()))?;
    Ok(start.elapsed())
}

/// Bytes and inodes that are free where `directory` is.
pub fn free(directory: &Path) -> Result<(u64, u64)> {
    let space = statvfs(directory)?;
    // Some file systems have no fixed number of inodes and report none.
    let inodes = if space.f_files == 0 { u64::MAX } else { space.f_favail };
    Ok((space.f_bavail * space.f_frsize, inodes))
}

/// Deletes everything in a directory at once, and waits until the disk has digested that.
pub fn clear(directory: &Path) -> Result<()> {
    recreate(directory)?;
    sync(directory)?;
    // Without root what is cached of deleted files stays for a while, which does no harm.
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    wait_until_idle(directory);
    Ok(())
}

fn recreate(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("cannot delete {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))
}

/// Waits until the disk that `path` is on has had no requests for a while, but not for ever.
/// Returns whether it has.
fn wait_until_idle(path: &Path) -> bool {
    let Some(device) = device_number(path) else { return false };
    let start = Instant::now();
    let mut before = requests(device);
    while start.elapsed() < PATIENCE {
        sleep(IDLE);
        let now = requests(device);
        // A file system without a device of its own (a tmpfs, btrfs) has no line: `None` as well.
        if now == before && now.is_none_or(|requests| requests.in_flight == 0) {
            return true;
        }
        before = now;
    }
    false
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Requests {
    completed: u64,
    in_flight: u64,
}

fn requests(device: (u32, u32)) -> Option<Requests> {
    parse_requests(&fs::read_to_string("/proc/diskstats").ok()?, device)
}

/// The reads and writes of a device, by the text of `/proc/diskstats`.
fn parse_requests(diskstats: &str, (major, minor): (u32, u32)) -> Option<Requests> {
    let (major, minor) = (major.to_string(), minor.to_string());
    diskstats.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        (fields.first()? == &major && fields.get(1)? == &minor).then(|| {
            Some(Requests { completed: number(3)? + number(7)?, in_flight: number(11)? })
        })?
    })
}

/// A tmpfs that is unmounted when it is dropped.
pub struct Tmpfs {
    directory: PathBuf,
}

impl Tmpfs {
    /// Mounts one of at most this size; the directory is made if need be.
    pub fn mount(directory: &Path, bytes: u64) -> Result<Self> {
        Self::unmount_stale(directory);
        fs::create_dir_all(directory)?;
        let options = CString::new(format!("size={bytes}"))?;
        mount("tmpfs", directory, "tmpfs", MountFlags::empty(), options.as_c_str())
            .with_context(|| format!("cannot mount a tmpfs at {}", directory.display()))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Unmounts what a harness that was killed has left.
    pub fn unmount_stale(directory: &Path) {
        let parent = directory.parent().and_then(device_number);
        while directory.exists() && device_number(directory) != parent {
            if unmount(directory, UnmountFlags::DETACH).is_err() {
                return;
            }
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        Self::unmount_stale(&self.directory);
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_device() {
        let diskstats = "   7       0 loop0 1 0 2 0 3 0 4 0 5 0 0\n \
                         254       0 vda 10 1 80 5 20 2 160 7 3 9 12 0 0 0 0 0 0\n";
        let requests = parse_requests(diskstats, (254, 0)).unwrap();
        assert_eq!((requests.completed, requests.in_flight), (30, 3));
        assert!(parse_requests(diskstats, (254, 1)).is_none());
    }

    #[test]
    fn clearing_leaves_an_empty_directory() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("outputs");
        fs::create_dir_all(directory.join("old")).unwrap();
        fs::write(directory.join("old/file"), "old").unwrap();
        recreate(&directory).unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }
}
