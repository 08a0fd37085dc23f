//! Writing entries: to a directory under construction, or one of them to a stream.

use std::{io::Write, os::fd::OwnedFd, path::PathBuf};

use rustix::{fs::Mode, io::Errno};
use unsnap_commit::{CommitError, Target};
use unsnap_failure::{Knob, Remedy};
use unsnap_pass::PassError;
use unsnap_ring::Syscalls;

use crate::LookupError;

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Takes entries one after the other.
pub(crate) trait Take {
    /// An entry begins. `path`: as the layout has placed it, safe below a directory.
    fn begin(&mut self, path: &str) -> Result<(), LookupError>;
    /// The next bytes of its content.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), LookupError>;
}

/// A staging directory that entries are written to, through the page cache.
pub(crate) struct Tree<'a> {
    calls: Syscalls,
    directory: &'a OwnedFd,
    path: PathBuf,
    /// The file under way, and its name.
    file: Option<(OwnedFd, String)>,
}

impl<'a> Tree<'a> {
    /// `output`: what messages call the directory.
    pub fn new(target: &'a Target, output: PathBuf) -> Option<Self> {
        let directory = target.directories.first()?;
        Some(Self { calls: target.calls.clone(), directory, path: output, file: None })
    }

    fn failed(&self, step: &'static str, path: &str, errno: Errno) -> LookupError {
        CommitError::Staging { step, path: self.path.join(path), errno }.into()
    }
}

impl Take for Tree<'_> {
    fn begin(&mut self, path: &str) -> Result<(), LookupError> {
        // Closed, whatever follows.
        self.file = None;
        for (end, _) in path.match_indices('/') {
            let parent = &path[..end];
            let mode = Mode::from_raw_mode(DIRECTORY_MODE);
            match self.calls.mkdirat(self.directory, parent, mode) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.failed("make", parent, errno)),
            }
        }
        let mode = Mode::from_raw_mode(FILE_MODE);
        let created = self.calls.create_beneath(self.directory, path, mode);
        let created = created.map_err(|errno| self.failed("create", path, errno))?;
        self.file = Some((created, path.to_owned()));
        Ok(())
    }

    fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), LookupError> {
        let Some((file, path)) = &self.file else { return Ok(()) };
        while !bytes.is_empty() {
            match self.calls.write(file, bytes) {
                Ok(0) => return Err(self.failed("write to", path, Errno::NOSPC)),
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failed("write to", path, errno)),
            }
        }
        Ok(())
    }
}

/// A stream that takes the content of one entry.
pub(crate) struct Stream<'a> {
    output: &'a mut dyn Write,
    taken: bool,
}

impl<'a> Stream<'a> {
    pub fn new(output: &'a mut dyn Write) -> Self {
        Self { output, taken: false }
    }
}

impl Take for Stream<'_> {
    fn begin(&mut self, _: &str) -> Result<(), LookupError> {
        if std::mem::replace(&mut self.taken, true) {
            let reason = "more than one entry is selected, and they would run together";
            let remedy = Remedy::Set(Knob::Output, "name one entry, or give a directory: {}");
            return Err(PassError::request_with(reason, remedy).into());
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), LookupError> {
        self.output.write_all(bytes).map_err(|error| LookupError::Output { error })
    }
}
