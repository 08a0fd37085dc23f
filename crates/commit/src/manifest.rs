//! The manifest: name, size and digest of every file, a line of JSON each.
//!
//! The last line has the totals and no name; a manifest without it is not complete.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use serde::Serialize;
use unsnap_failure::Remedy;
use unsnap_source::{Digest, DigestKind, Hasher};

use crate::CommitError;

/// A manifest that is being written. Dropping it before it is to be kept empties the file.
#[derive(Debug)]
pub struct Manifest {
    path: PathBuf,
    /// `None` once it is to be kept.
    output: Option<BufWriter<File>>,
    kind: DigestKind,
    /// The file whose content is passing by.
    current: Option<(String, u64, Hasher)>,
    /// What an older run has written is gone.
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
    /// Creates the file, or opens an old one, which is emptied when the first line is written.
    /// `archive`: what it must not be.
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
        let file = file.map_err(|error| failed("create", path, &error))?;
        let metadata = file.metadata().map_err(|error| failed("look at", path, &error))?;
        if archive == Some((metadata.dev(), metadata.ino())) {
            return refuse("is the archive");
        }
        if !metadata.is_file() {
            return refuse("is no regular file");
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

    pub fn kind(&self) -> DigestKind {
        self.kind
    }

    /// A file begins.
    pub fn begin(&mut self, path: &str, bytes: u64) {
        self.current = Some((path.to_owned(), bytes, self.kind.hasher()));
    }

    /// The next bytes of its content.
    pub fn content(&mut self, bytes: &[u8]) {
        if let Some((_, _, hasher)) = &mut self.current {
            hasher.update(bytes);
        }
    }

    /// All of its content has passed. Gives its digest.
    pub fn end(&mut self) -> Result<Option<Digest>, CommitError> {
        let Some((path, bytes, hasher)) = self.current.take() else { return Ok(None) };
        let digest = hasher.digest();
        self.line(&path, bytes, digest)?;
        Ok(Some(digest))
    }

    /// Adds a file whose digest is known.
    pub fn line(&mut self, path: &str, bytes: u64, digest: Digest) -> Result<(), CommitError> {
        self.total.files += 1;
        self.total.bytes += bytes;
        self.write(&Line { path, bytes, digest: digest.to_string() })
    }

    /// Writes the totals and waits until all of it is on the disk.
    pub fn write_down(&mut self) -> Result<(), CommitError> {
        let total = self.total;
        self.write(&total)?;
        let Some(output) = &mut self.output else { return Ok(()) };
        let flushed = output.flush().and_then(|()| output.get_ref().sync_all());
        flushed.map_err(|error| failed("write", &self.path, &error))
    }

    /// The run has succeeded.
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
            // Of a run that failed nothing shall look like a manifest, nor what is still buffered.
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
