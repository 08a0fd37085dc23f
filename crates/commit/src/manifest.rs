//! Manifest: name, size and digest of every file, one line of JSON each.
//!
//! The last line holds the totals and no name. A manifest without it is incomplete.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, ErrorKind, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use serde::Serialize;
use unsnap_failure::Remedy;
use unsnap_source::{Digest, DigestKind, Hasher};

use crate::CommitError;

/// A manifest that is being written. Dropping it without [`keep`](Self::keep) empties the file, if
/// anything was written to it.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    /// `None` once the manifest is kept.
    output: Option<BufWriter<File>>,
    kind: DigestKind,
    /// Path, size and hasher of the current file.
    current: Option<(String, u64, Hasher)>,
    /// Whether an older run's manifest has been truncated.
    emptied: bool,
    total: Total,
}

#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    bytes: u64,
    digest: String,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Total {
    files: u64,
    bytes: u64,
}

impl Manifest {
    /// Creates the file at `path`, or opens an existing one, which is emptied when the first line
    /// is written. `archive` is the device and inode of the archive.
    ///
    /// # Errors
    ///
    /// [`CommitError::Request`] if the file is the archive, lies in one of the `destinations` or is
    /// not a regular file; [`CommitError::Staging`] if it cannot be opened.
    #[allow(clippy::disallowed_methods, reason = "the manifest is no file of the archive")]
    pub fn create(
        path: &Path,
        kind: DigestKind,
        archive: Option<(u64, u64)>,
        destinations: &[&PathBuf],
    ) -> Result<Self, CommitError> {
        let refuse = |reason: &str| {
            let reason = format!("the manifest {} {reason}", path.display());
            let remedy = Remedy::advice("give a file of its own, outside of the destinations");
            Err(CommitError::Request { reason, remedy })
        };
        let absolute =
            std::path::absolute(path).map_err(|error| failed("resolve", path, &error))?;
        let real = absolute.parent().and_then(|parent| parent.canonicalize().ok());
        if real.is_some_and(|parent| {
            let real = |place: &&PathBuf| {
                place.canonicalize().is_ok_and(|place| parent.starts_with(place))
            };
            destinations.iter().any(real)
        }) {
            return refuse("is in a destination");
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| match (error.kind(), absolute.parent()) {
            (ErrorKind::NotFound, Some(parent)) if !parent.exists() => CommitError::Request {
                reason: format!("directory {} does not exist", parent.display()),
                remedy: Remedy::make_directory(parent),
            },
            _ => failed("create", path, &error),
        })?;
        let metadata = file.metadata().map_err(|error| failed("look at", path, &error))?;
        if archive == Some((metadata.dev(), metadata.ino())) {
            return refuse("is the archive");
        }
        if !metadata.is_file() {
            return refuse("is not a regular file");
        }
        Ok(Self {
            path: path.to_owned(),
            output: Some(BufWriter::new(file)),
            kind,
            current: None,
            emptied: false,
            total: Total::default(),
        })
    }

    /// Returns the kind of digest.
    pub fn kind(&self) -> DigestKind {
        self.kind
    }

    /// Begins a file of `bytes`.
    pub fn begin(&mut self, path: &str, bytes: u64) {
        self.current = Some((path.to_owned(), bytes, self.kind.hasher()));
    }

    /// Hashes the next bytes of the current file.
    pub fn content(&mut self, bytes: &[u8]) {
        if let Some((_, _, hasher)) = &mut self.current {
            hasher.update(bytes);
        }
    }

    /// Ends the current file, writes its line and returns its digest; `None` if no file had begun.
    pub fn end(&mut self) -> Result<Option<Digest>, CommitError> {
        let Some((path, bytes, hasher)) = self.current.take() else { return Ok(None) };
        let digest = hasher.digest();
        self.line(&path, bytes, digest)?;
        Ok(Some(digest))
    }

    /// Writes the line of a file whose digest is known.
    pub fn line(&mut self, path: &str, bytes: u64, digest: Digest) -> Result<(), CommitError> {
        self.total.files += 1;
        self.total.bytes += bytes;
        self.write(&Line { path, bytes, digest: digest.to_string() })
    }

    /// Writes the totals and waits until the whole file is on the disk.
    pub fn write_down(&mut self) -> Result<(), CommitError> {
        let total = self.total;
        self.write(&total)?;
        let Some(output) = &mut self.output else { return Ok(()) };
        let flushed = output.flush().and_then(|()| output.get_ref().sync_all());
        flushed.map_err(|error| failed("write", &self.path, &error))
    }

