//! Disks that can lose power: ext4 and XFS on loop devices over images in memory.
//!
//! Everything is mounted in a mount namespace that the test's thread has for itself, so even a test
//! program that is killed leaves no mount; and loop devices let go of their images by themselves when
//! nobody has them open any more. Images lie on a tmpfs: what the power cut takes is decided by the
//! file system, not by what is below it, and a flush of the "device" costs nothing.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use unsnap_testkit::{
    scratch::{ScratchFs, Tmpfs, available},
    skip::{skip, skip_unsupported},
};

use crate::{has_tool, is_root};

/// How long a file system may be in use after the last process that used it. A guess.
const PATIENCE: Duration = Duration::from_secs(20);

/// A file system that validators use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are their own names")]
pub enum Kind {
    Ext4,
    Xfs,
}

/// Both of them.
pub const KINDS: [Kind; 2] = [Kind::Ext4, Kind::Xfs];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// Journals are committed when somebody asks for it, or after this time: far longer than any
    /// test takes, so that nothing becomes durable by luck. (XFS has no such option; its log is
    /// forced every 30 s, a global setting that tests may not change.)
    fn mount_options(self) -> &'static str {
        match self {
            Self::Ext4 => "commit=300",
            Self::Xfs => "nouuid",
        }
    }
}

/// The properties of a disk.
#[allow(clippy::struct_field_names, reason = "the unit belongs to the name")]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Size that the device claims to have. XFS wants at least 300 MiB.
    pub size_bytes: u64,
    /// Size of the memory behind it: what the device really has.
    pub memory_bytes: u64,
    /// Logical sectors of the device: 512 or 4096.
    pub sector_bytes: u32,
}

impl Default for Options {
    /// 320 MiB in sectors of 512 bytes.
    fn default() -> Self {
        Self { size_bytes: 320 << 20, memory_bytes: 384 << 20, sector_bytes: 512 }
    }
}

/// A mounted file system. Unmounted when dropped, also by a panic.
#[derive(Debug)]
pub struct Disk {
    /// Its file system.
    pub kind: Kind,
    mount_point: PathBuf,
    mounted: bool,
    // Fields are dropped in this order: the device lets go of the image before its place goes.
    device: LoopDevice,
    memory: Option<ScratchFs>,
}

impl Disk {
    /// Creates a disk in memory, or reports that this machine can have none.
    pub fn new(kind: Kind, options: &Options) -> Option<Self> {
        let memory = Tmpfs { size_bytes: options.memory_bytes, inodes: None };
        let memory = available(ScratchFs::tmpfs(&memory))?;
        let mut disk = Self::within(kind, options, memory.path())?;
        disk.memory = Some(memory);
        Some(disk)
    }

    /// Creates a disk whose image, `<directory>/image`, lies on another one.
    pub fn within(kind: Kind, options: &Options, directory: &Path) -> Option<Self> {
        let image = directory.join("image");
        File::create_new(&image).unwrap().set_len(options.size_bytes).unwrap();
        let device = supported(LoopDevice::attach(&image, options.sector_bytes))?;
        let mut mkfs = match kind {
            // No reserved blocks: root would be able to write into them.
            Kind::Ext4 => command("mkfs.ext4", &["-q", "-F", "-m", "0"]),
            Kind::Xfs => command("mkfs.xfs", &["-q", "-f"]),
        };
        supported(run(mkfs.arg(&device.path)))?;
        Self::mounted(kind, device, directory.join("disk"))
    }

    /// Mounts an image that holds a file system already.
    pub fn of_image(kind: Kind, image: &Path) -> Option<Self> {
        let device = supported(LoopDevice::attach(image, 512))?;
        Self::mounted(kind, device, image.with_extension("mount"))
    }

    fn mounted(kind: Kind, device: LoopDevice, mount_point: PathBuf) -> Option<Self> {
        fs::create_dir(&mount_point).unwrap();
        let mut disk = Self { kind, mount_point, mounted: false, device, memory: None };
        // A file system that was made can be mounted, but for containers that may not mount and
        // kernels that lack the file system.
        supported(disk.mount())?;
        Some(disk)
    }

    /// Returns the root directory.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Returns the block device, `/dev/loopN`.
    pub fn device(&self) -> &Path {
        &self.device.path
    }

    /// Returns the tmpfs of the image if it has one of its own: it can be made larger.
    pub fn memory(&self) -> Option<&ScratchFs> {
        self.memory.as_ref()
    }

