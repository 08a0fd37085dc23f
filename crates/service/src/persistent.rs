//! State that survives restarts and crashes: one JSON file, replaced atomically.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use unsnap_fastboot::FileIdentity;
use unsnap_layout::{ArchiveHash, ArchiveName};

use crate::plan::DAY_S;

/// Name of the file in the state directory.
const FILE_NAME: &str = "unpackd.json";

/// Name of the file while it is written.
const NEW_NAME: &str = "unpackd.json.new";

/// Name to which an unreadable file is renamed.
const DAMAGED_NAME: &str = "unpackd.json.damaged";

/// Version of the file's format. A file of a later version is set aside like a damaged one.
const VERSION: u32 = 1;

/// Most bad archives kept; the oldest are dropped. The status lists them as well, and its length is
/// bounded.
const BAD_MAX: usize = 1000;

/// Most results kept.
const MADE_MAX: usize = 4096;

/// Most targets whose history is kept; the oldest are dropped. Four times as many as a configuration
/// may have.
const TARGETS_MAX: usize = 64;

/// Most bytes of UTF-8 kept of the reason why an archive is bad. A guess.
const REASON_BYTES_MAX: usize = 500;

/// The state directory, which one service locks at a time: two services that shared it would
/// overwrite each other's state and work on the same targets.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    /// Descriptor that holds the lock until it is dropped or the process ends.
    directory: File,
}

impl StateDirectory {
    /// Locks the directory, and creates it if it does not exist. Fails with `AddrInUse` if another
    /// process holds the lock.
    pub fn take(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let directory = File::open(path)?;
        match directory.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), directory }),
            Err(TryLockError::WouldBlock) => {
                let message = format!("another unpackd uses {}", path.display());
                Err(io::Error::new(io::ErrorKind::AddrInUse, message))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The persistent state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersistentState {
    version: u32,
    /// Number of the next job; numbers are never reused.
    pub next_job: u64,
    /// Whether the service is paused.
    pub paused: bool,
    /// Archives found to be bad.
    pub bad: Vec<Bad>,
    /// Published results, with the details that their directories do not show.
    pub made: Vec<PublishedResult>,
    /// History of the targets.
    #[serde(default)]
    pub targets: Vec<TargetHistory>,
}

/// History of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetHistory {
    /// Name of the target.
    name: String,
    /// Time of the last successful job: milliseconds since 1970.
    pub last_success_unix_ms: Option<u64>,
    /// Duration of that job in milliseconds.
    pub last_duration_ms: Option<u64>,
    /// Day on which bytes were last written: days since 1970, UTC.
    day: u64,
    /// Bytes written on that day, by all jobs that ended on it, whatever became of them.
    written_bytes: u64,
}

impl TargetHistory {
    /// Counts bytes that a job has written.
    pub fn count_written(&mut self, bytes: u64, unix_s: u64) {
        self.written_bytes = self.written_bytes(unix_s).saturating_add(bytes);
        self.day = unix_s / DAY_S;
    }

    /// Returns the bytes written on the day of this time, in seconds since 1970.
    pub fn written_bytes(&self, unix_s: u64) -> u64 {
        if self.day == unix_s / DAY_S { self.written_bytes } else { 0 }
    }
}

/// A bad archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bad {
    /// Path of the archive.
    pub path: PathBuf,
    /// Length of the file in bytes.
    bytes: u64,
    /// Modification time in nanoseconds since 1970, as text: it exceeds the range of JSON numbers.
    modified_ns: String,
    /// Inode number.
    inode: u64,
    /// The defect.
    pub reason: String,
    /// Time at which the defect was found.
    pub seen_unix_ms: u64,
}

/// A published result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedResult {
    /// Directory of the result.
    pub path: PathBuf,
    /// Time at which it was complete and durable.
    pub finished_unix_ms: u64,
    /// Total size of its files in bytes.
    pub bytes: u64,
    /// Number of its files.
    pub files: u64,
    /// File name of the archive that it was made from; the newest one of a state made from two.
    #[serde(default)]
    pub archive: Option<String>,
    /// Whether a client submitted the archive.
    #[serde(default)]
    pub submitted: bool,
}

impl PublishedResult {
    /// Returns the hash in the archive's name, if that is known.
    pub fn hash(&self) -> Option<ArchiveHash> {
        let name = ArchiveName::parse(self.archive.as_deref()?).ok()?;
        Some(name.hash())
    }
}

impl Default for PersistentState {
    fn default() -> Self {
        Self {
            version: VERSION,
            next_job: 1,
            paused: false,
            bad: Vec::new(),
            made: Vec::new(),
            targets: Vec::new(),
        }
    }
}

