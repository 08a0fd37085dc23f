//! Temporary files of a bench: a directory to measure in, and the page until it gets its name.
//!
//! Each is locked while it is in use. So the next bench can tell the files of a killed bench, which it
//! removes, from those of a running one.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock, open},
    io::Errno,
    process::geteuid,
};
use unsnap_cli::{exit::ProgramFailure, printer::Printer};

use super::error::cannot;

/// Prefix of all temporary names.
const PREFIX: &str = ".unsnap-bench-";

/// Maximum number of names to try. A name may be in use by a process with the same number in another
/// container, and another bench that starts at the same moment may take a new file for one left
/// behind, before it is locked. A guess.
const ATTEMPTS_MAX: usize = 64;

/// A directory to measure in. Removed with its content when it is dropped.
pub struct ScratchDirectory {
    /// `None` when it has been removed.
    path: Option<PathBuf>,
    _lock: File,
}

impl ScratchDirectory {
    /// Creates a directory in `parent`. Removes what killed benches left there.
    pub fn create(parent: &Path, printer: &Printer) -> Result<Self, ProgramFailure> {
        remove_left_behind(parent, printer)?;
        let create = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        let (path, (), lock) = create_locked(parent, "create a directory in", create)?;
        Ok(Self { path: Some(path), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Removes the directory with its content.
    pub fn remove(mut self) -> Result<(), ProgramFailure> {
        let Some(path) = self.path.take() else { return Ok(()) };
        fs::remove_dir_all(&path).map_err(cannot("remove", &path))
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// A file that has no name of its own yet. Removed when it is dropped without one.
pub struct ScratchFile {
    file: File,
    /// `None` when it has its own name.
    path: Option<PathBuf>,
    _lock: File,
}

impl ScratchFile {
    /// Creates a file in `parent`. Removes what killed benches left there.
    pub fn create(parent: &Path, printer: &Printer) -> Result<Self, ProgramFailure> {
        remove_left_behind(parent, printer)?;
        let create =
            |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
        let (path, file, lock) = create_locked(parent, "create a file in", create)?;
        Ok(Self { file, path: Some(path), _lock: lock })
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Renames the file. An existing file with that name is replaced.
    pub fn persist(mut self, path: &Path) -> io::Result<()> {
        if let Some(temporary) = &self.path {
            fs::rename(temporary, path)?;
            self.path = None;
        }
        Ok(())
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Creates something under a free name and locks it, before another bench locks or removes it. `step`
/// is a verb for errors about `parent`. Returns the path, what `create` returned, and the lock.
fn create_locked<T>(
    parent: &Path,
    step: &'static str,
    create: impl Fn(&Path) -> io::Result<T>,
) -> Result<(PathBuf, T, File), ProgramFailure> {
    for attempt in 0..ATTEMPTS_MAX {
        let path = parent.join(format!("{PREFIX}{}-{attempt}", process::id()));
        let created = match create(&path) {
            Ok(created) => created,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(cannot(step, parent)(error)),
        };
        if let Some(lock) = lock(&path).map_err(cannot("lock", &path))? {
            return Ok((path, created, lock));
        }
    }
    Err(cannot(step, parent)(Errno::AGAIN.into()))
}

/// Opens and locks a temporary file or directory; the lock ends with the process. Returns `None` if
/// another process uses it, has just removed it, or denies access to it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    // It may be anything, such as a pipe: opening it must not wait, nor follow a link.
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
    // Its owner may have renamed or removed it between open and lock.
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => Ok(Some(file)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the temporary files that killed benches of this user left in a directory.
fn remove_left_behind(parent: &Path, printer: &Printer) -> Result<(), ProgramFailure> {
    for entry in fs::read_dir(parent).map_err(cannot("read", parent))? {
        let entry = entry.map_err(cannot("read", parent))?;
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path: PathBuf = entry.path();
        // Held until it is removed.
        let lock = lock(&path).map_err(cannot("lock", &path))?;
        let metadata = lock.as_ref().map(File::metadata).transpose();
        let Some(metadata) = metadata.map_err(cannot("examine", &path))? else { continue };
        if metadata.uid() != geteuid().as_raw() {
            continue;
        }
        printer.step(&format!("removing {}, left by an interrupted bench", path.display()));
        let removed =
            if metadata.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(cannot("remove", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use unsnap_cli::args::{Color, OutputArgs};

    use super::*;

    fn names(directory: &Path) -> Vec<PathBuf> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn temporary_files_do_not_outlive_their_owner() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let output = OutputArgs { quiet: 1, verbose: 0, no_progress: true, color: Color::Never };
        let printer = Printer::new(&output);
        let directory = ScratchDirectory::create(parent, &printer).unwrap();
        fs::write(directory.path().join("x"), "x").unwrap();
        let mut page = ScratchFile::create(parent, &printer).unwrap();
        assert_eq!(names(parent).len(), 2, "locked ones are left alone");
        page.write_all(b"page").unwrap();
        page.persist(&parent.join("page")).unwrap();
        drop(ScratchFile::create(parent, &printer).unwrap());
        directory.remove().unwrap();
        assert_eq!(names(parent), [parent.join("page")]);
        drop(ScratchDirectory::create(parent, &printer).unwrap());
        // One that is not locked was left by a killed bench.
        fs::create_dir(parent.join(".unsnap-bench-left")).unwrap();
        remove_left_behind(parent, &printer).unwrap();
        assert_eq!(names(parent), [parent.join("page")]);
    }

    #[test]
    fn names_in_use_are_not_taken() {
        let parent = tempfile::tempdir().unwrap();
        let first = format!("{PREFIX}{}-0", process::id());
        fs::write(parent.path().join(&first), "").unwrap();
        let create = |path: &Path| DirBuilder::new().create(path);
        let (path, (), _lock) = create_locked(parent.path(), "create", create).unwrap();
        assert!(path.ends_with(format!("{PREFIX}{}-1", process::id())), "{path:?}");
        let error = create_locked(Path::new("/proc/absent"), "create a directory in", create);
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("cannot create a directory in /proc/absent: No such file"));
    }
}