    /// Keeps the file, since the run has succeeded.
    pub fn keep(mut self) {
        self.output = None;
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), CommitError> {
        let Some(output) = &mut self.output else { return Ok(()) };
        if !std::mem::replace(&mut self.emptied, true) {
            let emptied = output.get_ref().set_len(0);
            emptied.map_err(|error| failed("empty", &self.path, &error))?;
        }
        let written = serde_json::to_writer(&mut *output, line).map_err(std::io::Error::from);
        let written = written.and_then(|()| output.write_all(b"\n"));
        written.map_err(|error| failed("write", &self.path, &error))
    }
}

impl Drop for Manifest {
    fn drop(&mut self) {
        if let Some(output) = self.output.take() {
            // A failed run leaves no file that looks like a manifest, so buffered lines are dropped
            // as well.
            let (file, _) = output.into_parts();
            if !self.emptied {
                return;
            }
            if let Err(error) = file.set_len(0) {
                tracing::warn!(%error, path = %self.path.display(), "cannot empty the manifest");
            }
        }
    }
}

fn failed(step: &'static str, path: &Path, error: &std::io::Error) -> CommitError {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    CommitError::Staging { step, path: path.to_owned(), errno }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn create(path: &Path, archive: Option<(u64, u64)>) -> Result<Manifest, CommitError> {
        Manifest::create(path, DigestKind::Xxh3, archive, &[])
    }

    /// Lists two files.
    fn list(manifest: &mut Manifest) {
        manifest.begin("version", 5);
        manifest.content(b"1.2");
        manifest.content(b".0");
        let digest = manifest.end().unwrap().expect("a file had begun");
        assert!(manifest.end().unwrap().is_none());
        manifest.line("accounts/1.0", 100, digest).unwrap();
        manifest.write_down().unwrap();
    }

    #[test]
    fn the_last_line_has_the_totals() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("manifest");
        fs::write(&path, "lines of an older run, more of them than there are now\n".repeat(99))
            .unwrap();
        let mut manifest = create(&path, None).unwrap();
        assert_eq!(manifest.kind(), DigestKind::Xxh3);
        list(&mut manifest);
        manifest.keep();
        let mut hasher = DigestKind::Xxh3.hasher();
        hasher.update(b"1.2.0");
        let digest = hasher.digest();
        let expected = format!(
            "{{\"path\":\"version\",\"bytes\":5,\"digest\":\"{digest}\"}}\n\
             {{\"path\":\"accounts/1.0\",\"bytes\":100,\"digest\":\"{digest}\"}}\n\
             {{\"files\":2,\"bytes\":105}}\n"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn a_failed_run_leaves_no_manifest_and_one_that_wrote_none_leaves_the_old_one() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("manifest");
        fs::write(&path, "old").unwrap();
        let mut manifest = create(&path, None).unwrap();
        manifest.begin("version", 5);
        drop(manifest);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let mut manifest = create(&path, None).unwrap();
        list(&mut manifest);
        assert_ne!(fs::read_to_string(&path).unwrap(), "");
        drop(manifest);
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn files_that_must_not_be_overwritten_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let archive = scratch.path().join("archive");
        fs::write(&archive, "content").unwrap();
        let metadata = fs::metadata(&archive).unwrap();
        let error = create(&archive, Some((metadata.dev(), metadata.ino()))).unwrap_err();
        assert!(error.to_string().ends_with("is the archive"), "{error}");
        assert_eq!(fs::read(&archive).unwrap(), b"content");

        let error = create(Path::new("/dev/null"), None).unwrap_err();
        assert!(error.to_string().ends_with("is not a regular file"), "{error}");

        let output = scratch.path().join("output");
        fs::create_dir_all(output.join("below")).unwrap();
        for inside in ["manifest", "below/manifest", "below/../manifest"] {
            let path = output.join(inside);
            let error = Manifest::create(&path, DigestKind::Xxh3, None, &[&output]).unwrap_err();
            assert!(error.to_string().ends_with("is in a destination"), "{error}");
            assert!(!path.exists());
        }
        let error = create(&scratch.path().join("absent/manifest"), None).unwrap_err();
        assert!(error.to_string().ends_with("absent does not exist"), "{error}");
    }
}
