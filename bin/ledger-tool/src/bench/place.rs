//! What a bench makes: a directory to measure in, and the page until it has its name. Each is locked
//! while it is used, so that the next bench tells what a killed one has left from what another is at
//! work in, and removes it.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::Context;
use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    io::Errno,
    process::geteuid,
};
use tempfile::{NamedTempFile, TempDir};
use unsnap_cli::printer::Printer;

/// Names of what is made begin with this.
const PREFIX: &str = ".unsnap-bench-";

/// How often something is made anew, because another bench that begins at the same moment has taken it
/// for left behind, before it was locked. A guess.
const ATTEMPTS_MAX: usize = 16;

/// A directory to measure in. Removed when it is dropped.
pub struct Place {
    directory: TempDir,
    _lock: File,
}

impl Place {
    /// Makes one in `holder`, and removes what was left there.
    pub fn make(holder: &Path, printer: &Printer) -> anyhow::Result<Self> {
        remove_left_behind(holder, printer)?;
        let make = || {
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(holder)?;
            let lock = lock(directory.path())?;
            Ok(lock.map(|lock| Self { directory, _lock: lock }))
        };
        locked(make).with_context(|| format!("cannot make a directory in {}", holder.display()))
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Removes it with all that is in it.
    pub fn remove(self) -> anyhow::Result<()> {
        let path = self.path().to_owned();
        self.directory.close().with_context(|| cannot_remove(&path))
    }
}

/// A file that has no name of its own yet. Removed when it is dropped without one.
pub struct PlaceFile {
    file: NamedTempFile,
    _lock: File,
}

impl PlaceFile {
    /// Makes one in `holder`, and removes what was left there.
    pub fn make(holder: &Path, printer: &Printer) -> anyhow::Result<Self> {
        remove_left_behind(holder, printer)?;
        let make = || {
            let file = tempfile::Builder::new()
                .prefix(PREFIX)
                .permissions(fs::Permissions::from_mode(0o644))
                .tempfile_in(holder)?;
            let lock = lock(file.path())?;
            Ok(lock.map(|lock| Self { file, _lock: lock }))
        };
        Ok(locked(make)?)
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives it its name, in place of what has that.
    pub fn persist(self, path: &Path) -> io::Result<()> {
        self.file.persist(path).map(drop).map_err(io::Error::from)
    }
}

/// Makes something that nobody else has locked or removed.
fn locked<T>(make: impl Fn() -> io::Result<Option<T>>) -> io::Result<T> {
    for _ in 0..ATTEMPTS_MAX {
        if let Some(made) = make()? {
            return Ok(made);
        }
    }
    Err(Errno::AGAIN.into())
}

/// Opens and locks what has this name; the lock ends with the process. `None`: somebody is at work in it,
/// has just removed it, or keeps it from us.
fn lock(path: &Path) -> io::Result<Option<File>> {
    // Whatever it is (a pipe, say): opening it must not wait, nor lead elsewhere.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP | Errno::ACCESS) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    // Between open and lock its owner may have renamed or removed it.
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => Ok(Some(file)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes what benches of this user that were killed have left in a directory.
fn remove_left_behind(holder: &Path, printer: &Printer) -> anyhow::Result<()> {
    let cannot_read = || format!("cannot read {}", holder.display());
    for entry in fs::read_dir(holder).with_context(cannot_read)? {
        let entry = entry.with_context(cannot_read)?;
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path: PathBuf = entry.path();
        // Held until it is gone.
        let lock = lock(&path).with_context(|| format!("cannot lock {}", path.display()))?;
        let Some(metadata) = lock.as_ref().map(File::metadata).transpose()? else { continue };
        if metadata.uid() != geteuid().as_raw() {
            continue;
        }
        printer
            .tell(&format!("removing what a bench that was killed has left: {}", path.display()));
        let removed =
            if metadata.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| cannot_remove(&path))?;
    }
    Ok(())
}

fn cannot_remove(path: &Path) -> String {
    format!("cannot remove {}", path.display())
}
