//! A file for node_exporter's textfile collector.

use std::{
    fs::{self, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::classic::classic;

/// Keeps a file with the metrics. Whoever has a timer already asks [`next`](Self::next) when to
/// [`write`](Self::write); sooner does no harm, where something has changed that should be seen.
#[derive(Debug)]
pub struct Textfile {
    path: PathBuf,
    every: Duration,
    written: Option<Instant>,
}

impl Textfile {
    /// `path` must end in `.prom`: node_exporter passes over everything else. `every` is how old the
    /// file may become; node_exporter tells its age as `node_textfile_mtime_seconds`.
    pub fn new(path: &Path, every: Duration) -> Result<Self, String> {
        let named = path.file_name().is_some_and(|name| name.len() > ".prom".len());
        if !named || path.extension().is_none_or(|extension| extension != "prom") {
            return Err(format!("{} must end in .prom", path.display()));
        }
        Ok(Self { path: path.to_owned(), every, written: None })
    }

    /// When to write at the latest; `None` for at once.
    pub fn next(&self) -> Option<Instant> {
        Some(self.written? + self.every)
    }

    /// Writes the file anew, with the text of [`render`](super::render). Readers see the old file or the
    /// new one. It is not synced: after a power cut the old numbers are of no use either.
    ///
    /// After an error the next attempt is due as if it had been written.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.written = Some(Instant::now());
        let scratch = self.path.with_extension("prom.tmp");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&scratch)?;
        // Whatever the umask: node_exporter is another user.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(classic(text).as_bytes())?;
        fs::rename(&scratch, &self.path)
    }
}

impl Drop for Textfile {
    /// Numbers of a service that no longer runs would be taken for those of one that does.
    fn drop(&mut self) {
        if self.written.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
