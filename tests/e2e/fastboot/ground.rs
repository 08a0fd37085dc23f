//! Ledgers for tests of fastboot, and a reader of states that shares nothing with unsnap: it goes by
//! the formats of Agave alone (`solana-runtime` 4.2.2, `snapshot_utils.rs`).

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use unsnap_testkit::{bank, compress, tar::snapshot_tar, tree::reference_entries};

/// What a pair of archives must become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub slot: u64,
    version: Vec<u8>,
    bank: Vec<u8>,
    status_cache: Vec<u8>,
    /// The six files: slot and id of every storage in the list's order.
    listed: Vec<(u64, u32)>,
    /// Contents by slot: no two storages have the same.
    storages: BTreeMap<u64, Vec<u8>>,
}

impl Expected {
    /// Of archives extracted by the crates tar, zstd and `lz4_flex`.
    pub fn of(full: &[u8], incremental: Option<&[u8]>) -> Self {
        let archives: Vec<&[u8]> = std::iter::once(full).chain(incremental).collect();
        let mut expected = Self::default();
        for (index, archive) in archives.iter().enumerate() {
            // Ids must be unique over both; the full archive has even ones, the other odd ones.
            let step = u32::try_from(archives.len()).unwrap();
            let mut id = u32::try_from(index).unwrap();
            for entry in reference_entries(archive).unwrap() {
                let mut path = entry.path.trim_end_matches('/').split('/');
                match (path.next(), path.next(), path.next()) {
                    (Some("version"), None, _) => expected.version = entry.bytes,
                    (Some("snapshots"), Some("status_cache"), None) => {
                        expected.status_cache = entry.bytes;
                    }
                    (Some("snapshots"), Some(slot), Some(_)) => {
                        (expected.slot, expected.bank) = (slot.parse().unwrap(), entry.bytes);
                    }
                    (Some("accounts"), Some(name), None) => {
                        let slot = name.split_once('.').unwrap().0.parse().unwrap();
                        expected.listed.push((slot, id));
                        id += step;
                        assert!(expected.storages.insert(slot, entry.bytes).is_none());
                    }
                    _ => assert!(entry.bytes.is_empty(), "{}", entry.path),
                }
            }
        }
        expected
    }

    pub fn of_files(full: &Path, incremental: Option<&Path>) -> Self {
        let incremental = incremental.map(|path| fs::read(path).unwrap());
        Self::of(&fs::read(full).unwrap(), incremental.as_deref())
    }

    pub fn storages(&self) -> usize {
        self.storages.len()
    }

    /// The names of the storages.
    pub fn names(&self) -> Vec<String> {
        self.listed.iter().map(|(slot, id)| format!("{slot}.{id}")).collect()
    }

    /// The six files, made here.
    fn six_files(&self, major: u32) -> BTreeMap<String, Vec<u8>> {
        let mut list = (self.listed.len() as u64).to_le_bytes().to_vec();
        for (slot, id) in &self.listed {
            let (slot, id) = (slot.to_le_bytes(), id.to_le_bytes());
            match major {
                3 => list.extend([&slot[..], &id[..]].concat()),
                5 => list.extend([&[0; 4][..], &id[..], &slot[..]].concat()),
                _ => unreachable!(),
            }
        }
        BTreeMap::from([
            ("version".to_owned(), self.version.clone()),
            ("status_cache".to_owned(), self.status_cache.clone()),
            (self.slot.to_string(), self.bank.clone()),
            ("storages_list".to_owned(), list),
            ("obsolete_accounts".to_owned(), vec![0; 8]),
            ("fastboot_version".to_owned(), format!("{major}.0.0").into_bytes()),
        ])
    }

