//! Outputs for extracted entries: a directory under construction, or a stream for a single entry.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    os::fd::OwnedFd,
    path::PathBuf,
};

use rustix::{fs::Mode, io::Errno};
use unsnap_commit::{CommitError, Target};
use unsnap_failure::{Knob, Remedy};
use unsnap_pass::PassError;
use unsnap_ring::Syscalls;

use crate::LookupError;

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Takes entries one after the other.
pub(crate) trait EntryOutput {
    /// Begins an entry. The layout has checked that `path` stays below a directory.
    fn begin(&mut self, path: &str) -> Result<(), LookupError>;

    /// Appends to the current entry.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), LookupError>;

    /// Ends the last entry. Called once the archive has been read without an error.
    fn finish(&mut self) -> Result<(), LookupError> {
        Ok(())
    }
}

/// A staging directory. Entries are written to it through the page cache.
pub(crate) struct DirectoryOutput<'a> {
    calls: Syscalls,
    directory: &'a OwnedFd,
    path: PathBuf,
    /// The current file and its name.
    file: Option<(OwnedFd, String)>,
}

impl<'a> DirectoryOutput<'a> {
    /// Writes to the first directory of a target. Messages call it `output`.
    pub fn new(target: &'a Target, output: PathBuf) -> Option<Self> {
        let directory = target.directories.first()?;
        Some(Self { calls: target.calls.clone(), directory, path: output, file: None })
    }

    fn failed(&self, step: &'static str, path: &str, errno: Errno) -> LookupError {
        CommitError::Staging { step, path: self.path.join(path), errno }.into()
    }
}

impl EntryOutput for DirectoryOutput<'_> {
    fn begin(&mut self, path: &str) -> Result<(), LookupError> {
        // Closes the previous file.
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

/// A stream that takes the content of one entry. It is refused before anything is written if a second
/// entry is selected: without a spool, the caller must know that there is only one.
pub(crate) struct StreamOutput<'a> {
    output: &'a mut dyn Write,
    /// A file without a name that holds the entry until the end of the archive.
    spool: Option<File>,
    begun: bool,
}

impl<'a> StreamOutput<'a> {
    /// Writes through `spool` if there is one.
    pub fn new(output: &'a mut dyn Write, spool: Option<File>) -> Self {
        Self { output, spool, begun: false }
    }
}

/// Returns the error for a selection of several entries with a stream as output.
pub(crate) fn several_selected() -> LookupError {
    let reason = "more than one entry is selected, but a stream takes only one";
    let remedy = Remedy::Set(Knob::Output, "name one entry, or give a directory: {}");
    PassError::request_with(reason, remedy).into()
}

impl EntryOutput for StreamOutput<'_> {
    fn begin(&mut self, _: &str) -> Result<(), LookupError> {
        if std::mem::replace(&mut self.begun, true) { Err(several_selected()) } else { Ok(()) }
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), LookupError> {
        match &mut self.spool {
            Some(spool) => {
                spool.write_all(bytes).map_err(|error| LookupError::TemporaryFile { error })
            }
            None => self.output.write_all(bytes).map_err(|error| LookupError::Output { error }),
        }
    }

    fn finish(&mut self) -> Result<(), LookupError> {
        let Some(spool) = &mut self.spool else { return Ok(()) };
        spool.seek(SeekFrom::Start(0)).map_err(|error| LookupError::TemporaryFile { error })?;
        io::copy(spool, self.output).map_err(|error| LookupError::Output { error })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use unsnap_failure::{Failure, Family};

    use super::*;

    #[test]
    fn a_spooled_stream_writes_nothing_before_the_end() {
        let mut written = Vec::new();
        let mut output = StreamOutput::new(&mut written, Some(tempfile::tempfile().unwrap()));
        output.begin("a").unwrap();
        output.bytes(b"one ").unwrap();
        output.bytes(b"entry").unwrap();
        output.finish().unwrap();
        assert_eq!(written, b"one entry");
    }

    #[test]
    fn a_second_entry_is_refused_before_anything_is_written() {
        let mut written = Vec::new();
        let mut output = StreamOutput::new(&mut written, Some(tempfile::tempfile().unwrap()));
        output.begin("a").unwrap();
        output.bytes(b"one").unwrap();
        assert_eq!(output.begin("b").unwrap_err().family(), Family::Request);
        assert!(written.is_empty());
    }
}