    /// From this moment nothing reaches the device any more, as when the power fails: the journal
    /// is not flushed, and every call that wants the disk fails (ioctl GOINGDOWN).
    #[track_caller]
    pub fn cut_power(&self) {
        run(command("xfs_io", &["-x", "-c", "shutdown"]).arg(self.path())).unwrap();
    }

    /// Unmounts and mounts again: after a power cut, what a reboot would find.
    #[track_caller]
    pub fn remount(&mut self) {
        self.unmount();
        self.mount().unwrap();
    }

    /// Mounts it.
    pub fn mount(&mut self) -> Result<(), String> {
        let options = ["-t", self.kind.name(), "-o", self.kind.mount_options()];
        run(command("mount", &options).args([&self.device.path, &self.mount_point]))?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts it, as soon as nothing uses it any more.
    #[track_caller]
    pub fn unmount(&mut self) {
        self.try_unmount().unwrap();
    }

    fn try_unmount(&mut self) -> Result<(), String> {
        // The kernel takes rings apart after their process has ended, and until then has the files
        // open that were in flight.
        let since = Instant::now();
        loop {
            match run(command("umount", &[]).arg(&self.mount_point)) {
                Ok(_) => break,
                Err(_) if since.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(2)),
                Err(error) => return Err(error),
            }
        }
        self.mounted = false;
        // Other mount namespaces may have it mounted as well, until their last process is gone. A mount
        // before that would show the old one, which the power cut has ended.
        let device = self.device.path.file_name().unwrap_or_default();
        let in_use = Path::new("/sys/fs").join(self.kind.name()).join(device);
        while in_use.exists() {
            if since.elapsed() > PATIENCE {
                return Err(format!("{} stays", in_use.display()));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Mounts it again with these options.
    #[track_caller]
    pub fn change_mount(&self, options: &str) {
        let options = format!("remount,{options}");
        run(command("mount", &["-o", &options]).arg(&self.mount_point)).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted && self.try_unmount().is_err() {
            let _ = run(command("umount", &["--lazy"]).arg(&self.mount_point));
        }
    }
}

/// A loop device that lets go of its image when it is closed for the last time, be it by the death
/// of this process.
#[derive(Debug)]
struct LoopDevice {
    path: PathBuf,
    _open: File,
}

impl LoopDevice {
    fn attach(image: &Path, sector_bytes: u32) -> Result<Self, String> {
        let sector_bytes = sector_bytes.to_string();
        let losetup = ["--find", "--show", "--sector-size", &sector_bytes];
        let path = run(command("losetup", &losetup).arg(image))?;
        let path = PathBuf::from(path.trim());
        let open = File::open(&path).map_err(|error| error.to_string())?;
        // Takes effect when it is closed.
        run(command("losetup", &["--detach"]).arg(&path))?;
        Ok(Self { path, _open: open })
    }
}

/// Returns whether this machine can have disks that lose power, and reports if not. From here on the
/// calling thread and everything it starts see mounts that nobody else sees.
#[track_caller]
pub fn can_lose_power() -> bool {
    for (tool, probe) in [("mkfs.xfs", "-V"), ("xfs_io", "-V"), ("mkfs.ext4", "-V")] {
        if !has_tool(tool, probe) {
            return false;
        }
    }
    has_private_mounts()
}

/// Does the same as [`can_lose_power`] for tests that need no tools.
#[track_caller]
pub fn has_private_mounts() -> bool {
    use rustix::thread::UnshareFlags;
    if !is_root() {
        skip("mounting needs root");
        return false;
    }
    // Deprecated because other flags take file descriptors away under their owners; this one does
    // not touch them.
    #[allow(deprecated)]
    let unshared = rustix::thread::unshare(UnshareFlags::NEWNS);
    if let Err(errno) = unshared {
        // Root, and still refused: a container without the capability.
        skip_unsupported(format_args!("no mount namespace of its own: {errno}"));
        return false;
    }
    supported(run(&mut command("mount", &["--make-rprivate", "/"]))).is_some()
}

/// Reports an error of a tool. The tools are installed and root runs them, so it is the kernel or the
/// container that refuses loop devices, file systems or mounts.
#[track_caller]
fn supported<T>(result: Result<T, String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            skip_unsupported(error);
            None
        }
    }
}

/// Returns a command with these arguments.
pub fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a tool and returns its standard output; an error holds its standard error.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{command:?}: {}, {}", output.status, said.trim()))
    }
}
