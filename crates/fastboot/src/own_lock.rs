//! Locks by which the processes of unsnap know each other.
//!
//! Such a lock is a file of unsnap's own, locked with `flock`, that holds the process id and the
//! program of the process that locked it last. A process is recognised by the lock that it holds:
//! the kernel cuts process names to 15 bytes, `/proc/locks` may be hidden, and any program may have
//! any name.
//!
//! ```text
//! 1234 unsnap-validator
//! ```
//!
//! The file stays when the lock is released: removing it would race with processes that have just
//! opened it. What it holds counts only while it is locked.

use std::{
    os::fd::OwnedFd,
    path::Path,
    process, thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags},
    io::Errno,
    process::geteuid,
};
use unsnap_commit::CommitError;
use unsnap_ring::Syscalls;
use unsnap_tarstream::printable;

use crate::{FastbootError, files::failed};

/// Wait for processes that take a lock for a moment, to see whether it is held or to rename files.
/// A guess.
pub(crate) const MOMENT: Duration = Duration::from_millis(50);

/// Rest between two attempts to lock. A guess.
const REST: Duration = Duration::from_millis(10);

/// Most bytes of the file that are read. A guess: a process id, a file name, and a slot.
const HOLDER_BYTES_MAX: usize = 320;

/// A lock, held until it is dropped or the process executes another program.
#[derive(Debug)]
pub(crate) struct OwnLock {
    file: OwnedFd,
}

impl OwnLock {
    /// Takes the lock. Fails with [`FastbootError::Locked`], about `subject`, if another process
    /// holds it for longer than `within`. The file is made if it does not exist; its directory must
    /// exist.
    pub fn take(
        calls: &Syscalls,
        path: &Path,
        subject: &Path,
        within: Duration,
    ) -> Result<Self, FastbootError> {
        let at = |step, errno| failed(step, path, errno);
        let flags = OFlags::CREATE | OFlags::RDWR | FLAGS;
        let file = calls.openat(CWD, path, flags, Mode::from_raw_mode(0o644));
        let file = file.map_err(|errno| at("open", errno))?;
        let stat = calls.fstat(&file).map_err(|errno| at("examine", errno))?;
        // Where others may write, it could be a trap.
        if stat.st_uid != geteuid().as_raw()
            || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
        {
            let reason = "is not a file of this user";
            return Err(CommitError::NotClean { path: path.to_owned(), reason }.into());
        }
        if !lock(calls, &file, within).map_err(|errno| at("lock", errno))? {
            let holder = holder_in(calls, &file);
            return Err(FastbootError::Locked { path: subject.to_owned(), holder });
        }
        Ok(Self { file })
    }

    /// Takes a lock that nobody holds for long.
    pub fn take_in_a_moment(
        calls: &Syscalls,
        path: &Path,
        subject: &Path,
    ) -> Result<Self, FastbootError> {
        Self::take(calls, path, subject, MOMENT)
    }

    /// Names this process as the holder, for messages of others. Errors are only logged: a full
    /// disk must not stop a run that may free it.
    pub fn sign(&self, calls: &Syscalls) {
        self.sign_with(calls, "");
    }

    /// Does the same, and adds lines below the name.
    pub fn sign_with(&self, calls: &Syscalls, lines: &str) {
        let name = format!("{} {}\n{lines}", process::id(), program());
        let cleared = calls.ftruncate(&self.file, 0);
        if let Err(errno) = cleared.and_then(|()| calls.write(&self.file, name.as_bytes())) {
            tracing::debug!(%errno, "a lock does not name its holder");
        }
    }

    /// Fails with [`FastbootError::Locked`], about `subject`, if another process holds the lock for
    /// longer than `within`. Changes nothing.
    pub fn refuse_held(
        calls: &Syscalls,
        path: &Path,
        subject: &Path,
        within: Duration,
    ) -> Result<(), FastbootError> {
        let file = match calls.openat(CWD, path, OFlags::RDONLY | FLAGS, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed("open", path, errno)),
        };
        if lock(calls, &file, within).map_err(|errno| failed("lock", path, errno))? {
            return Ok(());
        }
        let holder = holder_in(calls, &file);
        Err(FastbootError::Locked { path: subject.to_owned(), holder })
    }

    /// Returns the content of a lock file that another process holds now; `None` if none does, or if
    /// that cannot be seen. Waits for nobody.
    pub fn text_if_held(calls: &Syscalls, path: &Path) -> Option<String> {
        let file = calls.openat(CWD, path, OFlags::RDONLY | FLAGS, Mode::empty()).ok()?;
        if lock(calls, &file, Duration::ZERO).ok()? {
            return None;
        }
        Some(text_in(calls, &file).unwrap_or_default())
    }
}

/// A FIFO under this name must not stop the process.
const FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK);

/// Locks a file. Returns whether it succeeded.
fn lock(calls: &Syscalls, file: &OwnedFd, within: Duration) -> Result<bool, Errno> {
    let since = Instant::now();
    loop {
        match calls.lock(file) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if since.elapsed() < within => thread::sleep(REST),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}

/// Returns the holder of a held lock, in words; `None` if it did not name itself.
fn holder_in(calls: &Syscalls, file: &OwnedFd) -> Option<String> {
    in_words(text_in(calls, file)?.as_bytes())
}

fn text_in(calls: &Syscalls, file: &OwnedFd) -> Option<String> {
    let mut bytes = [0; HOLDER_BYTES_MAX];
    let len = calls.pread(file, &mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
}

fn in_words(bytes: &[u8]) -> Option<String> {
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    let (process, program) = line.split_at_checked(line.iter().position(|byte| *byte == b' ')?)?;
    let process: u32 = str::from_utf8(process).ok()?.parse().ok()?;
    Some(format!("process {process}, {}", printable(program.trim_ascii())))
}

/// Returns the file name of this program.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name().map_or_else(|| "unsnap".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_held_lock_names_its_holder_and_a_released_one_nobody() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, calls) = (scratch.path().join("lock"), Syscalls::default());
        let subject = Path::new("/the/ledger");
        OwnLock::refuse_held(&calls, &path, subject, MOMENT).unwrap();
        assert!(!path.exists());
        let lock = OwnLock::take(&calls, &path, subject, MOMENT).unwrap();
        lock.sign(&calls);
        for refused in [
            OwnLock::take(&calls, &path, subject, MOMENT).map(drop),
            OwnLock::refuse_held(&calls, &path, subject, MOMENT),
        ] {
            let told = refused.unwrap_err().to_string();
            let who = format!("(process {}, ", process::id());
            assert!(told.contains("/the/ledger") && told.contains(&who), "{told}");
        }
        drop(lock);
        OwnLock::refuse_held(&calls, &path, subject, MOMENT).unwrap();
        OwnLock::take(&calls, &path, subject, MOMENT).unwrap().sign(&calls);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn a_holder_is_a_number_and_a_program() {
        assert_eq!(in_words(b"12 unpackd\n").unwrap(), "process 12, unpackd");
        assert_eq!(in_words(b"12 a \x1b name").unwrap(), "process 12, a \\x1b name");
        for strange in [&b""[..], b"\n", b"12", b"x unpackd\n", b"-1 unpackd\n"] {
            assert_eq!(in_words(strange), None);
        }
    }

    #[test]
    fn a_link_is_no_lock() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, calls) = (scratch.path().join("lock"), Syscalls::default());
        std::os::unix::fs::symlink(scratch.path().join("other"), &path).unwrap();
        assert!(OwnLock::take(&calls, &path, scratch.path(), MOMENT).is_err());
        assert!(!scratch.path().join("other").exists());
    }
}
