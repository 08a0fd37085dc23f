//! Journal: the durable files of a run, from which a later run resumes.
//!
//! The journal is a file in the output's staging directory. It is removed before the output gets
//! its final name. It is a sequence of records, each appended after a `syncfs` of every file that
//! it lists:
//!
//! | bytes | |
//! |---|---|
//! | 4 | length of the payload, little-endian |
//! | 8 | XXH3 of the payload, seeded with that of the record before: no record can be left out, changed or put elsewhere |
//! | … | the payload, JSON: first the [`Run`], then [`Checkpoint`]s |
//!
//! A last record that is cut or does not match its hash was being written when the machine stopped,
//! and is ignored. Any other damage makes the whole journal useless.

use std::{
    ffi::CStr,
    io::{self, BufReader, Read},
    os::fd::OwnedFd,
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, seek},
    io::Errno,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use twox_hash::XxHash3_64;
use unsnap_decode::Position;
use unsnap_ring::Syscalls;

/// Name of the journal in the staging directory. Layouts admit no entry of this name.
const JOURNAL_NAME: &CStr = c".unsnap-journal";

/// Version of the format. A journal of another version is not read.
const FORMAT_VERSION: u32 = 1;

/// Length and hash of a record.
const HEADER_BYTES: usize = 12;

/// Longest record in bytes. Checkpoints are bounded in memory to a fraction of that. A guess.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// Longest journal that is read, in bytes. That of a mainnet snapshot has about 50 MB; a guess at
/// twenty times that.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;

/// Layout and staging directories of a run. A run resumes only a journal with the same values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the journal's format.
    pub(crate) format_version: u32,
    /// Name of the layout.
    pub layout: String,
    /// Inode of each staging directory, the output's first. Device numbers are left out, since they
    /// may change at the next boot.
    pub staging: Vec<u64>,
}

impl Run {
    /// Creates the description of a run in the current format.
    pub fn new(layout: &str, staging: Vec<u64>) -> Self {
        Self { format_version: FORMAT_VERSION, layout: layout.to_owned(), staging }
    }
}

/// Identity of an archive, for deciding whether it is still the same and unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ArchiveId {
    /// A file.
    File(ArchiveFile),
    /// An archive on a server.
    Remote(RemoteId),
}

/// Identity of an archive on a server. Its address may be another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteId {
    /// Length in bytes.
    pub length: u64,
    /// Strong tag.
    pub etag: Option<String>,
    /// Time of the last change, if there is no tag.
    pub last_modified: Option<String>,
    /// Digest of its first bytes.
    pub head: String,
}

/// Identity of an archive file, for deciding whether it is still the same and unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveFile {
    inode: u64,
    bytes: u64,
    /// Modification time: seconds and nanoseconds.
    modified: (i64, u64),
    /// Change time of the inode, which no process can set.
    changed: (i64, u64),
}

impl ArchiveFile {
    /// Returns the identity of the file with these attributes.
    pub fn new(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// A member of the archive before which every file is complete and durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Identity of the archive.
    pub archive: ArchiveId,
    /// Members since the previous checkpoint, in the archive's order.
    pub members: Vec<Recorded>,
    /// Offset of the member's header in the decoded stream.
    pub header_offset: u64,
    /// Number of members before it.
    pub entries: u64,
    /// Position from which decoding reaches the member.
    pub restart: Restart,
    /// Ranges of the archive that this run, and the runs that it resumed, have read. If digests
    /// were requested, they cover everything before the position where decoding restarts.
    pub read: Vec<ReadRange>,
}

/// A range of an archive, and its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRange {
    /// Offset of the first byte.
    pub from: u64,
    /// Offset behind the last byte.
    pub to: u64,
    /// Digest of the range, with its kind.
    pub digest: String,
}

/// A position where decoding can begin; by default the beginning of the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Offset in the archive.
    pub compressed_offset: u64,
    /// Index of the frame that begins there.
    pub frame: u64,
    /// Offset in the decoded stream.
    pub raw_offset: u64,
}

impl From<Position> for Restart {
    fn from(Position { compressed_offset, frame, raw_offset }: Position) -> Self {
        Self { compressed_offset, frame, raw_offset }
    }
}

impl From<Restart> for Position {
    fn from(Restart { compressed_offset, frame, raw_offset }: Restart) -> Self {
        Self { compressed_offset, frame, raw_offset }
    }
}

/// A durable file or directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Path as stored in the archive.
    pub path: String,
    /// Size of a file; `None` for a directory.
    pub bytes: Option<u64>,
    /// Digest of the content, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A journal that checkpoints are appended to. Its file is created at the first checkpoint, so a
