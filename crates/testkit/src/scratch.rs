//! Scratch file systems for tests that run as root: a disk that fills up, one without inodes, one
//! with sectors of 4096 bytes.
//!
//! Not every machine supports them. Tests that skip must print the reason:
//!
//! ```no_run
//! use unsnap_testkit::scratch::{Ext4, ScratchFs, available};
//!
//! fn a_test() {
//!     let options = Ext4 { size_bytes: 64 << 20, ..Ext4::default() };
//!     let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
//!     assert!(disk.path().is_dir());
//! }
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thiserror::Error;

use crate::skip::{skip, skip_unsupported};

/// Time limit for unmounting a file system that is busy although nobody uses it any more.
const BUSY_AT_MOST: Duration = Duration::from_mins(1);

/// An ext4 file system on a loop device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ext4 {
    /// Size of the device in bytes. ext4 uses some of it for itself.
    pub size_bytes: u64,
    /// Logical sector size of the device, to which direct I/O must be aligned. 512 or 4096.
    pub sector_bytes: u32,
    /// Number of inodes. By default `mkfs` chooses it.
    pub inodes: Option<u64>,
    /// Blocks reserved for privileged processes, in percent, at most 50. By default none: root
    /// could write into them, other users could not.
    pub reserved_percent: u8,
    /// Additional mount options, such as `nodelalloc,data=journal`.
    pub mount_options: String,
}

impl Default for Ext4 {
    /// Returns 128 MiB with sectors of 512 bytes.
    fn default() -> Self {
        Self {
            size_bytes: 128 << 20,
            sector_bytes: 512,
            inodes: None,
            reserved_percent: 0,
            mount_options: String::new(),
        }
    }
}

/// A file system in memory with limits. Refuses `O_DIRECT` on kernels before 6.6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tmpfs {
    /// Capacity in bytes.
    pub size_bytes: u64,
    /// Limit on files and directories.
    pub inodes: Option<u64>,
}

/// The reason why a scratch file system is not available.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// Mounting needs privileges.
    #[error("scratch file systems need root")]
    NotRoot,
    /// A program is missing or cannot be run.
    #[error("cannot run {program}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A program reported an error: no loop devices, no mounting in this container, ...
    #[error("{program} failed: {message}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// Its error message.
        message: String,
    },
    /// The image or the mount point could not be created.
    #[error("cannot create the image")]
    Image(#[from] io::Error),
}

/// Returns the scratch file system, or reports why the test that wants it is skipped.
#[track_caller]
pub fn available(made: Result<ScratchFs, Unavailable>) -> Option<ScratchFs> {
    match made {
        Ok(made) => return Some(made),
        // The programs are there, and so is root: loop devices or mounting are refused to this
        // container, or its kernel lacks the file system.
        Err(unavailable @ Unavailable::Failed { .. }) => skip_unsupported(unavailable),
        Err(unavailable) => skip(unavailable),
    }
    None
}

/// A mounted scratch file system, gone when dropped.
#[derive(Debug)]
pub struct ScratchFs {
    // Fields are dropped in this order: the mount, the device, the image.
    mount: Mount,
    device: Option<LoopDevice>,
    _directory: TempDir,
}

impl ScratchFs {
    /// Creates and mounts an ext4 file system in a sparse image below the temporary directory.
    pub fn ext4(options: &Ext4) -> Result<Self, Unavailable> {
        let directory = prepare()?;
        let image = directory.path().join("image");
        std::fs::File::create_new(&image)?.set_len(options.size_bytes)?;
        let device = LoopDevice::attach(&image, options.sector_bytes)?;

        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-F", "-E", "nodiscard"]);
        mkfs.args(["-m", &options.reserved_percent.to_string()]);
        if let Some(inodes) = options.inodes {
            mkfs.args(["-N", &inodes.to_string()]);
        }
        run("mkfs.ext4", mkfs.arg(&device.path))?;

        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4"]);
        if !options.mount_options.is_empty() {
            mount.args(["-o", &options.mount_options]);
        }
        let mount = Mount::new(mount.arg(&device.path), directory.path())?;
        Ok(Self { mount, device: Some(device), _directory: directory })
    }

    /// Mounts a tmpfs.
    pub fn tmpfs(options: &Tmpfs) -> Result<Self, Unavailable> {
        let directory = prepare()?;
        let mut limits = format!("size={}", options.size_bytes);
        if let Some(inodes) = options.inodes {
            limits = format!("{limits},nr_inodes={inodes}");
        }
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &limits, "tmpfs"]);
        let mount = Mount::new(&mut mount, directory.path())?;
        Ok(Self { mount, device: None, _directory: directory })
    }

    /// Returns the root directory.
    pub fn path(&self) -> &Path {
        &self.mount.path
    }

    /// Returns the block device, `/dev/loopN`, if there is one.
    pub fn device(&self) -> Option<&Path> {
        self.device.as_ref().map(|device| device.path.as_path())
    }

    /// Remounts it with these options, such as `ro`.
    pub fn remount(&self, options: &str) -> Result<(), Unavailable> {
        let options = format!("remount,{options}");
        let since = Instant::now();
        loop {
            let mut mount = Command::new("mount");
            match run("mount", mount.args(["-o", &options]).arg(&self.mount.path)) {
                // A child that another thread has just forked holds this process's files open until
                // it executes its own program.
                Err(Unavailable::Failed { message, .. })
                    if message.contains("busy") && since.elapsed() < BUSY_AT_MOST =>
                {
                    thread::sleep(Duration::from_millis(20));
                }
                remounted => return remounted.map(drop),
            }
        }
    }
}

