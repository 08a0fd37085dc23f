//! Listing a target's results by reading its directories.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use unsnap_fastboot::marked_states;
use unsnap_ring::Syscalls;

use crate::config::{Target, TargetKind};

/// File in every snapshot that appears last where a tree cannot be published by one rename.
pub const LAST_ENTRY: &str = "version";

/// Most entries read from a target's directory. A guess.
const ENTRIES_MAX: usize = 100_000;

/// A result on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Slot.
    pub slot: u64,
    /// Slot of the full archive, for the tree of an incremental archive.
    pub base_slot: Option<u64>,
    /// Directory of the result.
    pub path: PathBuf,
    /// Modification time of the directory: milliseconds since 1970.
    pub changed_unix_ms: u64,
}

/// Lists the results of a target, the newest first.
pub fn results(target: &Target) -> io::Result<Vec<Found>> {
    let mut found = match &target.kind {
        TargetKind::Tree { directory } => trees(directory)?,
        TargetKind::Fastboot { places, .. } => {
            let marked = |places| {
                let states = marked_states(&Syscalls::default(), places);
                states.map_err(|error| io::Error::other(error.to_string()))
            };
            let states = marked(places)?.into_iter().chain(marked(&places.beside())?);
            states.map(|(slot, path)| found_at(slot, None, path)).collect()
        }
    };
    found.sort_by(|one, other| other.cmp(one));
    Ok(found)
}

/// Returns the directories whose entries are the results of a target.
pub fn result_directories(target: &Target) -> Vec<PathBuf> {
    match &target.kind {
        TargetKind::Tree { directory } => vec![directory.clone()],
        TargetKind::Fastboot { places, .. } => vec![places.states(), places.beside().states()],
    }
}

fn trees(directory: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let Some((slot, base_slot)) = entry.file_name().to_str().and_then(slots) else { continue };
        // A directory without that file is not a result.
        if entry.path().join(LAST_ENTRY).is_file() {
            found.push(found_at(slot, base_slot, entry.path()));
        }
    }
    Ok(found)
}

fn found_at(slot: u64, base_slot: Option<u64>, path: PathBuf) -> Found {
    let changed = fs::metadata(&path).map_or(0, |metadata| metadata.mtime());
    let changed_unix_ms = u64::try_from(changed).unwrap_or(0) * 1000;
    Found { slot, base_slot, path, changed_unix_ms }
}

/// Parses the name of a tree: `<slot>` or `<base slot>-<slot>`, in canonical form.
fn slots(name: &str) -> Option<(u64, Option<u64>)> {
    let number = |text: &str| {
        let number: u64 = text.parse().ok()?;
        (number.to_string() == text).then_some(number)
    };
    match name.split_once('-') {
        None => Some((number(name)?, None)),
        Some((base, slot)) => {
            let (base, slot) = (number(base)?, number(slot)?);
            (base < slot).then_some((slot, Some(base)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_told_by_name_and_by_what_is_in_them() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["7", "7-9", "9-7", "07", "+7", "x", ".8.unsnap-staging", "11", "12"] {
            fs::create_dir(scratch.path().join(name)).unwrap();
            fs::write(scratch.path().join(name).join(LAST_ENTRY), "1.2.0").unwrap();
        }
        fs::remove_file(scratch.path().join("11").join(LAST_ENTRY)).unwrap();
        let kind = TargetKind::Tree { directory: scratch.path().to_owned() };
        let target = Target { name: "t".to_owned(), kind, keep: 1 };
        let found = results(&target).unwrap();
        let slots: Vec<_> = found.iter().map(|found| (found.slot, found.base_slot)).collect();
        assert_eq!(slots, [(12, None), (9, Some(7)), (7, None)]);
    }
}
