//! Accounts paths of a snapshot's storages in a validator's state.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use unsnap_create::Assembler;
use unsnap_fit::{FileSystem, FitError};
use unsnap_layout::Placement;

use crate::{StateNames, StorageFile};

/// Share of an accounts path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccountsPathReport {
    /// Path.
    pub path: String,
    /// Number of storages.
    pub files: u64,
    /// Sum of their sizes in bytes.
    pub bytes: u64,
}

/// Names and destinations of an archive's files in a validator's state; see
/// [`format`](crate::format).
#[derive(Debug)]
pub struct StatePlaces {
    names: StateNames,
    spread: Arc<AccountsSpread>,
    /// Storages so far.
    pub storages: Vec<StorageFile>,
}

impl StatePlaces {
    /// Creates the places for an archive whose files get these names, and of which these storages
    /// exist already.
    pub fn new(names: StateNames, storages: Vec<StorageFile>, spread: Arc<AccountsSpread>) -> Self {
        spread.count(&storages);
        Self { names, spread, storages }
    }

    /// Returns the index of the destination of a file and its path there; `None` if the state does
    /// not contain it.
    pub fn place(
        &mut self,
        placement: &Placement<'_>,
        size: u64,
        files: &Assembler,
    ) -> Result<Option<(usize, &str)>, FitError> {
        self.place_with(placement, size, &|destination| files.in_flight_to_device_of(destination))
    }

    /// Does the same with the bytes in flight to the device of each destination.
    fn place_with(
        &mut self,
        placement: &Placement<'_>,
        size: u64,
        in_flight: &dyn Fn(usize) -> u64,
    ) -> Result<Option<(usize, &str)>, FitError> {
        Ok(match self.names.name(placement) {
            None => None,
            Some((None, name)) => Some((0, name)),
            Some((Some(storage), name)) => {
                let destination = self.spread.choose(size, in_flight)?;
                self.storages.push(StorageFile::new(storage, size, destination));
                Some((destination, name))
            }
        })
    }
}

/// Spread of storages over the accounts paths, by free space and by the speed of each device.
#[derive(Debug)]
pub struct AccountsSpread {
    paths: Mutex<Vec<AccountsPath>>,
}

#[derive(Debug)]
struct AccountsPath {
    system: FileSystem,
    /// Path, for messages.
    path: String,
    files: u64,
    bytes: u64,
    /// Free space when it was last asked for.
    known: Option<KnownRoom>,
}

/// Free space of an accounts path, as the file system reported it.
#[derive(Clone, Copy, Debug)]
struct KnownRoom {
    /// Free bytes, less those that were in flight at that time.
    bytes: u64,
    /// Size of the storages that all paths of the file system have been given since.
    given: u64,
}

/// Size of the storages after which a file system is asked for its free space again: as large as
/// two segments. It was asked for each storage and path before, 860,000 times for mainnet on two
/// paths. A guess.
const ASK_EVERY_BYTES: u64 = 64 << 20;

/// Free bytes below which a file system is asked for each storage, since then a choice may depend on
/// a single one.
const ASK_ALWAYS_BYTES: u64 = 4 * FULL_BYTES;

/// Bytes in flight by which a device counts as slower than another. As many as a few large files
/// have; a guess.
const QUEUE_BYTES: u64 = 16 << 20;

/// Free bytes below which a path gets no storages while another path has more. It leaves room for
/// bytes in flight and for rounding. A guess.
const FULL_BYTES: u64 = 256 << 20;

/// Free bytes below which a path gets no storages while another path has at least this. It leaves
/// room for the overhead of the file system. A guess.
const LAST_BYTES: u64 = 1 << 20;

impl AccountsSpread {
    /// Creates a spread over these paths, each given by its file system and its name in messages.
    pub fn new(paths: impl Iterator<Item = (FileSystem, String)>) -> Self {
        let path = |(system, path)| AccountsPath { system, path, files: 0, bytes: 0, known: None };
        Self { paths: Mutex::new(paths.map(path).collect()) }
    }

    /// Counts storages that are there already.
    pub fn count(&self, files: &[StorageFile]) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files {
            let index = file.destination.checked_sub(1);
            if let Some(path) = index.and_then(|index| paths.get_mut(index)) {
                path.files += 1;
                path.bytes += file.bytes;
            }
        }
    }

    /// Chooses the destination of a storage of `size` bytes. `in_flight` returns the bytes in
    /// flight to the device of a destination.
    fn choose(&self, size: u64, in_flight: &dyn Fn(usize) -> u64) -> Result<usize, FitError> {
        self.choose_by(size, in_flight, &mut |system| Ok(system.free()?.bytes))
    }

    /// Does the same with the free bytes that `free` returns.
    fn choose_by(
        &self,
        size: u64,
        in_flight: &dyn Fn(usize) -> u64,
        free: &mut dyn FnMut(&FileSystem) -> Result<Option<u64>, FitError>,
    ) -> Result<usize, FitError> {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let index = if paths.len() > 1 {
            let candidates = paths.iter_mut().enumerate().map(|(index, path)| {
                let in_flight = in_flight(index + 1);
                let room = path.room(size, in_flight, free)?;
                Ok(Candidate { room, in_flight, given: path.bytes })
            });
            best(candidates, size)?
        } else {
            0
        };
        if let Some(path) = paths.get_mut(index) {
            path.files += 1;
            path.bytes += size;
            let device = path.system.device;
            let beside = paths.iter_mut().filter(|path| path.system.device == device);
            for known in beside.filter_map(|path| path.known.as_mut()) {
                known.given = known.given.saturating_add(size);
            }
        }
        Ok(index + 1)
    }

    /// Returns the share of each path so far.
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