impl Bad {
    /// Returns the identity of the bad file.
    pub fn file(&self) -> FileIdentity {
        let modified_ns = self.modified_ns.parse().unwrap_or(0);
        FileIdentity { bytes: self.bytes, modified_ns, inode: self.inode }
    }
}

impl PersistentState {
    /// Reads the file in the state directory. An unreadable file is renamed, and the state starts
    /// empty.
    pub fn load(directory: &StateDirectory) -> io::Result<Self> {
        let path = directory.path.join(FILE_NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let reason = match serde_json::from_slice::<Self>(&bytes) {
            Ok(state) if state.version == VERSION => return Ok(state),
            Ok(state) => format!("unknown format version {}", state.version),
            Err(error) => error.to_string(),
        };
        let aside = directory.path.join(DAMAGED_NAME);
        tracing::warn!(
            path = %path.display(), aside = %aside.display(), reason,
            "cannot read the saved state; it is renamed, and the state starts empty"
        );
        fs::rename(&path, &aside)?;
        Ok(Self::default())
    }

    /// Replaces the file in the state directory, durably.
    pub fn save(&self, directory: &StateDirectory) -> io::Result<()> {
        let new = directory.path.join(NEW_NAME);
        let mut file = File::create(&new)?;
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        file.write_all(&json)?;
        file.sync_all()?;
        fs::rename(&new, directory.path.join(FILE_NAME))?;
        directory.directory.sync_all()
    }

    /// Returns whether a file is known to be bad.
    pub fn is_bad(&self, path: &Path, file: FileIdentity) -> bool {
        self.bad.iter().any(|bad| bad.path == path && bad.file() == file)
    }

    /// Adds a bad archive. It replaces an entry of the same path.
    pub fn add_bad(&mut self, path: &Path, file: FileIdentity, reason: &str, seen_unix_ms: u64) {
        self.bad.retain(|bad| bad.path != path);
        let end = reason.floor_char_boundary(REASON_BYTES_MAX);
        self.bad.push(Bad {
            path: path.to_owned(),
            bytes: file.bytes,
            modified_ns: file.modified_ns.to_string(),
            inode: file.inode,
            reason: reason[..end].to_owned(),
            seen_unix_ms,
        });
        let excess = self.bad.len().saturating_sub(BAD_MAX);
        self.bad.drain(..excess);
    }

    /// Drops bad archives whose files are gone or have changed. Returns whether there were any.
    pub fn forget_gone(&mut self, is_there: impl Fn(&Path, FileIdentity) -> bool) -> bool {
        let before = self.bad.len();
        self.bad.retain(|bad| is_there(&bad.path, bad.file()));
        self.bad.len() < before
    }

    /// Adds a result. It replaces an entry of the same path.
    pub fn add_made(&mut self, made: PublishedResult) {
        self.made.retain(|known| known.path != made.path);
        self.made.push(made);
        let excess = self.made.len().saturating_sub(MADE_MAX);
        self.made.drain(..excess);
    }

    /// Returns the details of a result.
    pub fn made(&self, path: &Path) -> Option<&PublishedResult> {
        self.made.iter().find(|made| made.path == path)
    }

    /// Gives a result the path to which it was moved.
    pub fn move_made(&mut self, from: &Path, to: &Path) {
        if let Some(made) = self.made(from).cloned() {
            self.made.retain(|known| known.path != from);
            self.add_made(PublishedResult { path: to.to_owned(), ..made });
        }
    }

    /// Returns the history of a target.
    pub fn history(&self, target: &str) -> Option<&TargetHistory> {
        self.targets.iter().find(|history| history.name == target)
    }

    /// Returns the history of a target, to be changed. A new one is added.
    pub fn history_mut(&mut self, target: &str) -> &mut TargetHistory {
        let index = self.targets.iter().position(|history| history.name == target);
        let index = index.unwrap_or_else(|| {
            if self.targets.len() == TARGETS_MAX {
                self.targets.remove(0);
            }
            self.targets.push(TargetHistory { name: target.to_owned(), ..Default::default() });
            self.targets.len() - 1
        });
        &mut self.targets[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARCHIVE: &str = "snapshot-5-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";

    const FILE: FileIdentity = FileIdentity { bytes: 3, modified_ns: i128::MAX, inode: 9 };

    #[test]
    fn what_is_saved_is_loaded() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = StateDirectory::take(&scratch.path().join("state")).unwrap();
        let mut state = PersistentState::load(&directory).unwrap();
        assert_eq!(state, PersistentState::default());
        state.add_bad(Path::new("/a"), FILE, "cut", 5);
        state.add_made(PublishedResult {
            path: "/m".into(),
            finished_unix_ms: 1,
            bytes: 2,
            files: 3,
            archive: Some(ARCHIVE.to_owned()),
            submitted: true,
        });
        state.history_mut("t").last_success_unix_ms = Some(5);
        (state.next_job, state.paused) = (77, true);
        state.save(&directory).unwrap();
        let loaded = PersistentState::load(&directory).unwrap();
        assert_eq!(loaded, state);
        assert!(loaded.is_bad(Path::new("/a"), FILE));
        assert!(!loaded.is_bad(Path::new("/b"), FILE));
        assert!(!loaded.is_bad(Path::new("/a"), FileIdentity { bytes: 4, ..FILE }));
    }

    #[test]
    fn a_state_saved_by_an_earlier_version_is_loaded() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = StateDirectory::take(scratch.path()).unwrap();
        let text = r#"{"version": 1, "next_job": 7, "paused": true, "bad": [],
            "made": [{"path": "/m", "finished_unix_ms": 1, "bytes": 2, "files": 3}]}"#;
        fs::write(scratch.path().join(FILE_NAME), text).unwrap();
        let state = PersistentState::load(&directory).unwrap();
        assert_eq!((state.next_job, state.paused), (7, true));
        let made = state.made(Path::new("/m")).unwrap();
        assert_eq!((made.bytes, made.hash(), made.submitted), (2, None, false));
    }