    /// Panics unless exactly this is there for a validator, byte for byte, and nothing of a run is left.
    #[track_caller]
    pub fn assert_prepared(&self, ledger: &Ledger, major: u32, what: &str) {
        let states = ledger.states();
        assert_eq!(names(&states), [self.slot.to_string()], "{what}");
        let found = read_files(&states.join(self.slot.to_string()));
        let expected = self.six_files(major);
        let keys = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&found), keys(&expected), "{what}");
        for (name, bytes) in expected {
            assert!(found[&name] == bytes, "{what}: {name} differs");
        }
        match look(&ledger.snapshots, &ledger.accounts) {
            Ok(Some(state)) => self.assert_is(&state, what),
            other => panic!("{what}: {other:?}"),
        }
        ledger.assert_tidy(what);
    }

    /// Panics unless a state that was found is this one.
    #[track_caller]
    pub fn assert_is(&self, state: &Loadable, what: &str) {
        assert_eq!(state.slot, self.slot, "{what}");
        assert!(self.is(state), "{what}: not what the archives hold");
    }

    /// Whether a state that was found is this one, byte for byte.
    pub fn is(&self, state: &Loadable) -> bool {
        (state.slot, &state.bank, &state.status_cache, &state.storages)
            == (self.slot, &self.bank, &self.status_cache, &self.storages)
    }
}

/// Where a validator keeps what.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub root: PathBuf,
    pub snapshots: PathBuf,
    pub accounts: Vec<PathBuf>,
}

impl Ledger {
    /// Below `place`, with so many accounts paths beside it.
    pub fn new(place: &Path, accounts: usize) -> Self {
        let root = place.join("ledger");
        fs::create_dir_all(&root).unwrap();
        let accounts = (0..accounts).map(|index| place.join(format!("accounts-{index}"))).collect();
        Self { snapshots: root.clone(), root, accounts }
    }

    pub fn states(&self) -> PathBuf {
        self.snapshots.join("snapshots")
    }

    pub fn state(&self, slot: u64) -> PathBuf {
        self.states().join(slot.to_string())
    }

    pub fn mark(&self, slot: u64) -> PathBuf {
        self.state(slot).join("fastboot_version")
    }

    pub fn run(&self, index: usize) -> PathBuf {
        self.accounts[index].join("run")
    }

    /// Where a state lies ready.
    pub fn beside(&self) -> Self {
        let beside = |path: &PathBuf| path.join(".unsnap-ready");
        let snapshots = beside(&self.snapshots);
        let accounts = self.accounts.iter().map(beside).collect();
        Self { root: snapshots.clone(), snapshots, accounts }
    }

    /// Copies an archive to where a validator looks for it.
    pub fn add(&self, archive: &Path) -> PathBuf {
        let path = self.snapshots.join(archive.file_name().unwrap());
        fs::copy(archive, &path).unwrap();
        path
    }

    /// The arguments of the program.
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

    /// Panics if a run has left something that is of no use: staging directories, what was moved
    /// aside.
    #[track_caller]
    pub fn assert_tidy(&self, what: &str) {
        let left = self.left_over();
        assert!(left.is_empty(), "{what}: left over: {left:?}");
    }

    pub fn left_over(&self) -> Vec<PathBuf> {
        let holders = self.accounts.iter().chain([&self.root, &self.snapshots]);
        let holders = holders.cloned().chain([self.states()]).filter(|path| path.exists());
        let mut left = Vec::new();
        for holder in holders {
            let is_ours = |name: &String| name.starts_with('.') && name.contains("unsnap");
            left.extend(names(&holder).into_iter().filter(is_ours).map(|name| holder.join(name)));
        }
        left.sort();
        left.dedup();
        left
    }
}

/// A state that a validator would load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loadable {
    pub slot: u64,
    bank: Vec<u8>,
    status_cache: Vec<u8>,
    pub storages: BTreeMap<u64, Vec<u8>>,
}