impl AccountsPath {
    /// Returns the bytes that are free for a storage of `size` bytes and others after it, by what
    /// `free` returned last if that suffices.
    fn room(
        &mut self,
        size: u64,
        in_flight: u64,
        free: &mut dyn FnMut(&FileSystem) -> Result<Option<u64>, FitError>,
    ) -> Result<u64, FitError> {
        if let Some(KnownRoom { bytes, given }) = self.known {
            let room = bytes.saturating_sub(given);
            if given < ASK_EVERY_BYTES && room.saturating_sub(size) >= ASK_ALWAYS_BYTES {
                return Ok(room);
            }
        }
        let bytes = free(&self.system)?.unwrap_or(u64::MAX / 2).saturating_sub(in_flight);
        self.known = Some(KnownRoom { bytes, given: 0 });
        Ok(bytes)
    }
}

/// An accounts path at the moment of a choice. All figures are bytes.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Free, without those in flight.
    room: u64,
    /// In flight to its device.
    in_flight: u64,
    /// Size of the storages that it has been given so far.
    given: u64,
}

impl Candidate {
    /// Returns the rank for a storage of `size` bytes: how full the path is, how slow its device,
    /// and which part of its space is used. The least rank is the best.
    fn rank(&self, size: u64) -> (u8, u64, u64) {
        let room = self.room;
        let full = match room.checked_sub(size.saturating_add(size / 64)) {
            Some(after) if after >= FULL_BYTES => 0,
            Some(after) if after >= LAST_BYTES => 1,
            _ => 2,
        };
        // Where space is short, the speed of the device does not matter.
        let queue = if full == 0 { self.in_flight / QUEUE_BYTES } else { 0 };
        let used = u128::from(self.given + size) * u128::from(u32::MAX)
            / u128::from(room.saturating_add(self.given).max(1));
        (full, queue, u64::try_from(used).unwrap_or(u64::MAX))
    }
}

