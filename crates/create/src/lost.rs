//! Files that a failed pool has not completed.

use std::sync::{Mutex, PoisonError};

use unsnap_ring::RelativePath;

use crate::request::{Command, FileId, Request};

/// A file that is not complete and never will be. It may exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostFile {
    /// Its number.
    pub file: FileId,
    /// Index of its destination.
    pub destination: usize,
    /// Path relative to the destination.
    pub path: String,
}

/// The files that were handed over and will not be complete. Every other file is complete once the
/// creators have ended. Their number is bounded by the queues.
#[derive(Debug, Default)]
pub(crate) struct Lost(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    files: Vec<LostFile>,
    /// A creator died, so files may be missing from the list.
    incomplete: bool,
}

impl Lost {
    /// Adds a file.
    pub fn add(&self, file: FileId, destination: usize, path: &RelativePath) {
        let path = path.to_string();
        self.with(|list| list.files.push(LostFile { file, destination, path }));
    }

    /// Drops a command, and adds its file. The first command for a file is enough: if it was carried
    /// out, the file is among those of its creator.
    pub fn drop_request(&self, Request { destination, file, command }: Request) {
        if let Command::Whole { new, .. } | Command::Begin { new } = command {
            self.add(file, destination, &new.path);
        }
    }

    /// Records that a creator died.
    pub fn creator_died(&self) {
        self.with(|list| list.incomplete = true);
    }

    /// Takes the list. Returns `None` if it is incomplete.
    pub fn take(&self) -> Option<Vec<LostFile>> {
        self.with(|list| (!list.incomplete).then(|| std::mem::take(&mut list.files)))
    }

    fn with<T>(&self, work: impl FnOnce(&mut List) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
