//! A validator's state: expected of a pair of archives, and found on disk.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use unsnap_testkit::tree::reference_entries;

use super::{Ledger, names};

/// The state that a pair of archives must become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The slot of the state.
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
    /// Returns the state of archives, extracted by the crates tar, zstd and `lz4_flex`.
    pub fn of(full: &[u8], incremental: Option<&[u8]>) -> Self {
        let archives: Vec<&[u8]> = std::iter::once(full).chain(incremental).collect();
        let mut expected = Self::default();
        for (index, archive) in archives.iter().enumerate() {
            // Ids must be unique over both; the full archive has even ones, the other odd ones.
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
                        id += 2;
                        assert!(expected.storages.insert(slot, entry.bytes).is_none());
                    }
                    _ => assert!(entry.bytes.is_empty(), "{}", entry.path),
                }
            }
        }
        expected
    }

    /// Returns the state of archives in files.
    pub fn of_files(full: &Path, incremental: Option<&Path>) -> Self {
        let incremental = incremental.map(|path| fs::read(path).unwrap());
        Self::of(&fs::read(full).unwrap(), incremental.as_deref())
    }

    /// Returns the number of storages.
    pub fn storages(&self) -> usize {
        self.storages.len()
    }

    /// Returns the names of the storages.
    pub fn names(&self) -> Vec<String> {
        self.listed.iter().map(|(slot, id)| format!("{slot}.{id}")).collect()
    }

    /// Returns the six files, made here.
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

    /// Panics unless a validator finds exactly this, byte for byte, and a run has left nothing else.
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

    /// The same for a state whose storages may have other ids, and thus another list.
    #[track_caller]
    pub fn assert_whole(&self, ledger: &Ledger, what: &str) {
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

    /// Returns whether a state that was found is this one, byte for byte.
    pub fn is(&self, state: &Loadable) -> bool {
        (state.slot, &state.bank, &state.status_cache, &state.storages)
            == (self.slot, &self.bank, &self.status_cache, &self.storages)
    }
}

/// A state that a validator would load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loadable {
    /// The slot of the state.
    pub slot: u64,
    bank: Vec<u8>,
    status_cache: Vec<u8>,
    /// The contents of the storages, by slot.
    pub storages: BTreeMap<u64, Vec<u8>>,
}

/// Returns the newest state that a validator would load; an error if that would fail, or if there
/// is more in `run` than belongs to it. The law: every marked state is whole.
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

/// Returns the files of a directory by name; of everything else only the name.
fn read_files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let bytes = fs::read(directory.join(&name)).unwrap_or_default();
        (name, bytes)
    };
    names(directory).into_iter().map(read).collect()
}