/// Returns the index of the best path for a storage of `size` bytes. It is the one with the fewest
/// bytes in flight to its device and, among equals, the one whose space is used least in
/// proportion. A full path is chosen only if all paths are full.
fn best(
    candidates: impl Iterator<Item = Result<Candidate, FitError>>,
    size: u64,
) -> Result<usize, FitError> {
    let mut best = None;
    for (index, candidate) in candidates.enumerate() {
        let rank = candidate?.rank(size);
        if best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, index));
        }
    }
    Ok(best.map_or(0, |(_, index)| index))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use unsnap_layout::Role;
    use unsnap_ring::Syscalls;

    use super::*;
    use crate::Storage;

    const GIB: u64 = 1 << 30;

    fn best_of(paths: &[Candidate], size: u64) -> usize {
        best(paths.iter().copied().map(Ok), size).unwrap()
    }

    fn path(free: u64, in_flight: u64, given: u64) -> Candidate {
        Candidate { room: free.saturating_sub(in_flight), in_flight, given }
    }

    #[test]
    fn the_emptiest_path_of_the_fastest_device_is_chosen() {
        let size = 1 << 20;
        for (paths, chosen) in [
            // Equal paths: the first.
            ([path(GIB, 0, 0), path(GIB, 0, 0)], 0),
            // In proportion to the space.
            ([path(GIB, 0, 0), path(2 * GIB, 0, 0)], 1),
            ([path(GIB, 0, 100 << 20), path(GIB, 0, 99 << 20)], 1),
            ([path(GIB, 0, 100 << 20), path(4 * GIB, 0, 300 << 20)], 1),
            // The queue of a device counts in steps, and more than space.
            ([path(GIB, QUEUE_BYTES - 1, 0), path(GIB, 0, GIB)], 0),
            ([path(4 * GIB, QUEUE_BYTES, 0), path(GIB, 0, GIB)], 1),
            // Not a path that is nearly full, however fast.
            ([path(FULL_BYTES, 0, 0), path(GIB, 10 * QUEUE_BYTES, GIB)], 1),
            ([path(LAST_BYTES, 0, 0), path(FULL_BYTES, 10 * QUEUE_BYTES, GIB)], 1),
            // Bytes in flight take space.
            ([path(GIB, GIB, 0), path(FULL_BYTES, 0, 0)], 1),
            // All are full: one of them has to take it.
            ([path(0, 0, 0), path(1 << 20, 0, 0)], 1),
        ] {
            assert_eq!(best_of(&paths, size), chosen, "{paths:?}");
        }
        assert_eq!(best_of(&[path(0, 0, 0)], 1 << 62), 0);
    }

    #[test]
    fn many_storages_fill_paths_in_proportion_to_their_space() {
        let mut paths = [path(10 * GIB, 0, 0), path(30 * GIB, 0, 0)];
        for _ in 0..1000 {
            let chosen = &mut paths[best_of(&paths, 10 << 20)];
            chosen.given += 10 << 20;
            chosen.room -= 10 << 20;
        }
        assert_eq!(paths.map(|path| path.given / (10 << 20)), [250, 750]);
    }

    fn spread(paths: usize) -> Arc<AccountsSpread> {
        let system = |_| {
            let directory = File::open(std::env::temp_dir()).unwrap().into();
            let systems = FileSystem::of(&Syscalls::default(), vec![(directory, "/tmp".into())]);
            systems.unwrap().remove(0)
        };
        let paths = (0..paths).map(system).zip(["/one", "/two"].map(str::to_owned));
        Arc::new(AccountsSpread::new(paths))
    }

    fn file(role: Role) -> Placement<'static> {
        Placement::File { path: "path", role }
    }

    fn placed(places: &mut StatePlaces, role: Role) -> Option<(usize, String)> {
        let placed = places.place_with(&file(role), 100, &|_| 0).unwrap();
        placed.map(|(destination, name)| (destination, name.to_owned()))
    }

    #[test]
    fn ids_are_unique_over_the_archives_of_a_pair() {
        let spread = spread(1);
        let [mut full, mut incremental] = [0, 1].map(|index| {
            StatePlaces::new(StateNames::new(index, 2), Vec::new(), Arc::clone(&spread))
        });
        let names = |places: &mut StatePlaces, slots: [u64; 3]| {
            slots.map(|slot| placed(places, Role::Storage { slot, id: 7 }).unwrap())
        };
        let at = |name: &str| (1, name.to_owned());
        assert_eq!(names(&mut full, [5, 6, 7]), ["5.0", "6.2", "7.4"].map(at));
        assert_eq!(names(&mut incremental, [8, 9, 10]), ["8.1", "9.3", "10.5"].map(at));
        let storages: Vec<Storage> = full.storages.iter().map(StorageFile::storage).collect();
        let expected = [(5, 0), (6, 2), (7, 4)].map(|(slot, id)| Storage { slot, id });
        assert_eq!(storages, expected);
        assert!(full.storages.iter().all(|file| (file.bytes, file.destination) == (100, 1)));
        let report = spread.report();
        assert_eq!((report[0].files, report[0].bytes), (6, 600));
    }

    #[test]
    fn other_files_come_from_the_newest_archive() {
        let spread = spread(1);
        let [mut full, mut incremental] = [0, 1].map(|index| {
            StatePlaces::new(StateNames::new(index, 2), Vec::new(), Arc::clone(&spread))
        });
        for (role, name) in [
            (Role::Version, "version"),
            (Role::StatusCache, "status_cache"),
            (Role::BankFile { slot: 123 }, "123"),
        ] {
            assert_eq!(placed(&mut full, role), None, "{name}");
            assert_eq!(placed(&mut incremental, role), Some((0, name.to_owned())));
        }
        assert_eq!(placed(&mut incremental, Role::Other), None);
        let mut only = StatePlaces::new(StateNames::new(0, 1), Vec::new(), spread);
        assert_eq!(placed(&mut only, Role::Version), Some((0, "version".to_owned())));
    }

    #[test]
    fn a_file_system_is_asked_once_for_many_storages_and_for_each_when_it_is_nearly_full() {
        let spread = spread(2);
        let (mut asked, mut left) = (0, 2 * ASK_ALWAYS_BYTES);
        let mut choose = |left: u64, size| {
            let mut free = |_: &FileSystem| {
                asked += 1;
                Ok(Some(left))
            };
            spread.choose_by(size, &|_| 0, &mut free).unwrap();
            std::mem::take(&mut asked)
        };
        // The first time each path is asked, and then once for so many bytes.
        let size = ASK_EVERY_BYTES / 8;
        for round in 0..3 {
            for storage in 0..8 {
                assert_eq!(choose(left, size), if storage == 0 { 2 } else { 0 }, "{round}");
                left -= size;
            }
        }
        // A storage that would leave little is not placed by what was known.
        assert_eq!(choose(left, left - ASK_ALWAYS_BYTES), 2);
        for _ in 0..3 {
            assert_eq!(choose(ASK_ALWAYS_BYTES, 1), 2);
        }
    }

    #[test]
    fn each_path_of_a_file_system_gets_its_share() {
        let spread = spread(2);
        for _ in 0..10 {
            spread.choose(1 << 20, &|_| 0).unwrap();
        }
        // The device of the first path is busy.
        for _ in 0..3 {
            let busy = |destination| u64::from(destination == 1) * QUEUE_BYTES;
            spread.choose(1 << 20, &busy).unwrap();
        }
        let shares = spread.report().into_iter().map(|path| (path.path, path.files));
        let expected = [("/one".to_owned(), 5), ("/two".to_owned(), 8)];
        assert_eq!(shares.collect::<Vec<_>>(), expected);
    }
}
