//! `--manifest` of `unpack`: where the list of files goes.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use anyhow::Context;
use unsnap_pack::PackError;

use crate::{
    cli::{ReportFormat, UnpackArgs},
    exit::OutputFailed,
    settings::RequestError,
};

/// Bytes at the end of a manifest that hold its last line. A guess, above the longest path.
const TAIL_BYTES: u64 = 16 << 10;

/// Where the manifest goes.
pub enum Manifest {
    /// There is none.
    None,
    /// To this file.
    File(PathBuf),
    /// To standard output, once everything is durable; until then to this file without a name.
    Output(File),
}

impl Manifest {
    /// Checks the request. Nothing is created under a name.
    pub fn of(args: &UnpackArgs) -> anyhow::Result<Self> {
        let Some(path) = &args.manifest else { return Ok(Self::None) };
        if path.as_os_str() == "-" {
            if args.format == ReportFormat::Json {
                let reason = "--manifest - and --format json both want standard output: \
                              give the manifest a file";
                return Err(RequestError(reason.to_owned()).into());
            }
            let file = tempfile::tempfile().context("cannot create a temporary file")?;
            return Ok(Self::Output(file));
        }
        if !args.force && would_be_lost(path, args.resume) {
            return Err(PackError::Exists { path: path.clone() }.into());
        }
        Ok(Self::File(path.clone()))
    }

    /// Returns the file that the run writes to.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Self::None => None,
            Self::File(path) => Some(path.clone()),
            Self::Output(file) => Some(format!("/proc/self/fd/{}", file.as_raw_fd()).into()),
        }
    }

    /// Whether the manifest takes standard output, so that no report can be printed there.
    pub fn takes_output(&self) -> bool {
        matches!(self, Self::Output(_))
    }

    /// Prints the manifest, if it goes to standard output.
    pub fn print(self) -> Result<(), OutputFailed> {
        let Self::Output(mut file) = self else { return Ok(()) };
        let mut output = io::stdout().lock();
        let printed = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| io::copy(&mut file, &mut output))
            .and_then(|_| io::Write::flush(&mut output));
        match printed {
            // A reader that has closed the pipe changes nothing of the outcome.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            printed => printed.map_err(OutputFailed::new),
        }
    }
}

/// Whether a file holds anything that a new manifest would overwrite. `resumes`: the manifest of
/// the interrupted run is not counted.
fn would_be_lost(path: &Path, resumes: bool) -> bool {
    // Anything but a regular file is refused later, with the reason.
    let holds = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
    holds && !(resumes && is_unfinished(path).unwrap_or(false))
}

/// Whether a file begins like a manifest and does not end in the line of totals.
fn is_unfinished(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut head = [0; 9];
    file.read_exact(&mut head)?;
    let tail_at = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(tail_at))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let last = tail.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(head == *b"{\"path\":\"" && !last.starts_with(b"{\"files\":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interrupted_manifest_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manifest");
        assert!(!would_be_lost(&path, false), "there is none");
        let line = "{\"path\":\"version\",\"bytes\":5,\"digest\":\"xxh3:00\"}\n";
        for (text, lost, lost_to_resume) in [
            (String::new(), false, false),
            ("notes".to_owned(), true, true),
            (line.repeat(3), true, false),
            (line.repeat(1000) + "{\"path\":\"acc", true, false),
            (line.repeat(3) + "{\"files\":3,\"bytes\":15}\n", true, true),
        ] {
            fs::write(&path, &text).unwrap();
            assert_eq!(would_be_lost(&path, false), lost, "{text:.40}");
            assert_eq!(would_be_lost(&path, true), lost_to_resume, "{text:.40}");
        }
        assert!(!would_be_lost(directory.path(), false), "a directory is refused elsewhere");
    }
}
