//! Pruning: files of unsnap that nobody needs any more.
//!
//! Only the service prunes. The start of a validator does not wait for it.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{AtFlags, FileType},
    io::Errno,
};
use unsnap_failure::Failure;
use unsnap_layout::ArchiveName;
use unsnap_ring::Syscalls;
use unsnap_state::SHADOW_DIRECTORY;

use crate::{
    FastbootError, LedgerLock, Places, SearchDirs,
    bad_archives::BAD_SUFFIX,
    files::{failed, open_directory},
    is_starting,
    quarters::Quarters,
    removal::{Removal, move_aside},
    states::state_directories,
    survey::Shadow,
};

/// Subdirectory of downloaded archives, as in [`Candidates`](crate::Candidates).
const REMOTE: &str = "remote";

/// A bad archive that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedArchive {
    /// Path, with the suffix of bad archives.
    pub path: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Time since it was set aside.
    pub age: Duration,
}

/// Removes archives that were set aside as bad more than `age_max` before `now`. They are told by
/// their names: an archive's, with the suffix `.unsnap-bad`. Their age is that of the last change of
/// the inode, which is their renaming.
///
/// # Errors
///
/// Of the first directory or file that cannot be examined or removed. Others are tried all the same.
pub fn prune_bad_archives(
    calls: &Syscalls,
    dirs: &SearchDirs,
    now: SystemTime,
    age_max: Duration,
) -> (Vec<PrunedArchive>, Result<(), FastbootError>) {
    let (mut pruned, mut result) = (Vec::new(), Ok(()));
    let mut holders = vec![&dirs.full];
    if dirs.incremental != dirs.full {
        holders.push(&dirs.incremental);
    }
    for holder in holders.into_iter().flat_map(|path| [path.clone(), path.join(REMOTE)]) {
        result = result.and(prune_in(calls, &holder, now, age_max, &mut pruned));
    }
    (pruned, result)
}

