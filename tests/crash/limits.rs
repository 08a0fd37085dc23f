//! Limits of the process and its control group: the right answer, and the destination as it was.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use unsnap_test_support::{
    Site, assert_holds, assert_same_tree, expected_tree_of, has_tool, has_uring, is_root,
    ledger_tool_after, ledger_tool_path, run, skip, skip_unsupported,
};
use unsnap_testkit::{
    spec::{ArchiveSpec, Compression, FileSizes},
    tree::read_tree,
};

use crate::stage::is_long;

/// Descriptors that are enough for any run: a dozen for the program itself, the rest for files
/// that are being created.
const OPEN_FILES_ENOUGH: u32 = 256;

/// From no descriptors at all to enough of them: it is refused for want of descriptors, or it
/// works. In between that depends on how many files happen to be open at a time.
#[test]
fn a_limit_of_open_files() {
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 12_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let expected = expected_tree_of(&archive);
    let mut engines = vec!["threads"];
    if has_uring() {
        engines.push("auto");
        if is_long() {
            engines.push("uring");
        }
    }
    for engine in engines {
        let (mut refused, mut done) = (0, 0);
        for limit in (3..=30).chain([OPEN_FILES_ENOUGH]) {
            site.reset(limit % 2 == 0);
            let before = site.state();
            let what = format!("{engine}, {limit} open files");
            let outcome = run(ledger_tool_after(&format!("ulimit -n {limit}"))
                .arg("unpack")
                .arg(&archive)
                .arg("--output")
                .arg(site.output())
                .args(["--no-progress", "--io-engine", engine]));
            match outcome.status.code() {
                Some(0) => {
                    assert_holds(&site.output(), &expected, &what);
                    done += 1;
                }
                // Not even started: the loader could not open what the program is linked with.
                Some(127) if done == 0 && outcome.stderr.contains("shared libraries") => {}
                _ => {
                    assert_ne!(limit, OPEN_FILES_ENOUGH, "{what}: {outcome:#?}");
                    outcome
                        .assert_code(3)
                        .assert_error(&["error: ", "hint: raise the limit on open files"]);
                    site.assert_untouched(&before, &what);
                    refused += 1;
                }
            }
        }
        assert!(refused > 0 && done > 0, "{engine}: {refused} refused, {done} done");
    }
}

/// Somebody without privileges may lock little memory: registered buffers are refused then, and the
/// run goes on without them, and says so.
#[test]
fn a_limit_of_locked_memory() {
    if !is_root() {
        skip("running as another user needs root");
        return;
    }
    if !has_tool("setpriv", "--version") || !has_uring() {
        return;
    }
    // Not in the target directory: that may be in a home that only its owner may enter.
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    fs::copy(ledger_tool_path(), path("ledger-tool")).unwrap();
    fs::create_dir(path("own")).unwrap();
    chown(path("own"), Some(65534), Some(65534)).unwrap();
    // Buffers are registered for archives above a size.
    let spec = ArchiveSpec {
        total_bytes: 72_000_000,
        file_sizes: FileSizes::Fixed(1_500_000),
        compression: Compression::None,
        ..ArchiveSpec::default()
    };
    let site = Site::new();
    let archive = site.archive(&spec);
    fs::copy(&archive, path("archive.tar")).unwrap();
    let as_nobody = |script: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{script}; exec \"$@\""), "sh"])
            .args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(path("ledger-tool"))
            .env_remove("RUST_LOG")
            .env_remove("UNSNAP_CONFIG")
            .current_dir(directory.path());
        command
    };
    if !as_nobody("true").arg("--version").output().unwrap().status.success() {
        // Mounted noexec, or private.
        skip_unsupported("nobody cannot run a program in the temporary directory");
        return;
    }
    let output = path("own/output");
    for engine in ["auto", "uring"] {
        let arguments = ["unpack", "archive.tar", "--format=json", "--no-progress", "--output"];
        // 64 KiB: what kernels allowed by default before Linux 5.16.
        let report = run(as_nobody("ulimit -l 64").args(arguments).arg(&output).args([
            "--io-engine",
            engine,
            "--memory-budget=64MiB",
        ]))
        .assert_code(0)
        .json();
        assert_holds(&output, &expected_tree_of(&archive), engine);
        assert_eq!(report["registered_buffers"], false, "{report:#}");
        fs::remove_dir_all(&output).unwrap();
    }
}

