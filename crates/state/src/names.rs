//! Names of a snapshot's files in a validator's state.

use std::fmt::Write;

use unsnap_layout::{Placement, Role};

use crate::format::{self as fastboot, Storage};

/// Distance between the ids of an archive's storages: those of a full archive are even, those of an
/// incremental one odd. So a storage of the full archive has the same name with and without an
/// incremental archive.
const ID_STEP: u32 = 2;

/// A storage of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageFile {
    slot: u64,
    id: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Index of the destination; the first accounts path is 1.
    pub destination: usize,
}

impl StorageFile {
    /// Returns a storage of so many bytes in a destination; the first accounts path is 1.
    pub fn new(storage: Storage, bytes: u64, destination: usize) -> Self {
        let Storage { slot, id } = storage;
        Self { slot, id, bytes, destination }
    }

    /// Returns slot and id.
    pub fn storage(&self) -> Storage {
        Storage { slot: self.slot, id: self.id }
    }
}

/// Names of an archive's files in a validator's state. Equal files in equal order get equal names.
#[derive(Clone, Debug)]
pub struct StateNames {
    /// Whether the state takes the bank file, the status cache and the version from this archive.
    newest: bool,
    /// Next id. Ids are unique over all archives of a state.
    next_id: u32,
    /// Buffer for the name of a file.
    name: String,
}

impl StateNames {
    /// Creates the names for the archive with this index, out of `archives`.
    pub fn new(index: usize, archives: usize) -> Self {
        let next_id = u32::try_from(index).unwrap_or(u32::MAX);
        Self { newest: index + 1 == archives, next_id, name: String::new() }
    }

    /// Creates the names for an incremental archive whose full archive is not unpacked: its
    /// storages are there already, with ids below `next_id`.
    pub fn upon(next_id: u32) -> Self {
        Self { next_id, ..Self::new(0, 1) }
    }

    /// Returns the name of the next file, with slot and id if it is a storage; `None` if the state
    /// does not contain it.
    pub fn name(&mut self, placement: &Placement<'_>) -> Option<(Option<Storage>, &str)> {
        let Placement::File { role, .. } = placement else { return None };
        let newest = |name| self.newest.then_some((None, name));
        match role {
            Role::Version => newest(fastboot::VERSION),
            Role::StatusCache => newest(fastboot::STATUS_CACHE),
            Role::BankFile { slot } => {
                self.name = fastboot::bank_file(*slot);
                self.newest.then_some((None, &*self.name))
            }
            Role::Storage { slot, .. } => {
                // Cannot overflow: archives have at most 5 million entries. Validators use no more
                // than half of the range of ids.
                let storage = Storage { slot: *slot, id: self.next_id };
                self.next_id = storage.id.saturating_add(ID_STEP);
                self.name.clear();
                // Writing to a string does not fail.
                let _ = write!(self.name, "{storage}");
                Some((Some(storage), &self.name))
            }
            Role::Other => None,
        }
    }
}
