//! A part of an archive: the file under construction, and its marks.

use std::{
    ffi::{OsStr, OsString},
    os::fd::BorrowedFd,
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};
use unsnap_pass::Unfinished;
use unsnap_ring::{DirectMode, Syscalls};
use unsnap_source::ArchiveFile;

use super::marks::{Mark, Marks};
use crate::{Draft, DraftError, journal::RemoteId};

/// Suffix of the name of the marks, behind that of the file under construction.
const MARKS: &str = ".marks";

/// A part of an archive. It is removed if dropped before it is published, unless it is to stay.
pub struct Part {
    calls: Syscalls,
    draft: Draft,
    marks: Marks,
    marks_name: OsString,
    /// What an interrupted run has left, if it is to be used.
    left: Option<(ArchiveFile, Mark)>,
    /// The machine's boot, if it is known.
    boot: Option<String>,
    /// Whether this is to stay when it is dropped.
    stays: bool,
}

impl Part {
    /// Opens the part of the archive at `path`. `resumes`: what an interrupted run has left of it is
    /// used, and stays if this run ends before it has begun.
    pub fn open(
        calls: &Syscalls,
        unfinished: &Unfinished,
        path: &Path,
        resumes: Option<DirectMode>,
    ) -> Result<Self, DraftError> {
        let mut draft = Draft::open(calls, unfinished, path, false)?;
        let failed = |step| move |errno| DraftError::Failed { step, path: path.to_owned(), errno };
        let temporary = draft.temporary_path();
        let mut marks_name = temporary.file_name().unwrap_or_default().to_owned();
        marks_name.push(MARKS);
        let marks = Marks::open(calls, draft.directory(), &marks_name);
        let marks = marks.map_err(failed("open the marks of"))?;
        let left = resumes.and_then(|direct| {
            let mark = marks.last()?;
            Some((ArchiveFile::open(calls, &temporary, direct).ok()?, mark))
        });
        let stays = left.is_some();
        draft.set_stays(stays);
        let boot = boot(calls);
        Ok(Self { calls: calls.clone(), draft, marks, marks_name, left, boot, stays })
    }

    /// Begins with what is left of this archive. Returns the number of its bytes, and the file to read
    /// them from.
    pub fn begin(&mut self, archive: &RemoteId) -> Result<Option<(ArchiveFile, u64)>, Errno> {
        let left = self.left.take().and_then(|(file, mark)| {
            let bytes = mark.usable(archive, self.boot.as_deref(), file.size());
            (bytes > 0).then_some((file, bytes))
        });
        let bytes = left.as_ref().map_or(0, |(_, bytes)| *bytes);
        self.set_stays(false);
        self.calls.ftruncate(self.draft.file(), bytes)?;
        self.marks.clear()?;
        self.mark(archive, bytes)?;
        Ok(left)
    }

    /// Makes the first bytes durable, and notes that.
    pub fn sync(&self, archive: &RemoteId, bytes: u64) -> Result<(), Errno> {
        self.calls.fdatasync(self.draft.file())?;
        self.mark(archive, bytes)
    }

    fn mark(&self, archive: &RemoteId, synced: u64) -> Result<(), Errno> {
        self.marks.append(&Mark { archive: archive.clone(), boot: self.boot.clone(), synced })
    }

    /// Decides whether the part stays when this is dropped.
    pub fn set_stays(&mut self, stays: bool) {
        self.stays = stays;
        self.draft.set_stays(stays);
    }

    /// Returns the file under construction.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Returns the directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.draft.directory()
    }

    /// Gives the file its name, durably. It must have been synced.
    pub fn publish(mut self) -> Result<(), DraftError> {
        self.draft.remove_beside(&self.marks_name)?;
        self.draft.publish()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let name: &OsStr = &self.marks_name;
        if let Err(error) = self.draft.remove_beside(name) {
            tracing::warn!(%error, "the marks of an unfinished file cannot be removed");
        }
    }
}

/// Returns what tells a boot of the machine from others.
fn boot(calls: &Syscalls) -> Option<String> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let file = calls.open(path, OFlags::RDONLY | OFlags::CLOEXEC).ok()?;
    let mut bytes = [0; 64];
    let count = calls.read(&file, &mut bytes).ok()?;
    let text = std::str::from_utf8(&bytes[..count]).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