/// The law: whatever is marked is whole. Gives the newest state that a validator would load; an
/// error if that would fail, or if there is more in `run` than belongs to it.
pub fn look(snapshots: &Path, accounts: &[PathBuf]) -> Result<Option<Loadable>, String> {
    let states = snapshots.join("snapshots");
    if !states.exists() {
        return Ok(None);
    }
    let mut slots: Vec<u64> = names(&states).iter().filter_map(|name| name.parse().ok()).collect();
    slots.sort_unstable();
    let mut marked = slots
        .iter()
        .copied()
        .filter(|slot| states.join(slot.to_string()).join("fastboot_version").exists());
    let (Some(slot), None) = (marked.next(), marked.next()) else {
        let marked = slots
            .iter()
            .filter(|slot| states.join(format!("{slot}/fastboot_version")).exists())
            .count();
        return if marked == 0 { Ok(None) } else { Err(format!("{marked} states are marked")) };
    };
    let files = read_files(&states.join(slot.to_string()));
    let file = |name: &str| match files.get(name) {
        Some(bytes) if !bytes.is_empty() => Ok(bytes.clone()),
        found => Err(format!("the state of slot {slot} is marked, and its {name} is {found:?}")),
    };
    file("version")?;
    let (bank, status_cache) = (file(&slot.to_string())?, file("status_cache")?);
    if file("obsolete_accounts")? != [0; 8] {
        return Err("there are obsolete accounts".to_owned());
    }
    let mark = file("fastboot_version")?;
    let list = file("storages_list")?;
    let listed = decode(&list, mark[0]).ok_or("the list of storages is damaged")?;
    let mut present: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for run in accounts.iter().map(|path| path.join("run")).filter(|run| run.exists()) {
        for (name, bytes) in read_files(&run) {
            if present.insert(name.clone(), bytes).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
    }
    let mut storages = BTreeMap::new();
    for (storage_slot, id) in listed {
        let name = format!("{storage_slot}.{id}");
        match present.remove(&name) {
            Some(bytes) if !bytes.is_empty() => storages.insert(storage_slot, bytes),
            Some(_) => return Err(format!("slot {slot} is marked, and {name} is empty")),
            None => return Err(format!("slot {slot} is marked, and {name} is missing")),
        };
    }
    match present.keys().next() {
        Some(name) => Err(format!("{name} is in run, and does not belong to slot {slot}")),
        None => Ok(Some(Loadable { slot, bank, status_cache, storages })),
    }
}

fn decode(list: &[u8], major: u8) -> Option<Vec<(u64, u32)>> {
    let (count, entries) = list.split_first_chunk::<8>()?;
    let bytes = if major == b'3' { 12 } else { 16 };
    if u64::from_le_bytes(*count) != (entries.len() / bytes) as u64 || entries.len() % bytes != 0 {
        return None;
    }
    let one = |entry: &[u8]| {
        let (slot, id) = if major == b'3' { (0, 8) } else { (8, 4) };
        let slot = u64::from_le_bytes(entry[slot..slot + 8].try_into().ok()?);
        Some((slot, u32::from_le_bytes(entry[id..id + 4].try_into().ok()?)))
    };
    entries.chunks_exact(bytes).map(one).collect()
}

/// Files of a directory, by name; of everything else only the name.
fn read_files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let bytes = fs::read(directory.join(&name)).unwrap_or_default();
        (name, bytes)
    };
    names(directory).into_iter().map(read).collect()
}

pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", directory.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A storage of so many bytes, which hold one account: its data are recognisable.
fn storage(bytes: usize, mark: u8) -> Vec<u8> {
    let mut storage: Vec<u8> = (0..bytes).map(|at| mark ^ at.to_le_bytes()[0]).collect();
    let data = u64::try_from(bytes - 136).unwrap();
    storage[8..16].copy_from_slice(&data.to_le_bytes());
    storage[48..56].copy_from_slice(&1_u64.to_le_bytes());
    // Not executable.
    storage[96] = 0;
    storage
}

/// Writes a small archive under its genuine name: storages of these slots and lengths, of 136 bytes
/// at the least.
pub fn small_archive(
    directory: &Path,
    slot: u64,
    base: Option<u64>,
    storages: &[(u64, usize)],
) -> PathBuf {
    let storages: Vec<(u64, u32, Vec<u8>)> = storages
        .iter()
        .enumerate()
        .map(|(index, (storage_slot, bytes))| {
            let mark = u8::try_from((slot + storage_slot) % 251).unwrap();
            let id = 7 + u32::try_from(index).unwrap();
            (*storage_slot, id, storage(*bytes, mark))
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

/// A full archive of slot 100 and an incremental one of slot 110 upon it, of a few files.
pub fn small_pair(directory: &Path) -> (PathBuf, PathBuf) {
    let full = [(90, 20_000), (91, 700), (95, 4096), (100, 9000)];
    let incremental = [(101, 5000), (105, 300), (110, 12_288)];
    (
        small_archive(directory, 100, None, &full),
        small_archive(directory, 110, Some(100), &incremental),
    )
}
