//! Tree targets: a directory tree for each archive.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use unsnap_commit::CommitError;
use unsnap_fastboot::{Candidate, FastbootError, REMOVED_PREFIX, move_aside};
use unsnap_layout::ArchiveName;
use unsnap_pass::{Archive, Handles, LayoutKind};
use unsnap_ring::Syscalls;
use unsnap_source::DigestKind;
use unsnap_unpack::{
    DigestUse, FileByFile, Options, Report, Single, Tree, UnpackError, Unpacker, Verify,
};

use super::{
    results::{Found, LAST_ENTRY},
    work::{Product, Work},
};

/// Suffix of staging directories: that of `<name>` is `.<name>.unsnap-staging` (crate unpack,
/// `staging`).
const STAGING_SUFFIX: &str = ".unsnap-staging";

/// Returns the directory name of an archive's tree.
pub fn destination(name: &ArchiveName) -> String {
    match name.base_slot() {
        None => name.slot().to_string(),
        Some(base) => format!("{base}-{}", name.slot()),
    }
}

/// Suffix of the directory in which a tree is made that replaces one of the same name.
const NEW_SUFFIX: &str = ".unsnap-new";

/// Unpacks the archives of a pair that have no tree yet, the full archive first. A tree of another
/// archive of the same slot is replaced when the new one is complete. A client's archive replaces
/// also a tree of which it is not known what it was made from.
pub fn unpack(
    work: &Work,
    directory: &Path,
    products: &mut Vec<Product>,
) -> Result<(), FastbootError> {
    for archive in work.pair.archives() {
        let path = directory.join(destination(&archive.name));
        let product = |report| Product {
            path: path.clone(),
            report,
            archive: Some(archive.name.to_string()),
            adopted: None,
        };
        // A tree is published as a whole or not at all; an empty directory is replaced.
        if !path.join(LAST_ENTRY).is_file() {
            products.push(product(Some(Box::new(unpack_to(work, archive, &path)?))));
            continue;
        }
        let known = work.made_from.get(&path);
        if known.map_or(!work.submitted, |hash| *hash == archive.name.hash()) {
            products.push(product(None));
            continue;
        }
        tracing::info!(
            path = %path.display(), archive = %archive.path.display(),
            "the tree is of another archive of the same slot; replacing it"
        );
        let new = directory.join(destination(&archive.name) + NEW_SUFFIX);
        let report = unpack_to(work, archive, &new)?;
        let calls = Syscalls::default();
        // The sweep that follows the job removes it.
        move_aside(&calls, &path, directory)?;
        publish(&calls, directory, &new, &path)?;
        products.push(product(Some(Box::new(report))));
    }
    Ok(())
}

/// Unpacks one archive. The directory must be absent or empty.
fn unpack_to(work: &Work, archive: &Candidate, path: &Path) -> Result<Report, FastbootError> {
    let verify = match work.unpacking.verify {
        // The accounts of an incremental archive alone do not add up to the snapshot's hash.
        Verify::Accounts { .. } if archive.name.base_slot().is_some() => Verify::Structure,
        verify => verify,
    };
    let (archive, layout) = (Archive::File(archive.path.clone()), LayoutKind::Snapshot);
    let (tree, digest) = (Tree::new(path), DigestUse::Report(DigestKind::Xxh3));
    let run = |mut options: Options| {
        options.min_free = work.unpacking.min_free;
        let unpacker = Unpacker::new(options.with_pass(work.unpacking.pass.clone()));
        let (progress, cancel) = (work.progress.clone(), work.cancel.clone());
        unpacker.with_handles(Handles { progress, cancel }).run()
    };
    let afresh =
        Options::for_tree(Single::new(archive.clone(), layout, verify)?, tree.clone(), digest);
    let Some(checks) = verify.file_by_file() else { return Ok(run(afresh)?) };
    let source = FileByFile::new(archive, layout, checks);
    Ok(match run(Options::for_resumable_tree(source, tree, digest)) {
        // The staging directory is that of another archive of the same slot.
        Err(UnpackError::NotResumable { .. }) => run(afresh)?,
        result => result?,
    })
}

/// Gives a complete tree its name, durably.
fn publish(
    calls: &Syscalls,
    directory: &Path,
    new: &Path,
    path: &Path,
) -> Result<(), FastbootError> {
    let at = |errno| CommitError::Staging { step: "publish", path: path.to_owned(), errno };
    let (Some(from), Some(to)) = (new.file_name(), path.file_name()) else { return Ok(()) };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let opened = calls.open(directory, flags).map_err(at)?;
    calls.rename_to_own(&opened, from, &opened, to).map_err(at)?;
    Ok(calls.fsync(&opened).map_err(at)?)
}

