//! A container of this machine's own root with a systemd of its own as process 1.
//!
//! The root is an overlay: what is written goes to memory. `/mnt` is a directory of the build
//! directory's file system, so that unsnap meets a real one. There is no network but a loopback
//! device. Processes, mounts, and what systemd-nspawn notes below `/run`, are in namespaces that end
//! with the thread that has booted the container; what has to be removed by hand are the cgroups.

use std::{
    fs,
    io::{self, Read, Seek, Write},
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use unsnap_test_support::{is_root, skip, skip_unsupported};

/// Nothing that a test waits for takes this long, however slow and busy the machine is. A guess:
/// booting takes a third of a second here.
pub const HANG: Duration = Duration::from_mins(3);

/// How often is looked for what is waited for.
const POLL: Duration = Duration::from_millis(50);

/// A booted container. It ends when dropped.
pub struct Container {
    /// Holds the namespace of all the container's processes: with it they die.
    supervisor: Child,
    /// The container's process 1, by its number here.
    leader: u32,
    mnt: PathBuf,
    /// What `mnt` is, unless it is a caller's.
    scratch: Option<TempDir>,
    // Last: they can be removed only when all processes have gone.
    _cgroups: Cgroups,
}

impl Container {
    /// Boots one, or tells why that cannot be done on this machine.
    pub fn boot() -> Option<Self> {
        let scratch = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut booted = Self::boot_on(scratch.path())?;
        booted.scratch = Some(scratch);
        Some(booted)
    }

    /// Does the same with a directory as the container's `/mnt` that stays when it ends.
    pub fn boot_on(mnt: &Path) -> Option<Self> {
        static BOOTED: AtomicU32 = AtomicU32::new(0);
        if !can_boot() {
            return None;
        }
        let number = BOOTED.fetch_add(1, Ordering::Relaxed);
        let machine = format!("unsnap-test-{}-{number}", std::process::id());
        let cgroups = match Cgroups::create(&machine) {
            Ok(cgroups) => cgroups,
            Err(error) => {
                // Root, and still refused: a container itself.
                skip_unsupported(format_args!("no cgroup can be made: {error}"));
                return None;
            }
        };
        fs::set_permissions(mnt, fs::Permissions::from_mode(0o755)).unwrap();
        // Not a pipe, which could fill up.
        let mut said = tempfile::tempfile().unwrap();
        let mut supervisor = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--mount-proc"])
            .args(["--fork", "--kill-child", "sh"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/boot.sh"))
            .args([machine.as_ref(), mnt])
            .args(&cgroups.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said.try_clone().unwrap())
            .spawn()
            .unwrap();
        let Some(leader) = leader_of(&mut supervisor) else {
            let mut why = String::new();
            said.rewind().unwrap();
            said.read_to_string(&mut why).unwrap();
            // Everything that it takes is installed, and the kernel or an outer container refuses.
            skip_unsupported(format_args!("no container can be booted here: {}", why.trim()));
            return None;
        };
        let mnt = mnt.to_owned();
        let container = Self { supervisor, leader, mnt, scratch: None, _cgroups: cgroups };
        // Whether a systemd of one's own comes up is the machine's matter, not unsnap's.
        let since = Instant::now();
        while !container.sh("systemctl is-active basic.target").ok() {
            if since.elapsed() > HANG {
                skip_unsupported(format_args!(
                    "systemd does not come up in a container within {HANG:?}"
                ));
                return None;
            }
            thread::sleep(POLL);
        }
        Some(container)
    }

    /// Where a file of the container is for this process.
    pub fn path(&self, inside: &str) -> PathBuf {
        assert!(inside.starts_with('/'), "{inside} is not absolute");
        PathBuf::from(format!("/proc/{}/root{inside}", self.leader))
    }

    /// The container's `/mnt`.
    pub fn mnt(&self) -> &Path {
        &self.mnt
    }

    /// Reboots it, up to the moment when it would come up again: everything is stopped in its order.
    #[track_caller]
    pub fn reboot(mut self) {
        // The call may end with what it ends.
        let _ = self.sh("systemctl --no-block reboot");
        let since = Instant::now();
        while self.supervisor.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < HANG, "it does not go down");
            thread::sleep(POLL);
        }
    }

    /// Writes a file in the container, and its directories.
    pub fn write(&self, inside: &str, content: impl AsRef<[u8]>) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap_or_else(|error| panic!("{inside}: {error}"));
    }

    /// Copies a file into the container, and makes its directories.
    pub fn install(&self, from: &Path, inside: &str, mode: u32) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(from, &path).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Runs a shell script as the container's root.
    pub fn sh(&self, script: &str) -> Said {
        self.run(&["sh", "-c", script])
    }

    /// Runs a shell script as one of the container's users.
    pub fn sh_as(&self, user: &str, script: &str) -> Said {
        self.run(&[
            "setpriv",
            "--reuid",
            user,
            "--regid",
            user,
            "--init-groups",
            "sh",
            "-c",
            script,
        ])
    }

    fn run(&self, command: &[&str]) -> Said {
        let output = Command::new("nsenter")
            .args(["--target", &self.leader.to_string(), "--all", "--", "env", "-i"])
            .args(["LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_PAGER="])
            .args(command)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Said {
            command: command.join(" "),
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// A property of a unit, as systemd says it.
    pub fn property(&self, unit: &str, name: &str) -> String {
        let said = self.sh(&format!("systemctl show --value --property={name} {unit}")).succeeds();
        said.stdout.trim_end().to_owned()
    }

    /// Waits until something holds.
    #[track_caller]
    #[allow(clippy::unused_self)] // reads as what is waited for in the container
    pub fn wait_for(&self, what: impl std::fmt::Display, mut holds: impl FnMut() -> bool) {
        let since = Instant::now();
        while !holds() {
            assert!(since.elapsed() < HANG, "waited in vain for {what}");
            thread::sleep(POLL);
        }
    }

    /// Waits until a property of a unit has a value.
    #[track_caller]
    pub fn wait_for_property(&self, unit: &str, name: &str, value: &str) {
        self.wait_for(format_args!("{name}={value} of {unit}"), || {
            self.property(unit, name) == value
        });
    }

    /// What the journal holds of a unit.
    pub fn journal(&self, unit: &str) -> String {
        // Messages are on their way for a moment after they have been sent.
        self.sh(&format!("journalctl --sync; journalctl --no-pager --output=cat --unit={unit}"))
            .stdout
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if thread::panicking() {
            let said = self.sh("journalctl --sync; journalctl --no-pager --lines=100").stdout;
            let _ = writeln!(io::stderr(), "the container's journal ends so:\n{said}");
        }
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

/// What a command in the container has said.
#[derive(Debug)]
pub struct Said {
    pub command: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    pub fn ok(&self) -> bool {
        self.status.success()
    }

    /// Itself, after a check that the command has succeeded.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        assert!(self.ok(), "{}: {self:#?}", self.command);
        self
    }

    /// Itself, after a check that the command has failed by itself, not by a signal.
    #[track_caller]
    pub fn fails(self) -> Self {
        assert!(!self.ok() && self.status.signal().is_none(), "{self:#?}");
        self
    }
}

/// Returns whether this machine has a systemd, and reports if not. The tests boot the machine's own;
/// to install one would change the machine, so its absence is none of a strict run's failures.
pub fn has_systemd() -> bool {
    let found = Path::new("/lib/systemd/systemd").exists();
    if !found {
        skip_unsupported("this machine has no systemd");
    }
    found
}

/// Returns whether everything that booting a container takes is installed, and reports if not.
fn can_boot() -> bool {
    if !has_systemd() {
        return false;
    }
    if !is_root() {
        skip("booting a container needs root");
        return false;
    }
    for (tool, package) in [
        ("systemd-nspawn", "systemd-container"),
        ("nsenter", "util-linux"),
        ("unshare", "util-linux"),
        ("setpriv", "util-linux"),
    ] {
        if let Err(error) = Command::new(tool).arg("--version").output() {
            skip(format_args!("{tool} (of the package {package}) cannot be run: {error}"));
            return false;
        }
    }
    true
}

/// The process that has become the container's systemd; nothing if nspawn ends before.
fn leader_of(supervisor: &mut Child) -> Option<u32> {
    let since = Instant::now();
    loop {
        // Its parent is nspawn. nspawn's helpers, and the first process before it has become systemd,
        // have nspawn's name.
        let leader = children(supervisor.id()).into_iter().flat_map(children).find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "systemd\n")
        });
        if leader.is_some() {
            return leader;
        }
        if supervisor.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(since.elapsed() < HANG, "systemd-nspawn neither boots nor gives up");
        thread::sleep(POLL);
    }
}

