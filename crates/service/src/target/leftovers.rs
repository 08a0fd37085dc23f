//! Directories of old states that were moved aside and not removed yet.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use unsnap_fastboot::{Places, REMOVED_PREFIX};

/// Most files whose sizes are summed up: twice a mainnet state with second names of all storages.
const FILES_MAX: u64 = 2_000_000;

/// Depth to which directories are entered, as when they are removed.
const DEPTH_MAX: u32 = 64;

/// Lists the leftovers of a validator's states, of the ready ones beside them, and of their
/// successors.
pub fn of_states(places: &Places) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for places in [places.clone(), places.beside(), places.next()] {
        let states = places.states();
        for holder in places.accounts.iter().chain([&places.snapshots, &states]) {
            let entries = match fs::read_dir(holder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_name().as_encoded_bytes().starts_with(REMOVED_PREFIX.as_bytes()) {
                    found.push(entry.path());
                }
            }
        }
    }
    Ok(found)
}

/// Returns the space that removing a directory frees, in bytes. What cannot be read counts nothing.
pub fn size(path: &Path) -> u64 {
    let (mut bytes, mut files) = (0, 0);
    add(path, DEPTH_MAX, &mut files, &mut bytes);
    bytes
}

fn add(path: &Path, depth: u32, files: &mut u64, bytes: &mut u64) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        *files += 1;
        if *files > FILES_MAX {
            return;
        }
        if metadata.is_dir() && depth > 0 {
            add(&entry.path(), depth - 1, files, bytes);
        } else {
            // Each name of a storage with two names frees half of it.
            *bytes += metadata.blocks() * 512 / metadata.nlink().max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_found_beside_a_state_and_in_it_and_measured() {
        let scratch = tempfile::tempdir().unwrap();
        let places = Places::new(scratch.path());
        assert_eq!(of_states(&places).unwrap(), [] as [PathBuf; 0]);
        for path in [
            "accounts/.unsnap-removed-0/deep",
            "accounts/run",
            "accounts/.unsnap-next/.unsnap-removed-5",
            "accounts/.unsnap-ready/.unsnap-removed-7",
            "snapshots/.unsnap-removed-3",
            ".unsnap-next/snapshots/.unsnap-removed-2",
            ".unsnap-ready/snapshots/39",
            ".unsnap-removed-1",
        ] {
            fs::create_dir_all(scratch.path().join(path)).unwrap();
        }
        let mut found = of_states(&places).unwrap();
        found.sort();
        let expected = [
            ".unsnap-next/snapshots/.unsnap-removed-2",
            ".unsnap-removed-1",
            "accounts/.unsnap-next/.unsnap-removed-5",
            "accounts/.unsnap-ready/.unsnap-removed-7",
            "accounts/.unsnap-removed-0",
            "snapshots/.unsnap-removed-3",
        ];
        assert_eq!(found, expected.map(|path| scratch.path().join(path)));

        let leftover = scratch.path().join("accounts/.unsnap-removed-0");
        assert_eq!(size(&leftover), 0);
        fs::write(leftover.join("deep/1.1"), vec![1; 100_000]).unwrap();
        fs::File::open(leftover.join("deep/1.1")).unwrap().sync_all().unwrap();
        let one = size(&leftover);
        assert!(one >= 100_000, "{one}");
        fs::hard_link(leftover.join("deep/1.1"), leftover.join("1.1")).unwrap();
        assert_eq!(size(&leftover), one, "two names of one file");
        assert_eq!(size(&scratch.path().join("none")), 0);
    }
}
