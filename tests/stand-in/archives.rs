//! Archives: the choice of a pair, unpacking, and the removal of old ones.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use unsnap_testkit::{bank, series::Snapshot};

use crate::{
    places::{Places, TEMPORARY, names},
    states::{assert_sum, is_chain, write},
};

/// Archives that are kept: full ones, and incremental ones upon the newest of them
/// (`--maximum-full-snapshots-to-retain`, `--maximum-incremental-snapshots-to-retain`).
const FULL_MAX: usize = 2;
const INCREMENTAL_MAX: usize = 4;

/// Incremental archives that are kept upon an older full one.
const OLDER_INCREMENTAL_MAX: usize = 1;

/// A file with the name of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    pub path: PathBuf,
    pub slot: u64,
    base: Option<u64>,
    hash: String,
}

impl Archive {
    /// Of other names, and of lz4, it knows nothing.
    fn of(directory: &Path, name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(".tar.zst")?.split('-');
        let is_incremental = match parts.next()? {
            "snapshot" => false,
            "incremental" if parts.next() == Some("snapshot") => true,
            _ => return None,
        };
        let base = if is_incremental { Some(parts.next()?.parse().ok()?) } else { None };
        let (slot, hash) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        let is_hash = bs58::decode(&hash).into_vec().is_ok_and(|bytes| bytes.len() == 32);
        let archive = Self { path: directory.join(name), slot, base, hash };
        (is_hash && parts.next().is_none()).then_some(archive)
    }

    /// Returns the archives in a directory and in its child for downloads.
    fn all(directory: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for directory in [directory.to_owned(), directory.join("remote")] {
            found.extend(names(&directory)?.iter().filter_map(|name| Self::of(&directory, name)));
        }
        Ok(found)
    }
}

/// The archives that a start unpacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    full: Archive,
    incremental: Option<Archive>,
}

impl Pair {
    /// Returns the newest full archive with the newest incremental one upon it.
    pub fn newest(places: &Places) -> io::Result<Option<Self>> {
        let full = Archive::all(&places.full_archives)?.into_iter();
        let full = full.filter(|archive| archive.base.is_none()).max_by_key(|archive| archive.slot);
        let Some(full) = full else { return Ok(None) };
        let incremental = Archive::all(&places.incremental_archives)?.into_iter();
        let incremental = incremental.filter(|archive| archive.base == Some(full.slot));
        let incremental = incremental.max_by_key(|archive| archive.slot);
        Ok(Some(Self { full, incremental }))
    }

    pub fn slot(&self) -> u64 {
        self.newest_archive().slot
    }

    fn newest_archive(&self) -> &Archive {
        self.incremental.as_ref().unwrap_or(&self.full)
    }

    /// Unpacks both. Storages go to `sink` as they come; what they add up to is found out at the end.
    pub fn unpack(&self, sink: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> Result<(), String> {
        let mut storages: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut bank = Vec::new();
        for archive in [Some(&self.full), self.incremental.as_ref()].into_iter().flatten() {
            let at = |reason: String| format!("{}: {reason}", archive.path.display());
            bank = unpack(archive, &mut storages, sink).map_err(|error| at(error.to_string()))?;
            let end = bank.len().checked_sub(33).ok_or_else(|| at("no bank".to_owned()))?;
            let hash = bank[..end].last_chunk().map(bank::name_hash);
            if hash.as_ref() != Some(&archive.hash) {
                return Err(at("the bank is not that of the name".to_owned()));
            }
        }
        let slots: BTreeSet<u64> = storages.iter().map(|(slot, _)| *slot).collect();
        if slots.len() != storages.len() {
            return Err("two storages have the same slot".to_owned());
        }
        assert_sum(&bank, &storages)
    }
}

/// Unpacks an archive, and returns its bank file.
fn unpack(
    archive: &Archive,
    storages: &mut Vec<(u64, Vec<u8>)>,
    sink: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let bank_path = format!("snapshots/{0}/{0}", archive.slot);
    let mut bank = Vec::new();
    let mut tar = tar::Archive::new(zstd::Decoder::new(File::open(&archive.path)?)?);
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8(entry.path_bytes().into_owned());
        let path = path.map_err(|_| bad("a strange path"))?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        if let Some(name) = path.strip_prefix("accounts/").filter(|name| !name.is_empty()) {
            let slot = name.split_once('.').and_then(|(slot, _)| slot.parse().ok());
            let slot = slot.ok_or_else(|| bad("a strange storage"))?;
            if !is_chain(&bytes) {
                return Err(bad("a storage is no sequence of accounts"));
            }
            sink(slot, &bytes)?;
            storages.push((slot, bytes));
        } else if path == bank_path {
            bank = bytes;
        }
    }
    if bank.is_empty() { Err(bad("no bank")) } else { Ok(bank) }
}

/// Writes the archive of a snapshot under a temporary name, and renames it.
pub fn write_archive(places: &Places, snapshot: Snapshot) -> io::Result<PathBuf> {
    let directory = match snapshot.base() {
        None => &places.full_archives,
        Some(_) => &places.incremental_archives,
    };
    let (name, bytes) = snapshot.archive();
    let temporary = directory.join(format!("{TEMPORARY}{name}"));
    let path = directory.join(name);
    let written = write(&temporary, &bytes).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map(|()| path)
}

/// Removes archives that are too many.
pub fn purge(places: &Places) -> io::Result<()> {
    let mut full = Archive::all(&places.full_archives)?;
    full.retain(|archive| archive.base.is_none());
    full.sort_by_key(|archive| Reverse(archive.slot));
    let old = full.split_off(full.len().min(FULL_MAX));
    let mut incremental: BTreeMap<u64, Vec<Archive>> = BTreeMap::new();
    for archive in Archive::all(&places.incremental_archives)? {
        if let Some(base) = archive.base {
            incremental.entry(base).or_default().push(archive);
        }
    }
    let mut removed = old;
    for (base, mut upon) in incremental {
        let kept = match full.iter().position(|archive| archive.slot == base) {
            Some(0) => INCREMENTAL_MAX,
            Some(_) => OLDER_INCREMENTAL_MAX,
            None => 0,
        };
        upon.sort_by_key(|archive| Reverse(archive.slot));
        removed.extend(upon.into_iter().skip(kept));
    }
    removed.iter().try_for_each(|archive| fs::remove_file(&archive.path))
}