/// The children of a process that has one thread.
fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// The container's own cgroups, below the ones that this process is in: one in each hierarchy that
/// systemd keeps its units in.
struct Cgroups(Vec<PathBuf>);

impl Cgroups {
    fn create(name: &str) -> io::Result<Self> {
        let mount = Path::new("/sys/fs/cgroup");
        let unified = if mount.join("cgroup.procs").exists() {
            mount.to_owned()
        } else {
            mount.join("unified")
        };
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mut made = Self(Vec::new());
        for line in own.lines() {
            let (hierarchy, path) = match line.splitn(3, ':').collect::<Vec<_>>()[..] {
                ["0", "", path] => (unified.clone(), path),
                [_, "name=systemd", path] => (mount.join("systemd"), path),
                _ => continue,
            };
            let cgroup = hierarchy.join(path.trim_start_matches('/')).join(name);
            fs::create_dir(&cgroup)?;
            made.0.push(cgroup);
        }
        Ok(made)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let since = Instant::now();
        for cgroup in &self.0 {
            // Killed processes leave their cgroup a moment after they are killed.
            while let Err(error) = remove_cgroup(cgroup) {
                if since.elapsed() > HANG {
                    let _ = writeln!(io::stderr(), "{} stays: {error}", cgroup.display());
                    break;
                }
                thread::sleep(POLL);
            }
        }
    }
}

/// Removes a cgroup and those in it: their files cannot be removed, and need not be.
fn remove_cgroup(cgroup: &Path) -> io::Result<()> {
    for entry in fs::read_dir(cgroup)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_cgroup(&entry.path())?;
        }
    }
    fs::remove_dir(cgroup)
}
