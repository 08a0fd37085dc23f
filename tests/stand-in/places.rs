//! The directories of a validator, and the lock on its ledger.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use crate::Failure;

/// `--use-snapshot-archives-at-startup`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArchiveUse {
    #[default]
    WhenNewest,
    Always,
    Never,
}

/// The directories, as on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub ledger: PathBuf,
    pub snapshots: PathBuf,
    pub full_archives: PathBuf,
    pub incremental_archives: PathBuf,
    pub accounts: Vec<PathBuf>,
    pub archive_use: ArchiveUse,
}

impl Places {
    /// Takes what it knows from a command line, and ignores the rest.
    pub fn of(arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut arguments = arguments.peekable();
        let (mut ledger, mut snapshots, mut full, mut incremental) = (None, None, None, None);
        let (mut accounts, mut archive_use) = (Vec::new(), ArchiveUse::default());
        while let Some(word) = arguments.next() {
            let bytes = word.as_bytes();
            let (flag, attached) = match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
                None => (bytes, None),
            };
            let mut value = || attached.clone().or_else(|| arguments.next());
            match flag {
                b"--ledger" | b"-l" => ledger = value().map(PathBuf::from),
                b"--snapshots" => snapshots = value().map(PathBuf::from),
                b"--full-snapshot-archive-path" => full = value().map(PathBuf::from),
                b"--incremental-snapshot-archive-path" => incremental = value().map(PathBuf::from),
                b"--accounts" => {
                    let list = value().unwrap_or_default();
                    let paths = list.as_bytes().split(|byte| *byte == b',');
                    accounts.extend(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))));
                }
                b"--use-snapshot-archives-at-startup" => {
                    archive_use = match value().as_deref().map(OsStr::as_bytes) {
                        Some(b"when-newest") => ArchiveUse::WhenNewest,
                        Some(b"always") => ArchiveUse::Always,
                        Some(b"never") => ArchiveUse::Never,
                        other => return Err(format!("not a use of archives: {other:?}")),
                    };
                }
                _ => {}
            }
        }
        let ledger = ledger.unwrap_or_else(|| PathBuf::from("ledger"));
        let snapshots = snapshots.unwrap_or_else(|| ledger.clone());
        if accounts.is_empty() {
            accounts.push(ledger.join("accounts"));
        }
        Ok(Self {
            full_archives: full.unwrap_or_else(|| snapshots.clone()),
            incremental_archives: incremental.unwrap_or_else(|| snapshots.clone()),
            ledger,
            snapshots,
            accounts,
            archive_use,
        })
    }

    /// Locks the ledger, as long as the file is open.
    pub fn lock(&self) -> Result<File, Failure> {
        fs::create_dir_all(&self.ledger)?;
        let path = self.ledger.join("ledger.lock");
        let file = File::options().write(true).create(true).truncate(false).open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| {
            let path = path.display();
            Failure::Refused(format!("cannot lock {path}, is another validator running? {errno}"))
        })?;
        Ok(file)
    }

    /// Makes missing directories. An accounts path that lacks one of its two is taken for one of a
    /// release before them, and loses everything. What an interrupted run has left is removed.
    pub fn make(&self) -> io::Result<()> {
        for path in [&self.states(), &self.full_archives, &self.incremental_archives] {
            fs::create_dir_all(path)?;
        }
        for path in &self.accounts {
            if !is_current(path) {
                let _ = fs::remove_dir_all(path);
                fs::create_dir_all(path.join("run"))?;
                fs::create_dir_all(path.join("snapshot"))?;
            }
        }
        for directory in [&self.full_archives, &self.incremental_archives, &self.states()] {
            for name in names(directory)? {
                let path = directory.join(&name);
                if name.starts_with(TEMPORARY) && fs::remove_file(&path).is_err() {
                    fs::remove_dir_all(&path)?;
                }
            }
        }
        Ok(())
    }

    /// The directory of states.
    pub fn states(&self) -> PathBuf {
        self.snapshots.join("snapshots")
    }

    /// The directory of a state.
    pub fn state(&self, slot: u64) -> PathBuf {
        self.states().join(slot.to_string())
    }

    /// The directories of storages that would be there after [`make`](Self::make) and hold something.
    pub fn run_directories(&self) -> impl Iterator<Item = PathBuf> {
        self.accounts.iter().filter(|path| is_current(path)).map(|path| path.join("run"))
    }
}

/// How the names of unfinished things begin.
pub const TEMPORARY: &str = "tmp-snapshot-archive-";

fn is_current(accounts: &Path) -> bool {
    ["run", "snapshot"].iter().all(|name| accounts.join(name).is_dir())
}

/// Returns the names in a directory that are text; nothing of a directory that is not there.
pub fn names(directory: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries
            .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