/// Moves useless directories among the trees aside. Returns all paths to remove: staging
/// directories of interrupted runs, except those of the trees named in `spare`, which will be
/// resumed; replacements that were not published; outdated results; and directories moved aside by
/// earlier sweeps.
pub fn sweep(
    directory: &Path,
    spare: &BTreeSet<String>,
    outdated: &[PathBuf],
) -> Result<Vec<PathBuf>, FastbootError> {
    let calls = Syscalls::default();
    let mut moved = Vec::new();
    for path in outdated {
        moved.extend(move_aside(&calls, path, directory)?);
    }
    let at = |errno| FastbootError::Search { path: directory.to_owned(), errno };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let opened = calls.open(directory, flags).map_err(at)?;
    for (name, _) in calls.entries(&opened).map_err(at)? {
        let Ok(name) = name.to_str() else { continue };
        let path = directory.join(name);
        if name.ends_with(NEW_SUFFIX) {
            moved.extend(move_aside(&calls, &path, directory)?);
            continue;
        }
        let staged = name.strip_prefix('.').and_then(|name| name.strip_suffix(STAGING_SUFFIX));
        if staged.is_some_and(|staged| !spare.contains(staged)) {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            // A running process holds the directory's lock. We hold it until after the rename.
            let Ok(staging) = calls.open(&path, flags) else { continue };
            if calls.lock(&staging).is_ok() {
                moved.extend(move_aside(&calls, &path, directory)?);
            }
        } else if OsStr::new(name).as_encoded_bytes().starts_with(REMOVED_PREFIX.as_bytes())
            && !moved.contains(&path)
        {
            moved.push(path);
        }
    }
    Ok(moved)
}

/// Returns the results to remove: those in none of the newest `keep` pairs. A pair is an
/// incremental tree with its full tree, or a full tree alone. Trees newer than the oldest kept pair
/// stay.
pub fn outdated(found: &[Found], keep: usize) -> Vec<PathBuf> {
    let full = |slot| found.iter().find(|one| one.base_slot.is_none() && one.slot == slot);
    let mut pairs: Vec<(u64, Vec<&Found>)> = found
        .iter()
        .filter_map(|one| match one.base_slot {
            None => Some((one.slot, vec![one])),
            Some(base) => Some((one.slot, vec![full(base)?, one])),
        })
        .collect();
    pairs.sort_by_key(|(slot, parts)| Reverse((*slot, parts.len())));
    pairs.truncate(keep);
    let oldest = pairs.last().map_or(0, |(slot, _)| *slot);
    let kept: BTreeSet<&Path> =
        pairs.iter().flat_map(|(_, parts)| parts.iter().map(|part| &*part.path)).collect();
    let goes = |one: &&Found| one.slot <= oldest && !kept.contains(&*one.path);
    found.iter().filter(goes).map(|one| one.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn going(names: &[&str], keep: usize) -> Vec<String> {
        let found: Vec<Found> = names
            .iter()
            .map(|name| {
                let (base_slot, slot) = match name.split_once('-') {
                    Some((base, slot)) => (base.parse().ok(), slot),
                    None => (None, *name),
                };
                let slot = slot.parse().unwrap();
                Found { slot, base_slot, path: name.into(), changed_unix_ms: 0 }
            })
            .collect();
        let go = outdated(&found, keep);
        go.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn the_newest_pairs_stay() {
        assert_eq!(going(&[], 1), [""; 0]);
        assert_eq!(going(&["100"], 1), [""; 0]);
        assert_eq!(going(&["100", "200"], 1), ["100"]);
        assert_eq!(going(&["100", "200"], 2), [""; 0]);
        assert_eq!(going(&["100", "100-150", "100-180"], 1), ["100-150"]);
        assert_eq!(going(&["100", "100-150", "100-180"], 2), [""; 0]);
        assert_eq!(going(&["100", "100-150", "200"], 1), ["100", "100-150"]);
        assert_eq!(going(&["100", "100-150", "200", "200-210"], 2), ["100", "100-150"]);
        // A full tree stays as long as anything upon it does.
        assert_eq!(going(&["100", "100-300", "200"], 1), ["200"]);
        // Without its base a tree is no pair; a new one is left alone, an old one is not.
        assert_eq!(going(&["100", "90-300"], 1), [""; 0]);
        assert_eq!(going(&["100", "90-95"], 1), ["90-95"]);
    }

    #[test]
    fn what_is_of_no_use_is_swept_aside() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path();
        for name in [
            ".5.unsnap-staging",
            ".6.unsnap-staging",
            "4",
            "6.unsnap-new",
            ".6.unsnap-new.unsnap-staging",
            ".unsnap-removed-0",
            "other",
        ] {
            std::fs::create_dir(directory.join(name)).unwrap();
        }
        let spare = BTreeSet::from(["6".to_owned()]);
        let removed = sweep(directory, &spare, &[directory.join("4")]).unwrap();
        assert_eq!(removed.len(), 5);
        for path in removed {
            assert!(path.is_dir(), "{}", path.display());
            std::fs::remove_dir(path).unwrap();
        }
        let mut left: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".6.unsnap-staging", "other"]);
    }
}