    #[test]
    fn bytes_count_for_the_day_on_which_they_were_written() {
        let mut state = PersistentState::default();
        assert!(state.history("t").is_none());
        let noon = 20_000 * DAY_S + DAY_S / 2;
        state.history_mut("t").count_written(3, noon);
        state.history_mut("t").count_written(4, noon + 1);
        state.history_mut("u").count_written(9, noon);
        let history = state.history("t").unwrap();
        assert_eq!(history.written_bytes(noon + DAY_S / 2 - 1), 7);
        assert_eq!(history.written_bytes(noon + DAY_S / 2), 0, "the next day");
        for number in 0..TARGETS_MAX {
            state.history_mut(&number.to_string());
        }
        assert_eq!(state.targets.len(), TARGETS_MAX);
    }

    #[test]
    fn a_result_that_moves_keeps_its_details() {
        let mut state = PersistentState::default();
        let archive = Some(ARCHIVE.to_owned());
        let (finished_unix_ms, bytes, files) = (1, 2, 3);
        let path = PathBuf::from("/ready");
        let submitted = false;
        state.add_made(PublishedResult {
            path,
            finished_unix_ms,
            bytes,
            files,
            archive,
            submitted,
        });
        state.move_made(Path::new("/ready"), Path::new("/ledger"));
        assert!(state.made(Path::new("/ready")).is_none());
        let made = state.made(Path::new("/ledger")).unwrap();
        assert_eq!(made.bytes, 2);
        assert_eq!(made.hash(), Some(ArchiveName::parse(ARCHIVE).unwrap().hash()));
        state.move_made(Path::new("/none"), Path::new("/ledger"));
        assert!(state.made(Path::new("/ledger")).is_some());
    }

    #[test]
    fn one_has_the_directory_at_a_time() {
        let scratch = tempfile::tempdir().unwrap();
        let one = StateDirectory::take(scratch.path()).unwrap();
        let error = StateDirectory::take(scratch.path()).unwrap_err();
        assert!(error.to_string().contains("another unpackd"), "{error}");
        drop(one);
        StateDirectory::take(scratch.path()).unwrap();
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_begun_anew() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = StateDirectory::take(scratch.path()).unwrap();
        for text in ["", "{", "[]", "{\"version\":2}", "\0\0\0\0"] {
            fs::write(scratch.path().join(FILE_NAME), text).unwrap();
            assert_eq!(
                PersistentState::load(&directory).unwrap(),
                PersistentState::default(),
                "{text}"
            );
            let aside = fs::read_to_string(scratch.path().join(DAMAGED_NAME)).unwrap();
            assert_eq!(aside, text);
        }
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut state = PersistentState::default();
        let reason = "ä".repeat(REASON_BYTES_MAX);
        for number in 0..=BAD_MAX {
            state.add_bad(Path::new(&format!("/{number}")), FILE, &reason, 0);
        }
        assert_eq!(state.bad.len(), BAD_MAX);
        assert!(!state.is_bad(Path::new("/0"), FILE), "the oldest goes first");
        assert!(state.bad[0].reason.len() <= REASON_BYTES_MAX);
        assert!(state.forget_gone(|path, _| path == Path::new("/7")));
        assert_eq!(state.bad.len(), 1);
    }
}
