//! State that survives restarts and crashes: one JSON file, replaced atomically.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use unsnap_fastboot::FileIdentity;

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
}

impl Default for PersistentState {
    fn default() -> Self {
        Self { version: VERSION, next_job: 1, paused: false, bad: Vec::new(), made: Vec::new() }
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
        });
        (state.next_job, state.paused) = (77, true);
        state.save(&directory).unwrap();
        let loaded = PersistentState::load(&directory).unwrap();
        assert_eq!(loaded, state);
        assert!(loaded.is_bad(Path::new("/a"), FILE));
        assert!(!loaded.is_bad(Path::new("/b"), FILE));
        assert!(!loaded.is_bad(Path::new("/a"), FileIdentity { bytes: 4, ..FILE }));
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
