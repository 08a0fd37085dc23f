//! Time, CPU time and memory of one process.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use wait4::Wait4;

/// Lines of a failed process's complaints that are repeated.
const COMPLAINT_LINES: usize = 5;

/// What a process took.
pub struct Usage {
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub wall: Duration,
    /// CPU time in user mode, with that of the children it waited for and of all threads that
    /// the kernel ran for its rings.
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
    /// Most memory resident in it, or in one of its children.
    pub peak_bytes: u64,
}

/// Files that take what a process prints: a pipe would need somebody to drain it.
pub struct Captured {
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Captured {
    /// Files in this directory.
    pub fn new(directory: &Path) -> Self {
        Self { stdout: directory.join("stdout"), stderr: directory.join("stderr") }
    }

    /// What it printed to standard output.
    pub fn stdout(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// The end of what it printed to standard error.
    pub fn complaint(&self) -> String {
        let text = fs::read(&self.stderr).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(COMPLAINT_LINES)..].join(" / ")
    }
}

/// Runs a command to its end; its output is kept if `capture_stdout`, and dropped otherwise.
pub fn run(command: &mut Command, captured: &Captured, capture_stdout: bool) -> Result<Usage> {
    let stdout =
        if capture_stdout { File::create(&captured.stdout)?.into() } else { Stdio::null() };
    command.stdin(Stdio::null()).stdout(stdout).stderr(File::create(&captured.stderr)?);
    let start = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let used = child.wait4().context("cannot wait for a process")?;
    Ok(Usage {
        status: used.status,
        wall: start.elapsed(),
        user: used.rusage.utime,
        system: used.rusage.stime,
        peak_bytes: used.rusage.maxrss,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_measured() {
        let directory = tempfile::tempdir().unwrap();
        let captured = Captured::new(directory.path());
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; for i in 1 2 3 4 5 6; do echo $i >&2; done; exit 3"]);
        let usage = run(&mut command, &captured, true).unwrap();
        assert_eq!(usage.status.code(), Some(3));
        assert!(usage.wall > Duration::ZERO);
        assert!(usage.peak_bytes > 100_000);
        assert_eq!(captured.stdout(), "out\n");
        assert_eq!(captured.complaint(), "2 / 3 / 4 / 5 / 6");
        assert!(run(&mut Command::new("/no such program"), &captured, false).is_err());
    }
}