/// A control group for one test, in whichever hierarchy this machine has. Removed when dropped.
struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// `None`, with the reason told, where there can be none.
    fn new(name: &str, limit_bytes: u64) -> Option<Self> {
        Self::make(name, limit_bytes)
            // A container without control groups of its own, or a kernel without the controller.
            .inspect_err(|error| {
                skip_unsupported(format_args!("no control group with a limit: {error}"));
            })
            .ok()
    }

    fn make(name: &str, limit_bytes: u64) -> io::Result<Self> {
        let name = format!("unsnap-{name}-{}", std::process::id());
        let (root, file) = if Path::new("/sys/fs/cgroup/memory").is_dir() {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            ("/sys/fs/cgroup", "memory.max")
        };
        let group = Self { path: Path::new(root).join(name) };
        fs::create_dir(&group.path)?;
        fs::write(group.path.join(file), limit_bytes.to_string())?;
        Ok(group)
    }

    /// A shell line that enters it.
    fn enter(&self) -> String {
        format!("echo $$ > {}", self.path.join("cgroup.procs").display())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its last process may be on its way out still.
        for _ in 0..200 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Under a limit below the size of what is unpacked the page cache must go, not the run.
#[test]
fn a_limit_of_memory_that_suffices() {
    let Some(group) = MemoryGroup::new("suffices", 64 << 20) else { return };
    let site = Site::new();
    let spec = ArchiveSpec {
        total_bytes: 150_000_000,
        file_sizes: FileSizes::Fixed(90_000),
        ..ArchiveSpec::default()
    };
    let archive = site.archive(&spec);
    let expected = expected_tree_of(&archive);
    for direct in ["auto", "off"] {
        site.reset(false);
        run(ledger_tool_after(&group.enter())
            .arg("unpack")
            .arg(&archive)
            .arg("--output")
            .arg(site.output())
            .args(["--memory-budget=24MiB", "--quiet", &format!("--use-direct-io={direct}")]))
        .assert_code(0);
        assert_holds(&site.output(), &expected, direct);
    }
}

/// Under a limit below its budget the kernel kills it, which it cannot prevent; the destination is
/// as it was, and the next run finds nothing in its way.
#[test]
fn a_limit_of_memory_that_kills() {
    let Some(group) = MemoryGroup::new("kills", 24 << 20) else { return };
    let site = Site::new();
    let spec = ArchiveSpec { total_bytes: 300_000_000, ..ArchiveSpec::default() };
    let archive = site.archive(&spec);
    let mut killed = 0;
    for empty in [false, true] {
        site.reset(empty);
        let before = site.state();
        let outcome = run(ledger_tool_after(&group.enter())
            .arg("unpack")
            .arg(&archive)
            .arg("--output")
            .arg(site.output())
            .args(["--quiet", "--memory-budget=256MiB"]));
        if outcome.status.signal() == Some(9) {
            killed += 1;
            let staging = site.place().join(".output.unsnap-staging");
            let mut after = read_tree(&site.place()).unwrap();
            after.retain(|path, _| !path.starts_with(".output.unsnap-staging"));
            assert_same_tree(&after, &before, "killed");
            run(ledger_tool_after("true")
                .arg("unpack")
                .arg(&archive)
                .arg("--output")
                .arg(site.output())
                .arg("--quiet"))
            .assert_code(0);
            assert!(!staging.exists());
            continue;
        }
        // It may as well see the limit and refuse.
        outcome.assert_code(3).assert_error(&["memory", "hint: "]);
        site.assert_untouched(&before, "refused");
        killed += 1;
    }
    assert_eq!(killed, 2);
}
