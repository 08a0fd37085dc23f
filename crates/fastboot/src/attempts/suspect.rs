//! States that have ended validators, and the archives that they were made from.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{FileIdentity, Pair};

/// A state, as far as it can be told from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateName {
    /// Slot of the state.
    pub slot: u64,
    /// Hash in the name of the archive that it was made from, if that is known.
    #[serde(default)]
    pub hash: Option<String>,
}

impl StateName {
    /// Returns the name of the state that is made from a pair of archives.
    pub fn of(pair: &Pair) -> Self {
        let newest = pair.incremental().unwrap_or(pair.full());
        Self { slot: pair.slot(), hash: Some(newest.name.hash().to_string()) }
    }

    /// Returns the name of the state of a slot. The hash is known if one of these pairs is of that
    /// slot.
    pub fn of_slot(slot: u64, mut pairs: impl Iterator<Item = Pair>) -> Self {
        let pair = pairs.find(|pair| pair.slot() == slot);
        pair.map_or(Self { slot, hash: None }, |pair| Self::of(&pair))
    }

    /// Returns whether both may be the same state.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        let hashes = self.hash.as_ref().zip(other.hash.as_ref());
        self.slot == other.slot && hashes.is_none_or(|(one, other)| one == other)
    }
}

/// A state that is not to be served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Suspect {
    pub state: StateName,
    /// The archives that it was made from; empty if they were gone.
    #[serde(default)]
    pub archives: Vec<SuspectArchive>,
    /// Whether it was withdrawn. From then on another state of the same slot is another one, unless it
    /// is made from the same archives.
    #[serde(default)]
    pub withdrawn: bool,
    /// Whether the archives were checked.
    #[serde(default)]
    pub checked: bool,
}

impl Suspect {
    /// Returns whether a state that exists now may be this one.
    pub(super) fn may_exist(&self) -> bool {
        let is_there =
            |archive: &SuspectArchive| SuspectArchive::of(&archive.path).as_ref() == Some(archive);
        let has_archives = !self.archives.is_empty() && self.archives.iter().all(is_there);
        has_archives || !self.withdrawn
    }

    /// Returns whether it was made from these archives.
    pub(super) fn was_made_from(&self, archives: &[SuspectArchive]) -> bool {
        let mut pairs = self.archives.iter().zip(archives);
        self.archives.len() == archives.len() && pairs.all(|(one, other)| one.is_same(other))
    }
}

/// The file of an archive, to tell it from a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuspectArchive {
    path: PathBuf,
    bytes: u64,
    modified_ns: i128,
    inode: u64,
}

impl SuspectArchive {
    pub(super) fn of(path: &Path) -> Option<Self> {
        Some(Self::new(path, FileIdentity::of(path).ok()?))
    }

    pub(super) fn new(path: &Path, file: FileIdentity) -> Self {
        let FileIdentity { bytes, modified_ns, inode } = file;
        Self { path: path.to_owned(), bytes, modified_ns, inode }
    }

    /// Returns whether both are the same file. Another process may know its directory under another
    /// path.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let identity = |it: &Self| (it.bytes, it.modified_ns, it.inode);
        self.path.file_name() == other.path.file_name() && identity(self) == identity(other)
    }
}

/// Returns the archives of a pair; `None` if one of them is gone.
pub(super) fn suspect_archives(pair: &Pair) -> Option<Vec<SuspectArchive>> {
    pair.archives().map(|archive| SuspectArchive::of(&archive.path)).collect()
}
