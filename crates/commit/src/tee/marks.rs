//! Marks: what a later run must know of a part of an archive to go on with it.

use std::{
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use unsnap_ring::Syscalls;

use crate::journal::RemoteId;

/// Longest file of marks that is read, in bytes. A mark has some 200 bytes, and there is one for each
/// 256 MiB of the archive. A guess.
const MARKS_BYTES_MAX: usize = 1 << 20;

/// A part of an archive, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The archive.
    pub archive: RemoteId,
    /// The boot of the machine. As long as it lasts, everything that was written can be read.
    pub boot: Option<String>,
    /// Bytes that survive a power cut.
    pub synced: u64,
}

impl Mark {
    /// Returns the bytes of a part of this length that can be used, a multiple of the page size or the
    /// whole archive.
    pub fn usable(&self, archive: &RemoteId, boot: Option<&str>, length: u64) -> u64 {
        if self.archive != *archive {
            return 0;
        }
        let is_same_boot = boot.is_some() && self.boot.as_deref() == boot;
        let bytes = if is_same_boot { length } else { self.synced.min(length) };
        match bytes.min(archive.length) {
            whole if whole == archive.length => whole,
            part => part - part % PAGE_BYTES,
        }
    }
}

const PAGE_BYTES: u64 = 4096;

/// The file of marks: lines of JSON, of which the last whole one counts.
pub struct Marks {
    calls: Syscalls,
    file: OwnedFd,
}

impl Marks {
    /// Opens the file with this name, and makes it if it is missing.
    pub fn open(calls: &Syscalls, directory: impl AsFd, name: &OsStr) -> Result<Self, Errno> {
        let flags =
            OFlags::CREATE | OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = calls.openat(directory, name, flags, Mode::from_raw_mode(0o644))?;
        Ok(Self { calls: calls.clone(), file })
    }

    /// Returns the last mark.
    pub fn last(&self) -> Option<Mark> {
        let mut bytes = vec![0; MARKS_BYTES_MAX];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.calls.pread(&self.file, &mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        if filled == bytes.len() {
            return None;
        }
        let mut lines = bytes[..filled].split(|byte| *byte == b'\n').rev();
        lines.find_map(|line| serde_json::from_slice(line).ok())
    }

    /// Removes all marks.
    pub fn clear(&self) -> Result<(), Errno> {
        self.calls.ftruncate(&self.file, 0)
    }

    /// Appends a mark, and waits until it is durable.
    pub fn append(&self, mark: &Mark) -> Result<(), Errno> {
        // The line before may have been cut.
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, mark).map_err(|_| Errno::INVAL)?;
        line.push(b'\n');
        let mut rest = &line[..];
        while !rest.is_empty() {
            match self.calls.write(&self.file, rest)? {
                0 => return Err(Errno::NOSPC),
                count => rest = &rest[count..],
            }
        }
        self.calls.fdatasync(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, fs::File, io::Write};

    use super::*;

    fn archive(length: u64, etag: &str) -> RemoteId {
        let head = "xxh3:00".to_owned();
        RemoteId { length, etag: Some(etag.to_owned()), last_modified: None, head }
    }

    #[test]
    fn after_a_reboot_only_synced_bytes_count_and_of_another_archive_none() {
        let mark =
            Mark { archive: archive(100_000, "a"), boot: Some("1".to_owned()), synced: 10_000 };
        let usable = |id: &RemoteId, boot, length| mark.usable(id, boot, length);
        let same = archive(100_000, "a");
        assert_eq!(usable(&same, Some("1"), 50_000), 49_152);
        assert_eq!(usable(&same, Some("2"), 50_000), 8192);
        assert_eq!(usable(&same, None, 50_000), 8192);
        assert_eq!(usable(&same, Some("2"), 5_000), 4096);
        assert_eq!(usable(&same, Some("1"), 200_000), 100_000, "a whole archive");
        assert_eq!(usable(&archive(100_000, "b"), Some("1"), 50_000), 0);
        assert_eq!(usable(&archive(99_999, "a"), Some("1"), 50_000), 0);
    }

    #[test]
    fn the_last_whole_mark_counts() {
        let holder = tempfile::tempdir().unwrap();
        let directory = File::open(holder.path()).unwrap();
        let open = || Marks::open(&Syscalls::default(), &directory, OsStr::new("marks")).unwrap();
        let mark = |synced| Mark { archive: archive(100_000, "a"), boot: None, synced };
        assert_eq!(open().last(), None);
        open().append(&mark(1)).unwrap();
        open().append(&mark(2)).unwrap();
        assert_eq!(open().last(), Some(mark(2)));
        let path = holder.path().join("marks");
        let mut whole = fs::read(&path).unwrap();
        // The power was cut while the second one was being written.
        whole.truncate(whole.len() - 9);
        fs::write(&path, &whole).unwrap();
        assert_eq!(open().last(), Some(mark(1)));
        open().append(&mark(3)).unwrap();
        assert_eq!(open().last(), Some(mark(3)));
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(&vec![b'x'; 2 * MARKS_BYTES_MAX]).unwrap();
        assert_eq!(open().last(), None, "not what unsnap has written");
        open().clear().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }
}