fn prune_in(
    calls: &Syscalls,
    holder: &Path,
    now: SystemTime,
    age_max: Duration,
    pruned: &mut Vec<PrunedArchive>,
) -> Result<(), FastbootError> {
    let directory = match open_directory(calls, holder) {
        Ok(directory) => directory,
        Err(error) if matches!(error.errno(), Some(Errno::NOENT | Errno::NOTDIR)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let entries = calls.entries(&directory).map_err(|errno| failed("read", holder, errno))?;
    let mut result = Ok(());
    for (name, kind) in entries {
        let is_bad = |name: &str| {
            let archive = name.strip_suffix(BAD_SUFFIX)?;
            ArchiveName::parse(archive).ok().map(|_| ())
        };
        let Some(text) = name.to_str().ok().filter(|name| is_bad(name).is_some()) else { continue };
        if kind != FileType::RegularFile {
            continue;
        }
        let path = holder.join(text);
        let one = || {
            let stat = calls.lstatat(&directory, &*name)?;
            let nanoseconds = u32::try_from(stat.st_ctime_nsec).unwrap_or(0);
            let since = u64::try_from(stat.st_ctime).unwrap_or(0);
            let since = SystemTime::UNIX_EPOCH + Duration::new(since, nanoseconds);
            // A clock that was set back makes it young.
            let age = now.duration_since(since).unwrap_or_default();
            if age <= age_max {
                return Ok(None);
            }
            calls.unlinkat(&directory, &*name, AtFlags::empty())?;
            let bytes = u64::try_from(stat.st_size).unwrap_or(0);
            Ok(Some(PrunedArchive { path: path.clone(), bytes, age }))
        };
        match one() {
            Ok(one) => pruned.extend(one),
            // Another process was faster.
            Err(Errno::NOENT) => {}
            Err(errno) => result = result.and(Err(failed("remove the bad archive", &path, errno))),
        }
    }
    result
}

/// Longest time since its last checkpoint for which an interrupted run is kept. A service that is
/// stopped or crashes goes on at once, and newer full archives, which appear about every twelve
/// hours, make it useless. A guess.
pub const UNFINISHED_AGE_MAX: Duration = Duration::from_hours(24);

/// What becomes of the files of an interrupted run that can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// They stay until they are too old at this time.
    StaysAt(SystemTime),
    /// They go: space is short.
    Goes,
}

impl Unfinished {
    /// Returns whether files stay whose last checkpoint was taken then. A clock that was set back
    /// makes them young.
    fn stays(self, since: SystemTime) -> bool {
        match self {
            Self::StaysAt(now) => {
                now.duration_since(since).unwrap_or_default() <= UNFINISHED_AGE_MAX
            }
            Self::Goes => false,
        }
    }
}

/// Moves aside staging directories that no process uses, in a validator's directories and in those
/// of a ready state and its successor, and finds what earlier runs moved aside. The caller removes all of it.
///
/// Where another unsnap is at work, on the ledger or on the ready state, its directories are left
/// out: it removes its own. The files of an interrupted run that can be resumed stay until they are
/// [too old](UNFINISHED_AGE_MAX), or go if `unfinished` says so.
pub fn prune_leftovers(
    calls: &Syscalls,
    places: &Places,
    unfinished: Unfinished,
) -> Result<Removal, FastbootError> {
    let mut all = Removal::default();
    let add = |all: &mut Removal, places: &Places| {
        all.staged(calls, places)?;
        all.extend(Removal::left_over(calls, places)?.paths());
        Ok::<_, FastbootError>(())
    };
    match LedgerLock::refuse_ours(calls, &places.ledger) {
        Ok(()) => add(&mut all, places)?,
        Err(error) if error.is_in_the_way() => {}
        Err(error) => return Err(error),
    }
    for find in [Quarters::find_ready, Quarters::find_next] {
        let quarters = match find(calls, places) {
            Ok(Some(quarters)) => quarters,
            Ok(None) => continue,
            Err(error) if error.is_in_the_way() => continue,
            Err(error) => return Err(error),
        };
        match quarters.unfinished_since(calls)? {
            None => add(&mut all, &quarters.places)?,
            Some(since) if unfinished.stays(since) => {}
            Some(_) => all.extend(quarters.discard(calls)?.paths()),
        }
    }
    Ok(all.once())
}

/// Moves aside shadows of states that no longer exist: no storages can be repaired from them, but
/// they keep every storage on the disk that a validator has removed. A validator removes the state
/// that it started from when it has made a newer one. Shadows without a readable list go as well.
///
/// If the ledger is free, its lock is held while they are moved, for milliseconds: a state whose
/// shadow is in place may be about to appear. Does nothing if another unsnap holds the lock.
pub fn prune_shadows(calls: &Syscalls, places: &Places) -> Result<Removal, FastbootError> {
    let mut removal = Removal::default();
    if orphans(calls, places)?.is_empty() {
        return Ok(removal);
    }
    if is_starting(places) {
        return Ok(removal);
    }
    let _lock = match LedgerLock::take(&places.ledger) {
        Ok(lock) => Some(lock),
        Err(FastbootError::Running { .. }) => None,
        Err(error) if error.is_in_the_way() => return Ok(removal),
        Err(error) => return Err(error),
    };
    // A state may have appeared, or gone, before the lock was there.
    for accounts in orphans(calls, places)? {
        removal.extend(move_aside(calls, &accounts.join(SHADOW_DIRECTORY), &accounts)?);
    }
    Ok(removal)
}

/// Returns the accounts paths whose shadows belong to no state.
fn orphans(calls: &Syscalls, places: &Places) -> Result<Vec<PathBuf>, FastbootError> {
    let states = state_directories(calls, places)?;
    let shadows = Shadow::all(calls, places)?;
    let is_needed = |shadow: &Shadow| {
        let list = shadow.list.as_ref();
        list.is_some_and(|list| states.iter().any(|(slot, _)| *slot == list.slot))
    };
    let orphaned = |(shadow, _): &(Shadow, _)| shadow.directory.is_some() && !is_needed(shadow);
    let paths = shadows.into_iter().zip(&places.accounts).filter(orphaned);
    Ok(paths.map(|(_, accounts)| accounts.clone()).collect())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt};

    use unsnap_state::{SHADOW_LIST, ShadowList};

    use super::*;

    const NAME: &str = "snapshot-7-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn bad_archives_go_at_their_age_and_nothing_else_does() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::create_dir_all(at("a/remote")).unwrap();
        fs::create_dir(at("b")).unwrap();
        let bad = format!("{NAME}.unsnap-bad");
        let kept = [
            format!("a/{NAME}"),
            "a/x.unsnap-bad".to_owned(),
            format!("a/{NAME}.unsnap-bad.copy"),
            format!("other-{bad}"),
        ];
        let gone = [format!("a/remote/{bad}"), format!("a/{bad}"), format!("b/{bad}")];
        for name in kept.iter().chain(&gone) {
            fs::write(at(name), "12345").unwrap();
        }
        // A directory of that name is none of ours.
        fs::create_dir(at(&format!("b/{bad}.d"))).unwrap();
        fs::rename(at(&format!("b/{bad}.d")), at("b/remote")).unwrap();
        fs::create_dir(at(&format!("b/remote/{bad}"))).unwrap();
        let dirs = SearchDirs { full: at("a"), incremental: at("b") };
        let changed = fs::metadata(at(&gone[2])).unwrap();
        let changed = Duration::new(changed.ctime().try_into().unwrap(), 999_999_999);
        let changed = SystemTime::UNIX_EPOCH + changed;
        let prune = |now, age_max| {
            let (pruned, result) = prune_bad_archives(&Syscalls::default(), &dirs, now, age_max);
            result.unwrap();
            pruned
        };
        // Too young, and from the future.
        assert_eq!(prune(changed, DAY), []);
        assert_eq!(prune(SystemTime::UNIX_EPOCH, Duration::ZERO), []);
        let pruned = prune(changed + 8 * DAY, 7 * DAY);
        let mut paths: Vec<_> = pruned.iter().map(|archive| archive.path.clone()).collect();
        paths.sort();
        assert_eq!(paths, gone.each_ref().map(|name| at(name)));
        assert!(pruned.iter().all(|one| one.bytes == 5 && one.age > 7 * DAY), "{pruned:?}");
        for name in &kept {
            assert!(at(name).is_file(), "{name}");
        }
        assert!(at(&format!("b/remote/{bad}")).is_dir());
        assert!(gone.iter().all(|name| !at(name).exists()));
    }

    /// A ledger whose directories exist, and an accounts path with a shadow of this slot.
    fn with_shadow(scratch: &Path, slot: u64) -> (Places, PathBuf) {
        let mut places = Places::new(scratch.join("ledger"));
        places.accounts = vec![scratch.join("accounts")];
        let shadow = scratch.join("accounts").join(SHADOW_DIRECTORY);
        fs::create_dir_all(&shadow).unwrap();
        fs::create_dir_all(places.states()).unwrap();
        let list = ShadowList { slot, storages: Vec::new() };
        fs::write(shadow.join(SHADOW_LIST), list.encode()).unwrap();
        (places, shadow)
    }

    #[test]
    fn a_shadow_goes_with_its_state() {
        let scratch = tempfile::tempdir().unwrap();
        let (places, shadow) = with_shadow(scratch.path(), 7);
        let prune = || prune_shadows(&Syscalls::default(), &places).unwrap().paths();
        // Without its mark it is still the state of that shadow.
        fs::create_dir(places.state(7)).unwrap();
        assert_eq!(prune(), [] as [PathBuf; 0]);
        fs::create_dir(places.state(8)).unwrap();
        assert_eq!(prune(), [] as [PathBuf; 0]);
        fs::remove_dir(places.state(7)).unwrap();
        let [moved] = &prune()[..] else { panic!() };
        assert!(!shadow.exists() && moved.join(SHADOW_LIST).is_file());
        assert_eq!(prune(), [] as [PathBuf; 0]);

        // Beside a validator as well. A list that cannot be read says nothing of a state.
        let lock = fs::File::create(places.ledger.join("ledger.lock")).unwrap();
        lock.lock().unwrap();
        fs::create_dir(&shadow).unwrap();
        fs::write(shadow.join(SHADOW_LIST), "damaged").unwrap();
        assert_eq!(prune().len(), 1);
        assert!(!shadow.exists());
    }

    #[test]
    fn what_a_run_can_resume_stays_for_a_day_or_until_space_is_short() {
        let scratch = tempfile::tempdir().unwrap();
        let (places, _) = with_shadow(scratch.path(), 7);
        let (calls, next) = (Syscalls::default(), places.next());
        let staged = next.snapshots.join(".unsnap-staged-state");
        let journal = staged.join(".unsnap-journal");
        let lay = || {
            fs::create_dir_all(next.accounts[0].join(".unsnap-staged-run")).unwrap();
            fs::create_dir_all(&staged).unwrap();
            fs::write(&journal, "").unwrap();
            fs::metadata(&journal).unwrap().modified().unwrap()
        };
        let prune = |unfinished| {
            let moved = prune_leftovers(&calls, &places, unfinished).unwrap().paths();
            for path in &moved {
                fs::remove_dir_all(path).unwrap();
            }
            moved
        };
        let written = lay();
        for age in [Duration::ZERO, UNFINISHED_AGE_MAX] {
            assert_eq!(prune(Unfinished::StaysAt(written + age)), [] as [PathBuf; 0]);
        }
        // From the future.
        assert_eq!(prune(Unfinished::StaysAt(SystemTime::UNIX_EPOCH)), [] as [PathBuf; 0]);
        let old = Unfinished::StaysAt(written + UNFINISHED_AGE_MAX + Duration::from_secs(1));
        for unfinished in [old, Unfinished::Goes] {
            assert_eq!(prune(unfinished).len(), 2);
            assert!(!next.snapshots.exists() && !next.accounts[0].exists());
            lay();
        }
        // Part of it has been published: it cannot be resumed.
        fs::create_dir(next.accounts[0].join(SHADOW_DIRECTORY)).unwrap();
        assert_eq!(prune(Unfinished::StaysAt(written)).len(), 2);
        assert!(!staged.exists());
    }

    #[test]
    fn what_runs_have_left_goes_unless_one_is_at_work_there() {
        let scratch = tempfile::tempdir().unwrap();
        let (places, _) = with_shadow(scratch.path(), 7);
        let beside = places.beside();
        let left = [
            places.snapshots.join(".unsnap-removed-3"),
            places.snapshots.join(".unsnap-staged-state"),
            places.accounts[0].join(".unsnap-removed-0"),
            beside.accounts[0].join(".unsnap-staged-run"),
            beside.snapshots.join(".unsnap-removed-1"),
        ];
        for path in &left {
            fs::create_dir_all(path).unwrap();
        }
        let calls = Syscalls::default();
        let prune = || prune_leftovers(&calls, &places, Unfinished::Goes).unwrap().paths();
        // Another process prepares a state, beside.
        let ready = Quarters::find_ready(&calls, &places).unwrap().unwrap();
        assert_eq!(prune().len(), 3);
        assert!(left[3].exists());
        drop(ready);
        let paths = prune();
        assert_eq!(paths.len(), 5, "{paths:?}");
        for path in &paths {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with(".unsnap-removed-") && path.is_dir(), "{paths:?}");
        }
    }
}
