//! States, which Agave calls bank snapshots.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use unsnap_testkit::{bank::LATTICE_HASH_BYTES, series};

use crate::places::{Places, names};

/// The only version of archives and states.
const VERSION: &str = "1.2.0";

/// What marks a state as loadable, and its form as written by 4.2.
const MARK: &str = "fastboot_version";
const MARK_VERSION: &str = "3.0.0";

/// A storage on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub slot: u64,
    pub id: u32,
    pub directory: PathBuf,
}

impl Stored {
    pub fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.{}", self.slot, self.id))
    }
}

/// Returns the slots of all directories of states, whatever is in them.
fn slots(places: &Places) -> io::Result<Vec<u64>> {
    let is_directory = |name: &String| places.states().join(name).is_dir();
    let names = names(&places.states())?.into_iter().filter(is_directory);
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// Returns whether the three files of a bank are there.
fn is_complete(directory: &Path, slot: u64) -> bool {
    let has = |name: &str| fs::metadata(directory.join(name)).is_ok_and(|file| file.len() > 0);
    let version = fs::read_to_string(directory.join("version")).unwrap_or_default();
    version.trim() == VERSION && has(&slot.to_string()) && has("status_cache")
}

/// Returns the only state that a start looks at: the highest of those that are complete.
pub fn highest(places: &Places) -> io::Result<Option<u64>> {
    let slots = slots(places)?;
    Ok(slots.into_iter().filter(|slot| is_complete(&places.state(*slot), *slot)).max())
}

/// Returns whether a state has a mark of a form that 4.2 reads.
pub fn is_loadable(places: &Places, slot: u64) -> bool {
    let mark = fs::read_to_string(places.state(slot).join(MARK)).unwrap_or_default();
    // The other one, 2, has no list of storages.
    mark.trim().split('.').next() == Some("3")
}

/// Removes the directories of all states but one.
pub fn purge(places: &Places, keep: Option<u64>) -> io::Result<()> {
    for slot in slots(places)?.into_iter().filter(|slot| Some(*slot) != keep) {
        fs::remove_dir_all(places.state(slot))?;
    }
    Ok(())
}

/// Returns the storages of a state, if they are what its bank says. With `clean`, files with names of
/// storages that it does not list are removed first.
pub fn load(places: &Places, slot: u64, clean: bool) -> Result<Vec<Stored>, String> {
    let directory = places.state(slot);
    let read = |name: &str| {
        fs::read(directory.join(name)).map_err(|error| format!("{name} of {slot}: {error}"))
    };
    let list = read("storages_list")?;
    let listed = decode(&list).ok_or_else(|| format!("storages_list of {slot} is damaged"))?;
    if read("obsolete_accounts")?.len() < 8 {
        return Err(format!("obsolete_accounts of {slot} is damaged"));
    }
    let mut present: BTreeMap<(u64, u32), PathBuf> = BTreeMap::new();
    for run in places.run_directories() {
        for name in names(&run).map_err(|error| error.to_string())? {
            let Some(storage) = storage_of(&name) else { continue };
            if !listed.contains(&storage) {
                if clean {
                    fs::remove_file(run.join(&name)).map_err(|error| error.to_string())?;
                }
            } else if present.insert(storage, run.clone()).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
    }
    let mut storages = Vec::new();
    for (slot, id) in listed {
        let directory = present.remove(&(slot, id));
        let directory = directory.ok_or_else(|| format!("storage {slot}.{id} is missing"))?;
        storages.push(Stored { slot, id, directory });
    }
    let mut contents = Vec::new();
    for stored in &storages {
        let path = stored.path();
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if !is_chain(&bytes) {
            return Err(format!("{} is no sequence of accounts", path.display()));
        }
        contents.push((stored.slot, bytes));
    }
    assert_sum(&read(&slot.to_string())?, &contents)?;
    Ok(storages)
}

/// Returns slot and id of a storage's name.
fn storage_of(name: &str) -> Option<(u64, u32)> {
    let (slot, id) = name.split_once('.')?;
    Some((slot.parse().ok()?, id.parse().ok()?))
}

/// Reads a list of form 3: a number, then slot and id of each storage.
fn decode(list: &[u8]) -> Option<Vec<(u64, u32)>> {
    let (count, entries) = list.split_first_chunk::<8>()?;
    let (entries, rest) = entries.as_chunks::<12>();
    if !rest.is_empty() || u64::from_le_bytes(*count) != entries.len() as u64 {
        return None;
    }
    let one = |entry: &[u8; 12]| {
        let slot = u64::from_le_bytes(entry[..8].try_into().ok()?);
        Some((slot, u32::from_le_bytes(entry[8..].try_into().ok()?)))
    };
    entries.iter().map(one).collect()
}

/// Returns whether a storage is a sequence of whole accounts.
pub fn is_chain(storage: &[u8]) -> bool {
    /// Bytes of a record before its data.
    const HEADER: usize = 136;
    let mut at = 0;
    while at < storage.len() {
        let length = storage.get(at + 8..at + 16).and_then(|bytes| bytes.try_into().ok());
        let length = length.map(u64::from_le_bytes).and_then(|length| usize::try_from(length).ok());
        let end = length.and_then(|length| length.checked_add(at + HEADER));
        let Some(end) = end.filter(|end| *end <= storage.len()) else { return false };
        at = end.next_multiple_of(8);
    }
    !storage.is_empty()
}

/// Compares the hash of all accounts with that at the end of a bank file.
pub fn assert_sum(bank: &[u8], storages: &[(u64, Vec<u8>)]) -> Result<(), String> {
    // Behind it, a block id and the byte that says that there is one.
    let end = bank.len().checked_sub(33);
    let start = end.and_then(|end| end.checked_sub(LATTICE_HASH_BYTES));
    let expected = start.zip(end).and_then(|(start, end)| bank.get(start..end));
    let storages: Vec<(u64, &[u8])> =
        storages.iter().map(|(slot, bytes)| (*slot, &bytes[..])).collect();
    let found = series::totals(&storages).lattice_hash;
    if expected == Some(&found[..]) {
        return Ok(());
    }
    Err("the accounts do not add up to the bank's hash".to_owned())
}

/// Writes the three files of a bank, and removes the directories of older states.
pub fn write_bank(places: &Places, slot: u64, bank: &[u8]) -> io::Result<()> {
    let directory = places.state(slot);
    fs::create_dir_all(&directory)?;
    write(&directory.join(slot.to_string()), bank)?;
    write(&directory.join("status_cache"), &series::status_cache(slot))?;
    write(&directory.join("version"), VERSION.as_bytes())?;
    purge(places, Some(slot))
}

/// Writes the other files of a state. The mark comes last.
pub fn mark(places: &Places, slot: u64, storages: &[Stored]) -> io::Result<()> {
    let directory = places.state(slot);
    let mut list = (storages.len() as u64).to_le_bytes().to_vec();
    for stored in storages {
        list.extend(stored.slot.to_le_bytes());
        list.extend(stored.id.to_le_bytes());
    }
    write(&directory.join("storages_list"), &list)?;
    write(&directory.join("obsolete_accounts"), &[0; 8])?;
    write(&directory.join(MARK), MARK_VERSION.as_bytes())?;
    File::open(&directory)?.sync_all()
}

/// Writes a file durably.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_of_the_series_are_chains_and_cut_ones_are_not() {
        let (_, _, storage) = series::Snapshot::full_above(0).storages().remove(0);
        assert!(is_chain(&storage));
        assert!(!is_chain(&storage[..storage.len() - 1]));
        assert!(!is_chain(&[]));
    }

    #[test]
    fn lists_of_another_length_are_damaged() {
        let list = [&2_u64.to_le_bytes()[..], &[0; 12]].concat();
        assert_eq!(decode(&list), None);
        assert_eq!(decode(&[&[1, 0, 0, 0, 0, 0, 0, 0][..], &[0; 12]].concat()), Some(vec![(0, 0)]));
    }
}