/// A mount point, unmounted when dropped.
#[derive(Debug)]
struct Mount {
    path: PathBuf,
}

impl Mount {
    fn new(command: &mut Command, parent: &Path) -> Result<Self, Unavailable> {
        let path = parent.join("mount");
        std::fs::create_dir(&path)?;
        run("mount", command.arg(&path))?;
        Ok(Self { path })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Files that are still open, for example after a failed assertion, must not leave the mount
        // behind.
        if run("umount", Command::new("umount").arg(&self.path)).is_err() {
            let _ = run("umount", Command::new("umount").arg("--lazy").arg(&self.path));
        }
    }
}

/// A loop device, detached when dropped: at once, or as soon as a lazy unmount is done.
#[derive(Debug)]
struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    fn attach(image: &Path, sector_bytes: u32) -> Result<Self, Unavailable> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--sector-size", &sector_bytes.to_string()]).arg(image);
        let device = run("losetup", &mut losetup)?;
        Ok(Self { path: PathBuf::from(device.trim()) })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run("losetup", Command::new("losetup").arg("--detach").arg(&self.path));
    }
}

fn prepare() -> Result<TempDir, Unavailable> {
    if !rustix::process::geteuid().is_root() {
        return Err(Unavailable::NotRoot);
    }
    Ok(tempfile::Builder::new().prefix("unsnap-scratch-").tempdir()?)
}

/// Runs a program and returns what it printed.
fn run(program: &'static str, command: &mut Command) -> Result<String, Unavailable> {
    let output = command.output().map_err(|source| Unavailable::Program { program, source })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(Unavailable::Failed { program, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn mounts() -> String {
        fs::read_to_string("/proc/self/mounts").unwrap()
    }

    #[test]
    fn ext4_fills_up_and_goes_away() {
        let options = Ext4 { size_bytes: 16 << 20, ..Ext4::default() };
        let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
        let path = disk.path().to_owned();
        let device = disk.device().unwrap().to_owned();
        fs::write(path.join("small"), "fits").unwrap();
        let error = fs::write(path.join("large"), vec![1; 17 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(mounts().contains(path.to_str().unwrap()));
        drop(disk);
        assert!(!path.exists());
        assert!(!mounts().contains(path.to_str().unwrap()));
        let attached = run("losetup", Command::new("losetup").arg("--all")).unwrap();
        assert!(!attached.contains(path.parent().unwrap().to_str().unwrap()), "{device:?}");
    }

    #[test]
    fn sectors_may_have_4096_bytes() {
        let options = Ext4 { sector_bytes: 4096, ..Ext4::default() };
        let Some(disk) = available(ScratchFs::ext4(&options)) else { return };
        let name = disk.device().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let queue = Path::new("/sys/block").join(name).join("queue/logical_block_size");
        assert_eq!(fs::read_to_string(queue).unwrap().trim(), "4096");
    }

    #[test]
    fn open_files_do_not_prevent_the_end() {
        let Some(disk) = available(ScratchFs::ext4(&Ext4::default())) else { return };
        let path = disk.path().to_owned();
        let file = fs::File::create(path.join("open")).unwrap();
        drop(disk);
        assert!(!mounts().contains(path.to_str().unwrap()));
        drop(file);
    }

    #[test]
    fn file_systems_can_become_read_only() {
        let Some(disk) = available(ScratchFs::ext4(&Ext4::default())) else { return };
        disk.remount("ro").unwrap();
        let error = fs::write(disk.path().join("file"), "").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    }

    #[test]
    fn tmpfs_has_its_limits() {
        let options = Tmpfs { size_bytes: 1 << 20, inodes: Some(3) };
        let Some(memory) = available(ScratchFs::tmpfs(&options)) else { return };
        let large = fs::write(memory.path().join("1"), vec![1; 2 << 20]).unwrap_err();
        assert_eq!(large.kind(), io::ErrorKind::StorageFull);
        fs::write(memory.path().join("2"), "").unwrap();
        let third = fs::write(memory.path().join("3"), "").unwrap_err();
        assert_eq!(third.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn programs_that_are_missing_are_named() {
        let error = run("mkfs.none", &mut Command::new("mkfs.none")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run mkfs.none");
    }
}
