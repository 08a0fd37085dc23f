//! A file for node_exporter's textfile collector.

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::prometheus::prometheus_text;

/// A file that holds the metrics. It has no timer: the caller calls [`write`](Self::write) at the
/// time that [`next`](Self::next) returns, or earlier if a change should be visible at once.
#[derive(Debug)]
pub struct Textfile {
    path: PathBuf,
    every: Duration,
    written: Option<Instant>,
}

impl Textfile {
    /// Creates the writer, but not yet the file. `path` must end in `.prom`, since node_exporter
    /// ignores all other files. `every` is the maximum age of the file; node_exporter exports its
    /// time as `node_textfile_mtime_seconds`.
    pub fn new(path: &Path, every: Duration) -> Result<Self, String> {
        let named = path.file_name().is_some_and(|name| name.len() > ".prom".len());
        if !named || path.extension().is_none_or(|extension| extension != "prom") {
            return Err(format!("{} must end in .prom", path.display()));
        }
        Ok(Self { path: path.to_owned(), every, written: None })
    }

    /// Returns the time of the next write; `None` if it is due at once.
    pub fn next(&self) -> Option<Instant> {
        Some(self.written? + self.every)
    }

    /// Replaces the file by the text of [`render`](super::render). Readers see either the old file
    /// or the new one. The file is not fsynced: after a power cut the old numbers are useless
    /// anyway.
    ///
    /// After an error the next write is due as after a success.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.written = Some(Instant::now());
        let scratch = self.path.with_extension("prom.tmp");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&scratch)?;
        // Set whatever the umask: node_exporter runs as another user.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(prometheus_text(text).as_bytes())?;
        fs::rename(&scratch, &self.path)
    }
}

impl Drop for Textfile {
    /// Removes the file: numbers of a stopped service would be taken for current ones.
    fn drop(&mut self) {
        if self.written.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
