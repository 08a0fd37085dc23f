//! The manifest: name, size and digest of every file, a line of JSON each.
//!
//! The last line has the totals and no name; a manifest without it is not complete.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use serde::Serialize;
use unsnap_source::{Digest, DigestKind, Hasher};

use crate::Error;

/// A manifest that is being written. Dropping it before it is finished empties the file.
#[derive(Debug)]
pub(crate) struct Manifest {
    path: PathBuf,
    /// `None` once it is finished.
    output: Option<BufWriter<File>>,
    kind: DigestKind,
    /// The file whose content is passing by.
    current: Option<(String, u64, Hasher)>,
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
    /// Creates the file, or empties it.
    pub fn create(path: &Path, kind: DigestKind) -> Result<Self, Error> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|error| failed("create", path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            output: Some(BufWriter::new(file)),
            kind,
            current: None,
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
    pub fn end(&mut self) -> Result<Option<Digest>, Error> {
        let Some((path, bytes, hasher)) = self.current.take() else { return Ok(None) };
        let digest = hasher.digest();
        self.line(&path, bytes, digest)?;
        Ok(Some(digest))
    }

    /// Adds a file whose digest is known.
    pub fn line(&mut self, path: &str, bytes: u64, digest: Digest) -> Result<(), Error> {
        self.total.files += 1;
        self.total.bytes += bytes;
        self.write(&Line { path, bytes, digest: digest.to_string() })
    }

    /// Writes the totals and waits until all of it is on the disk.
    pub fn finish(mut self) -> Result<(), Error> {
        self.write(&self.total.clone())?;
        let Some(output) = &mut self.output else { return Ok(()) };
        let flushed = output.flush().and_then(|()| output.get_ref().sync_all());
        flushed.map_err(|error| failed("write", &self.path, &error))?;
        self.output = None;
        Ok(())
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), Error> {
        let Some(output) = &mut self.output else { return Ok(()) };
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
            if let Err(error) = file.set_len(0) {
                tracing::warn!(%error, path = %self.path.display(), "cannot empty the manifest");
            }
        }
    }
}

fn failed(step: &'static str, path: &Path, error: &std::io::Error) -> Error {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    Error::Staging { step, path: path.to_owned(), errno }
}
