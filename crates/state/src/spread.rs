//! Where the files of a snapshot go when it becomes a validator's state.

use std::{
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;
use unsnap_create::Assembler;
use unsnap_fit::{FileSystem, FitError};
use unsnap_layout::{Placement, Role};

use crate::format::{self as fastboot, Storage};

/// What an accounts path was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountsPathReport {
    /// The path.
    pub path: String,
    /// Storages.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// A storage of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageFile {
    slot: u64,
    id: u32,
    pub bytes: u64,
    /// Index of its destination: the first accounts path is 1.
    pub destination: usize,
}

impl StorageFile {
    pub fn storage(&self) -> Storage {
        Storage { slot: self.slot, id: self.id }
    }
}

/// Where the files of a snapshot go that becomes a validator's state: see [`format`](crate::format).
#[derive(Debug)]
pub struct StatePlaces {
    /// Whether bank file, status cache and version of this archive are those of the state.
    newest: bool,
    /// Ids that are unique over both archives: this one's next, and how far they are apart.
    next_id: u32,
    id_step: u32,
    spread: Arc<AccountsSpread>,
    name: String,
    pub storages: Vec<StorageFile>,
}

impl StatePlaces {
    /// `index`: which of how many archives.
    pub fn new(index: usize, archives: usize, spread: Arc<AccountsSpread>) -> Self {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Self {
            newest: index + 1 == archives,
            next_id: number(index),
            id_step: number(archives),
            spread,
            name: String::new(),
            storages: Vec::new(),
        }
    }

    /// Index of the destination of a file, and its path there; `None` if it is not created.
    pub fn place(
        &mut self,
        placement: &Placement<'_>,
        size: u64,
        files: &Assembler,
    ) -> Result<Option<(usize, &str)>, FitError> {
        let Placement::File { role, .. } = placement else { return Ok(None) };
        let newest = |name| Ok(self.newest.then_some((0, name)));
        match role {
            Role::Version => newest(fastboot::VERSION),
            Role::StatusCache => newest(fastboot::STATUS_CACHE),
            Role::BankFile { slot } => {
                self.name = fastboot::bank_file(*slot);
                Ok(self.newest.then_some((0, &self.name)))
            }
            Role::Storage { slot, .. } => {
                // Half of what an id can be, in the validator too; archives have 5 million entries.
                let id = self.next_id;
                self.next_id = id.saturating_add(self.id_step);
                let destination = self.spread.choose(size, files)?;
                self.storages.push(StorageFile { slot: *slot, id, bytes: size, destination });
                self.name.clear();
                // A string takes everything.
                let _ = write!(self.name, "{slot}.{id}");
                Ok(Some((destination, &self.name)))
            }
            Role::Other => Ok(None),
        }
    }
}

/// How storages are spread over the accounts paths: by free space, and by how fast each drains.
#[derive(Debug)]
pub struct AccountsSpread {
    paths: Mutex<Vec<AccountsPath>>,
}

#[derive(Debug)]
struct AccountsPath {
    system: FileSystem,
    /// What messages call it.
    path: String,
    files: u64,
    bytes: u64,
}

/// In flight to a device by which it counts as slower than another. As much as a few large files
/// have; a guess.
const QUEUE_BYTES: u64 = 16 << 20;

/// Free space of a path below which it gets no more, as long as another has some: what is in flight
/// and what is rounded up must find room. A guess.
const FULL_BYTES: u64 = 256 << 20;

/// Free space of a path below which it gets nothing, as long as another has more: what a file system
/// adds to its files. A guess.
const LAST_BYTES: u64 = 1 << 20;

impl AccountsSpread {
    /// `paths`: an open directory of each, and what messages call it.
    pub fn new(paths: impl Iterator<Item = (FileSystem, String)>) -> Self {
        let path = |(system, path)| AccountsPath { system, path, files: 0, bytes: 0 };
        Self { paths: Mutex::new(paths.map(path).collect()) }
    }

    /// The destination of a storage of `size` bytes: the path to whose device the least is in
    /// flight, and among equals the one that is filled least in proportion to its space. One that is
    /// full gets nothing while there is another.
    fn choose(&self, size: u64, files: &Assembler) -> Result<usize, FitError> {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let mut best: Option<((u8, u64, u64), usize)> = None;
        if paths.len() > 1 {
            for (index, path) in paths.iter().enumerate() {
                let in_flight = files.in_flight_to_device_of(index + 1);
                let free = path.system.free()?.bytes.unwrap_or(u64::MAX / 2);
                let room = free.saturating_sub(in_flight);
                let after = room.checked_sub(size.saturating_add(size / 64));
                let full = match after {
                    Some(after) if after >= FULL_BYTES => 0,
                    Some(after) if after >= LAST_BYTES => 1,
                    _ => 2,
                };
                // Where space is short, it is what counts.
                let queue = if full == 0 { in_flight / QUEUE_BYTES } else { 0 };
                let filled = u128::from(path.bytes + size) * u128::from(u32::MAX)
                    / u128::from(room.saturating_add(path.bytes).max(1));
                let filled = u64::try_from(filled).unwrap_or(u64::MAX);
                let rank = (full, queue, filled);
                if best.is_none_or(|(least, _)| rank < least) {
                    best = Some((rank, index));
                }
            }
        }
        let index = best.map_or(0, |(_, index)| index);
        if let Some(path) = paths.get_mut(index) {
            path.files += 1;
            path.bytes += size;
        }
        Ok(index + 1)
    }

    pub fn report(&self) -> Vec<AccountsPathReport> {
        let paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        paths
            .iter()
            .map(|path| AccountsPathReport {
                path: path.path.clone(),
                files: path.files,
                bytes: path.bytes,
            })
            .collect()
    }
}