/// run that ends earlier leaves none.
#[derive(Debug)]
pub struct Journal(Progress);

#[derive(Debug)]
enum Progress {
    /// The file will be created in this staging directory.
    Planned { calls: Syscalls, directory: OwnedFd, run: Run },
    /// The file exists.
    Begun(Appender),
}

/// Appends records to a journal.
#[derive(Debug)]
struct Appender {
    calls: Syscalls,
    file: OwnedFd,
    /// Hash of the last record.
    hash: u64,
}

/// Content of a journal.
#[derive(Debug)]
pub struct Loaded {
    /// The interrupted run.
    pub run: Run,
    /// The last checkpoint, with the members of all checkpoints.
    pub reached: Checkpoint,
    /// Whether all checkpoints are of the same archive file.
    pub one_archive: bool,
    /// The journal itself, open for further checkpoints.
    pub journal: Journal,
}

impl Journal {
    /// Prepares a journal for a staging directory that has none. Creates no file yet. Fails if the
    /// directory's descriptor cannot be duplicated.
    pub fn plan(calls: &Syscalls, directory: &OwnedFd, run: Run) -> Result<Self, Errno> {
        let directory = calls.duplicate(directory)?;
        Ok(Self(Progress::Planned { calls: calls.clone(), directory, run }))
    }

    /// Replaces the journal of a staging directory by one of another run, which goes on from `reached`.
    /// If that is interrupted, no run can resume.
    pub fn replace(
        calls: &Syscalls,
        directory: &OwnedFd,
        run: Run,
        reached: &Checkpoint,
    ) -> Result<Self, Errno> {
        remove_journal(calls, directory)?;
        let mut journal = Self::plan(calls, directory, run)?;
        journal.checkpoint(reached)?;
        Ok(journal)
    }

    /// Reads the journal of an interrupted run and truncates it behind its last whole record.
    /// Returns `None` if there is no journal, or none with a checkpoint.
    pub fn load(calls: &Syscalls, directory: &OwnedFd) -> Result<Option<Loaded>, LoadError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match calls.openat(directory, JOURNAL_NAME, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno @ (Errno::LOOP | Errno::ISDIR | Errno::NXIO)) => {
                return Err(LoadError::Damaged(format!("cannot open it: {errno}")));
            }
            Err(errno) => return Err(LoadError::Failed(errno)),
        };
        let stat = calls.fstat(&file)?;
        let bytes = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
            || bytes > JOURNAL_BYTES_MAX
        {
            return Err(LoadError::Damaged(format!(
                "it is not a regular file of at most {JOURNAL_BYTES_MAX} bytes"
            )));
        }
        let input = BufReader::new(Reader { calls, file: &file });
        let mut records = Records { input, hash: 0, end: 0 };
        let Some(run) = records.next::<Run>()? else { return Ok(None) };
        if run.format_version != FORMAT_VERSION {
            let version = run.format_version;
            return Err(LoadError::Damaged(format!("its format has version {version}")));
        }
        let mut reached: Option<Checkpoint> = None;
        let mut one_archive = true;
        while let Some(next) = records.next::<Checkpoint>()? {
            one_archive &= reached.as_ref().is_none_or(|before| before.archive == next.archive);
            let mut members = reached.map(|before| before.members).unwrap_or_default();
            members.extend(next.members);
            reached = Some(Checkpoint { members, ..next });
        }
        let Records { hash, end, .. } = records;
        let Some(reached) = reached else { return Ok(None) };
        // Bytes behind the last whole record were being written when the run was interrupted.
        calls.ftruncate(&file, end).and_then(|()| seek(&file, SeekFrom::Start(end)))?;
        let appender = Appender { calls: calls.clone(), file, hash };
        let journal = Self(Progress::Begun(appender));
        Ok(Some(Loaded { run, reached, one_archive, journal }))
    }

    /// Appends a checkpoint, whose files must be durable, and waits until it is durable itself.
    ///
    /// After an error the journal must not be used any more: its end may be a cut record, which
    /// [`load`](Self::load) ignores.
    pub fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), Errno> {
        match &mut self.0 {
            Progress::Begun(appender) => appender.checkpoint(checkpoint),
            Progress::Planned { calls, directory, run } => {
                let mut appender = Appender::create(calls, directory, run)?;
                appender.checkpoint(checkpoint)?;
                self.0 = Progress::Begun(appender);
                Ok(())
            }
        }
    }
}

