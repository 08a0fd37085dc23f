//! Ledgers for tests of fastboot, and a reader of states that shares nothing with unsnap: it goes by
//! the formats of Agave alone (`solana-runtime` 4.2.2, `snapshot_utils.rs`).

mod state;

use std::{
    fs,
    path::{Path, PathBuf},
};

use unsnap_testkit::{bank, compress, tar::snapshot_tar};

pub use self::state::{Expected, Loadable, look};

/// The places of a validator.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The ledger itself.
    pub root: PathBuf,
    /// The directory of archives and states.
    pub snapshots: PathBuf,
    /// The accounts paths.
    pub accounts: Vec<PathBuf>,
}

impl Ledger {
    /// Creates a ledger below `place`; the given number of accounts paths will be beside it.
    pub fn new(place: &Path, accounts: usize) -> Self {
        let root = place.join("ledger");
        fs::create_dir_all(&root).unwrap();
        let accounts = (0..accounts).map(|index| place.join(format!("accounts-{index}"))).collect();
        Self { snapshots: root.clone(), root, accounts }
    }

    /// Returns the directory of states.
    pub fn states(&self) -> PathBuf {
        self.snapshots.join("snapshots")
    }

    /// Returns the directory of one state.
    pub fn state(&self, slot: u64) -> PathBuf {
        self.states().join(slot.to_string())
    }

    /// Returns the file that marks a state as whole.
    pub fn mark(&self, slot: u64) -> PathBuf {
        self.state(slot).join("fastboot_version")
    }

    /// Returns the directory of storages in an accounts path.
    pub fn run(&self, index: usize) -> PathBuf {
        self.accounts[index].join("run")
    }

    /// Returns the places of a state that lies ready.
    pub fn beside(&self) -> Self {
        self.below(".unsnap-ready")
    }

    /// Returns the places of a state that is to lie ready.
    pub fn next(&self) -> Self {
        self.below(".unsnap-next")
    }

    fn below(&self, name: &str) -> Self {
        let snapshots = self.snapshots.join(name);
        let accounts = self.accounts.iter().map(|path| path.join(name)).collect();
        Self { root: snapshots.clone(), snapshots, accounts }
    }

    /// Copies an archive to where a validator looks for it.
    pub fn add(&self, archive: &Path) -> PathBuf {
        let path = self.snapshots.join(archive.file_name().unwrap());
        fs::copy(archive, &path).unwrap();
        path
    }

    /// Returns the program's arguments for these places.
    pub fn arguments(&self) -> Vec<String> {
        let show = |path: &Path| path.display().to_string();
        let accounts: Vec<String> = self.accounts.iter().map(|path| show(path)).collect();
        let mut arguments = vec!["--ledger".to_owned(), show(&self.root)];
        arguments.extend(["--accounts".to_owned(), accounts.join(",")]);
        if self.snapshots != self.root {
            arguments.extend(["--snapshots".to_owned(), show(&self.snapshots)]);
        }
        arguments
    }

    /// Panics if a run has left useless files: staging directories, directories moved aside.
    #[track_caller]
    pub fn assert_tidy(&self, what: &str) {
        let left = self.left_over();
        assert!(left.is_empty(), "{what}: left over: {left:?}");
    }

    /// Returns the paths of such files.
    pub fn left_over(&self) -> Vec<PathBuf> {
        let holders = self.accounts.iter().chain([&self.root, &self.snapshots]);
        let holders = holders.cloned().chain([self.states()]).filter(|path| path.exists());
        let mut left = Vec::new();
        for holder in holders {
            // Locks stay, as a validator's does, and so do the records of starts.
            let stay = [
                ".unsnap-ledger.lock",
                ".unsnap-ready.lock",
                ".unsnap-next.lock",
                ".unsnap-attempts",
                ".unsnap-service",
                ".unsnap-last-start.json",
            ];
            let is_ours = |name: &String| {
                name.starts_with('.') && name.contains("unsnap") && !stay.contains(&name.as_str())
            };
            left.extend(names(&holder).into_iter().filter(is_ours).map(|name| holder.join(name)));
        }
        left.sort();
        left.dedup();
        left
    }
}

/// Returns the names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", directory.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Content of a storage at an offset.
type Fill = fn(usize) -> u8;

/// Returns a storage of this length, which holds one account of recognisable data.
fn storage(bytes: usize, mark: u8, fill: Fill) -> Vec<u8> {
    let mut storage: Vec<u8> = (0..bytes).map(|at| mark ^ fill(at)).collect();
    let data = u64::try_from(bytes - 136).unwrap();
    storage[8..16].copy_from_slice(&data.to_le_bytes());
    storage[48..56].copy_from_slice(&1_u64.to_le_bytes());
    // Not executable.
    storage[96] = 0;
    storage
}

/// Writes a small archive under its genuine name, with storages of these slots and lengths, 136
/// bytes at least.
pub fn small_archive(
    directory: &Path,
    slot: u64,
    base: Option<u64>,
    storages: &[(u64, usize)],
) -> PathBuf {
    archive_of(directory, (slot, base), storages, |at| at.to_le_bytes()[0])
}

/// Writes a full archive like [`small_archive`], which is no smaller than its storages.
pub fn incompressible_archive(directory: &Path, slot: u64, storages: &[(u64, usize)]) -> PathBuf {
    archive_of(directory, (slot, None), storages, |at| {
        // The last step of a generator of random numbers (splitmix64).
        let mut mixed = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()[0]
    })
}

fn archive_of(
    directory: &Path,
    (slot, base): (u64, Option<u64>),
    storages: &[(u64, usize)],
    fill: Fill,
) -> PathBuf {
    let storages: Vec<(u64, u32, Vec<u8>)> = storages
        .iter()
        .enumerate()
        .map(|(index, (storage_slot, bytes))| {
            let mark = u8::try_from((slot + storage_slot) % 251).unwrap();
            let id = 7 + u32::try_from(index).unwrap();
            (*storage_slot, id, storage(*bytes, mark, fill))
        })
        .collect();
    let hash = bank::name_hash(&bank::lattice_hash(slot));
    let name = match base {
        None => format!("snapshot-{slot}-{hash}.tar.zst"),
        Some(base) => format!("incremental-snapshot-{base}-{slot}-{hash}.tar.zst"),
    };
    let path = directory.join(name);
    let tar = snapshot_tar(slot, &storages);
    fs::write(&path, compress::zstd_frames(&tar, 64 << 10, 1)).unwrap();
    path
}

/// Writes a full archive of slot 100 and an incremental one of slot 110 upon it, of a few files.
pub fn small_pair(directory: &Path) -> (PathBuf, PathBuf) {
    let full = [(90, 20_000), (91, 700), (95, 4096), (100, 9000)];
    let incremental = [(101, 5000), (105, 300), (110, 12_288)];
    (
        small_archive(directory, 100, None, &full),
        small_archive(directory, 110, Some(100), &incremental),
    )
}
