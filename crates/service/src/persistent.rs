//! What is remembered across restarts, whatever ends the process: one JSON file, replaced atomically.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use unsnap_unpack::FileIdentity;

/// The file in the state directory.
const FILE_NAME: &str = "unpackd.json";

/// What it is called while it is written.
const NEW_NAME: &str = "unpackd.json.new";

/// What a file is renamed to that cannot be read.
const DAMAGED_NAME: &str = "unpackd.json.damaged";

/// Of the file's form. A later one is set aside like a damaged one.
const VERSION: u32 = 1;

/// Bad archives that are remembered, at most; the oldest are forgotten. Told in status as well, whose
/// length is bounded.
const BAD_MAX: usize = 1000;

/// Results that are remembered, at most.
const MADE_MAX: usize = 4096;

/// What is wrong with an archive, in bytes of UTF-8, at most. A guess.
const REASON_BYTES_MAX: usize = 500;

/// The state directory, which one service has at a time: two that shared it would forget what the
/// other had learned, and work on the same targets.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    /// Open, and locked until it is dropped, or the process has ended in whatever way.
    directory: File,
}

impl StateDirectory {
    /// Takes it, and makes it if need be. An error if somebody else has it.
    pub fn take(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let directory = File::open(path)?;
        match directory.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), directory }),
            Err(TryLockError::WouldBlock) => {
                let message = format!("another unpackd has {}", path.display());
                Err(io::Error::new(io::ErrorKind::AddrInUse, message))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    version: u32,
    /// The number of the next job, so that no two have the same.
    pub next_job: u64,
    /// Whether somebody has paused the service.
    pub paused: bool,
    /// Archives that have proved bad.
    pub bad: Vec<Bad>,
    /// What was made, for what the directories do not tell.
    pub made: Vec<Made>,
}

/// An archive that has proved bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bad {
    /// Where it is.
    pub path: PathBuf,
    /// Its length in bytes, its time in nanoseconds since 1970 (as text: JSON's numbers end before),
    /// its number.
    bytes: u64,
    modified_ns: String,
    inode: u64,
    /// What is wrong with it.
    pub reason: String,
    /// When that was found.
    pub seen_unix_ms: u64,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Where it is.
    pub path: PathBuf,
    /// When it was complete and durable.
    pub finished_unix_ms: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its files.
    pub files: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self { version: VERSION, next_job: 1, paused: false, bad: Vec::new(), made: Vec::new() }
    }
}

impl Bad {
    /// The file that is bad.
    pub fn file(&self) -> FileIdentity {
        let modified_ns = self.modified_ns.parse().unwrap_or(0);
        FileIdentity { bytes: self.bytes, modified_ns, inode: self.inode }
    }
}

impl Memory {
    /// Reads what is in the state directory. A file that cannot be made sense of is set aside, and
    /// nothing is remembered then.
    pub fn load(directory: &StateDirectory) -> io::Result<Self> {
        let path = directory.path.join(FILE_NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let reason = match serde_json::from_slice::<Self>(&bytes) {
            Ok(memory) if memory.version == VERSION => return Ok(memory),
            Ok(memory) => format!("its form {} is not known", memory.version),
            Err(error) => error.to_string(),
        };
        let aside = directory.path.join(DAMAGED_NAME);
        tracing::warn!(
            path = %path.display(), aside = %aside.display(), reason,
            "what was remembered cannot be read, is set aside, and begun anew"
        );
        fs::rename(&path, &aside)?;
        Ok(Self::default())
    }

    /// Replaces what is in the state directory, durably.
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

    /// Whether that file has proved bad.
    pub fn is_bad(&self, path: &Path, file: FileIdentity) -> bool {
        self.bad.iter().any(|bad| bad.path == path && bad.file() == file)
    }

    /// Remembers a bad archive, in place of what was known of another file of that name.
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

    /// Forgets bad archives that are gone, or have become others.
    pub fn forget_gone(&mut self, is_there: impl Fn(&Path, FileIdentity) -> bool) -> bool {
        let before = self.bad.len();
        self.bad.retain(|bad| is_there(&bad.path, bad.file()));
        self.bad.len() < before
    }

    /// Remembers what was made.
    pub fn add_made(&mut self, made: Made) {
        self.made.retain(|known| known.path != made.path);
        self.made.push(made);
        let excess = self.made.len().saturating_sub(MADE_MAX);
        self.made.drain(..excess);
    }

    /// What is remembered of a result.
    pub fn made(&self, path: &Path) -> Option<&Made> {
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
        let mut memory = Memory::load(&directory).unwrap();
        assert_eq!(memory, Memory::default());
        memory.add_bad(Path::new("/a"), FILE, "cut", 5);
        memory.add_made(Made { path: "/m".into(), finished_unix_ms: 1, bytes: 2, files: 3 });
        (memory.next_job, memory.paused) = (77, true);
        memory.save(&directory).unwrap();
        let loaded = Memory::load(&directory).unwrap();
        assert_eq!(loaded, memory);
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
            assert_eq!(Memory::load(&directory).unwrap(), Memory::default(), "{text}");
            let aside = fs::read_to_string(scratch.path().join(DAMAGED_NAME)).unwrap();
            assert_eq!(aside, text);
        }
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut memory = Memory::default();
        let reason = "ä".repeat(REASON_BYTES_MAX);
        for number in 0..=BAD_MAX {
            memory.add_bad(Path::new(&format!("/{number}")), FILE, &reason, 0);
        }
        assert_eq!(memory.bad.len(), BAD_MAX);
        assert!(!memory.is_bad(Path::new("/0"), FILE), "the oldest goes first");
        assert!(memory.bad[0].reason.len() <= REASON_BYTES_MAX);
        assert!(memory.forget_gone(|path, _| path == Path::new("/7")));
        assert_eq!(memory.bad.len(), 1);
    }
}
