//! Requirements of a test, and the report that one is not met.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use rustix::process::Signal;
use unsnap_pass::{Archive, IoEngine};
use unsnap_testkit::skip::{skip, skip_unsupported};

use crate::{Setup, genuine, unpack};

/// Returns whether this process ignores a signal, as under nohup. The programs that it starts
/// inherit that and keep to it, so their reaction cannot be tested; reports that.
#[track_caller]
pub fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let is_ignored = ignored & (1 << (signal.as_raw() - 1)) != 0;
    if is_ignored {
        // A matter of how the tests were started, which no package changes.
        skip_unsupported(format_args!("{signal:?} is ignored by the process that started this"));
    }
    is_ignored
}

/// Returns whether this process is root's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns whether a tool can be run, and reports if not.
#[track_caller]
pub fn has_tool(name: &str, probe: &str) -> bool {
    let found = Command::new(name).arg(probe).output().is_ok_and(|output| output.status.success());
    if !found {
        skip(format_args!("{name} is not installed"));
    }
    found
}

/// Returns whether the kernel lets this process use io_uring, and reports if not.
#[track_caller]
pub fn has_uring() -> bool {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let refused = REFUSED.get_or_init(|| {
        let mut config = Setup::new(Archive::File(genuine().remove(0)), "");
        config.dry_run = true;
        config.pass.io.engine = IoEngine::Uring;
        unpack(&config).err().map(|error| error.to_string())
    });
    if let Some(error) = refused {
        // By the kernel's version, a sysctl or seccomp.
        skip_unsupported(format_args!("everything that needs io_uring: {error}"));
    }
    refused.is_none()
}

/// A bind mount, unmounted when dropped.
#[derive(Debug)]
pub struct Bound(PathBuf);

impl Bound {
    /// Mounts `what` at `path`, which is created; or reports that this is impossible.
    #[track_caller]
    pub fn at(path: PathBuf, what: &Path) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        if !is_root() {
            skip("bind mounts need root");
            return None;
        }
        let mount = Command::new("mount").arg("--bind").args([what, &path]).status();
        if mount.is_ok_and(|status| status.success()) {
            return Some(Self(path));
        }
        // Root, and still refused: a container without the capability.
        skip_unsupported("bind mounts are refused");
        None
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