/// Failure to load a journal.
#[derive(Debug)]
pub enum LoadError {
    /// The journal is useless for the stated reason.
    Damaged(String),
    /// The journal could not be read.
    Failed(Errno),
}

impl From<Errno> for LoadError {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        Self::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl Appender {
    fn create(calls: &Syscalls, directory: &OwnedFd, run: &Run) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = calls.openat(directory, JOURNAL_NAME, flags, Mode::from_raw_mode(0o600))?;
        let mut appender = Self { calls: calls.clone(), file, hash: 0 };
        appender.append(run)?;
        Ok(appender)
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) -> Result<(), Errno> {
        self.append(checkpoint)?;
        self.calls.fdatasync(&self.file)
    }

    fn append(&mut self, record: &impl Serialize) -> Result<(), Errno> {
        let payload = serde_json::to_vec(record).map_err(|_| Errno::INVAL)?;
        if payload.len() > RECORD_BYTES_MAX {
            return Err(Errno::FBIG);
        }
        let length = u32::try_from(payload.len()).map_err(|_| Errno::FBIG)?;
        self.hash = XxHash3_64::oneshot_with_seed(self.hash, &payload);
        let header = [&length.to_le_bytes()[..], &self.hash.to_le_bytes()].concat();
        self.write(&header)?;
        self.write(&payload)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Errno> {
        let mut written = 0;
        while written < bytes.len() {
            written += match self.calls.write(&self.file, &bytes[written..])? {
                0 => return Err(Errno::NOSPC),
                count => count,
            };
        }
        Ok(())
    }
}

/// Removes the journal of a staging directory, if it has one.
pub(crate) fn remove_journal(calls: &Syscalls, directory: &OwnedFd) -> Result<(), Errno> {
    match calls.unlinkat(directory, JOURNAL_NAME, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Returns when the last checkpoint was recorded in the journal of a staging directory; `None` if it
/// has no journal, and so no run can resume what is in it.
pub fn journal_written(calls: &Syscalls, directory: &OwnedFd) -> Result<Option<SystemTime>, Errno> {
    match calls.lstatat(directory, JOURNAL_NAME) {
        Ok(stat) => {
            let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
            let since = u64::try_from(stat.st_mtime).unwrap_or(0);
            Ok(Some(SystemTime::UNIX_EPOCH + Duration::new(since, nanoseconds)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether this name in a staging directory is that of its journal.
pub fn is_journal(name: &CStr) -> bool {
    name == JOURNAL_NAME
}

/// Reads a file from its current offset.
struct Reader<'a> {
    calls: &'a Syscalls,
    file: &'a OwnedFd,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.calls.read(self.file, buffer)?)
    }
}

/// Reads the records of a journal.
struct Records<R> {
    input: R,
    /// Hash of the last whole record.
    hash: u64,
    /// Offset behind the last whole record.
    end: u64,
}

impl<R: Read> Records<R> {
    /// Reads the next record. Returns `None` at the end, or where writing was interrupted.
    fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LoadError> {
        let damaged = |reason: String| Err(LoadError::Damaged(reason));
        let mut header = [0; HEADER_BYTES];
        if read_up_to(&mut self.input, &mut header)? < HEADER_BYTES {
            return Ok(None);
        }
        let [l0, l1, l2, l3, hash @ ..] = header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > RECORD_BYTES_MAX {
            return damaged(format!("a record has {length} bytes, limit is {RECORD_BYTES_MAX}"));
        }
        // The buffer grows with the bytes that exist, whatever the length field claims.
        let mut payload = Vec::new();
        let input = &mut self.input;
        input.take(length as u64).read_to_end(&mut payload)?;
        if payload.len() < length {
            return Ok(None);
        }
        let found = XxHash3_64::oneshot_with_seed(self.hash, &payload);
        if found != u64::from_le_bytes(hash) {
            let mut more = [0; 1];
            return match read_up_to(input, &mut more)? {
                0 => Ok(None),
                _ => damaged(format!("the record at byte {} does not match its hash", self.end)),
            };
        }
        let record = match serde_json::from_slice(&payload) {
            Ok(record) => record,
            Err(error) => return damaged(format!("the record at byte {}: {error}", self.end)),
        };
        self.hash = found;
        self.end += (HEADER_BYTES + length) as u64;
        Ok(Some(record))
    }
}

/// Fills the buffer as far as there are bytes, and returns their number.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        path::Path,
    };

    use super::*;

    fn run() -> Run {
        Run::new("snapshot", vec![8, 9])
    }

    fn checkpoint(entries: u64) -> Checkpoint {
        let member = |index| Recorded {
            path: format!("accounts/{index}.0"),
            bytes: Some(index),
            digest: None,
        };
        let restart = Restart { compressed_offset: 10, frame: 1, raw_offset: 40 };
        let members = (entries - 2..entries).map(member).collect();
        let archive = ArchiveFile { inode: 2, bytes: 3, modified: (4, 5), changed: (6, 7) };
        let (header_offset, read) = (entries * 512, Vec::new());
        let archive = ArchiveId::File(archive);
        Checkpoint { archive, members, header_offset, entries, restart, read }
    }

    fn directory() -> (tempfile::TempDir, OwnedFd) {
        let directory = tempfile::tempdir().unwrap();
        let handle = File::open(directory.path()).unwrap().into();
        (directory, handle)
    }

    fn write(handle: &OwnedFd) -> Vec<usize> {
        let mut journal = Appender::create(&Syscalls::default(), handle, &run()).unwrap();
        let end = |journal: &Appender| {
            let stat = rustix::fs::fstat(&journal.file).unwrap();
            usize::try_from(stat.st_size).unwrap()
        };
        let mut ends = vec![end(&journal)];
        for entries in [2, 4, 6] {
            journal.checkpoint(&checkpoint(entries)).unwrap();
            ends.push(end(&journal));
        }
        ends
    }

    fn load(handle: &OwnedFd) -> Result<Option<Loaded>, LoadError> {
        Journal::load(&Syscalls::default(), handle)
    }

    fn file(directory: &Path) -> std::path::PathBuf {
        directory.join(JOURNAL_NAME.to_str().unwrap())
    }

    #[test]
    fn a_journal_is_read_and_continued() {
        let (_directory, handle) = directory();
        assert!(load(&handle).unwrap().is_none());
        write(&handle);
        let mut loaded = load(&handle).unwrap().unwrap();
        assert_eq!(loaded.run, run());
        assert_eq!((loaded.reached.entries, loaded.reached.members.len()), (6, 6));
        loaded.journal.checkpoint(&checkpoint(8)).unwrap();
        let loaded = load(&handle).unwrap().unwrap();
        assert_eq!((loaded.reached.entries, loaded.reached.members.len()), (8, 8));
        remove_journal(&Syscalls::default(), &handle).unwrap();
        remove_journal(&Syscalls::default(), &handle).unwrap();
        assert!(load(&handle).unwrap().is_none());
    }

    #[test]
    fn there_is_no_file_before_the_first_checkpoint() {
        let (directory, handle) = directory();
        let mut journal = Journal::plan(&Syscalls::default(), &handle, run()).unwrap();
        assert!(!file(directory.path()).exists());
        for entries in [2, 4] {
            journal.checkpoint(&checkpoint(entries)).unwrap();
            let loaded = load(&handle).unwrap().unwrap();
            assert_eq!((loaded.run, loaded.reached.entries), (run(), entries));
        }
    }

    #[test]
    fn a_cut_journal_yields_the_checkpoints_before_the_cut() {
        let (directory, handle) = directory();
        let ends = write(&handle);
        let whole = fs::read(file(directory.path())).unwrap();
        for length in 0..whole.len() {
            fs::write(file(directory.path()), &whole[..length]).unwrap();
            let reached = load(&handle).unwrap().map(|loaded| loaded.reached.entries);
            let complete = ends.iter().filter(|end| **end <= length).count();
            let expected = [None, None, Some(2), Some(4), Some(6)][complete];
            assert_eq!(reached, expected, "cut at {length}");
        }
    }

    #[test]
    fn a_damaged_journal_never_yields_other_content() {
        let (directory, handle) = directory();
        let ends = write(&handle);
        let whole = fs::read(file(directory.path())).unwrap();
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 1 << (position % 8);
            fs::write(file(directory.path()), &damaged).unwrap();
            // The damage looks like a record that was being written, or one that ends behind the
            // end.
            if let Ok(Some(loaded)) = load(&handle) {
                let before = ends.iter().filter(|end| **end <= position).count();
                assert!(before >= 2, "damage at {position} was not seen");
                let entries = [2, 4, 6][before - 2];
                assert!(loaded.reached.entries <= entries, "damage at {position}");
                let expected: Vec<_> = (0..loaded.reached.entries).map(Some).collect();
                let members = loaded.reached.members.iter();
                assert_eq!(members.map(|member| member.bytes).collect::<Vec<_>>(), expected);
            }
        }
    }
}
