//! Waiting for the space of removed files.
//!
//! File systems give it back late. ext4 reports blocks as free at once, but hands them out only after
//! the transaction that freed them has been committed. XFS frees the blocks of removed files in the
//! background. A run that starts at once may fail with ENOSPC on a disk that has enough space.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use unsnap_fit::{FileSystem, Free, Resource, Shortage};

use crate::{
    FastbootError, Places,
    files::{failed, open_directory},
    request::Work,
};

/// Longest time for which a file system is waited for after its data is on the disk. A guess: XFS
/// took less than a second in tests.
const RETURN_MAX: Duration = Duration::from_secs(10);

/// Time between two looks at the free space. A guess.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits until the file systems that were too small have the needed space, or it is clear that they
/// do not get it: after `RETURN_MAX`, or when the work is cancelled. Too little space is no error
/// here, since the need is often an estimate: the watch over the run decides.
///
/// Fails if a file system cannot be examined or synced.
pub(crate) fn await_space(
    work: Work<'_>,
    places: &Places,
    shortage: &Shortage,
) -> Result<(), FastbootError> {
    let paths = places.accounts.iter().cloned().chain([places.snapshots.clone(), places.states()]);
    // Unpacking reports directories that cannot be opened.
    let opened = |path: PathBuf| Some((open_directory(work.calls, &path).ok()?, path));
    for system in FileSystem::of(work.calls, paths.filter_map(opened).collect())? {
        let system = system.keeping(work.request.min_free);
        let on_it = |short: &Shortage| short.device == system.device;
        if let Some(shortage) = shortage.retain(|short| Ok::<_, FastbootError>(on_it(short)))? {
            await_space_on(work, &system, &shortage)?;
        }
    }
    Ok(())
}

fn await_space_on(
    work: Work<'_>,
    system: &FileSystem,
    shortage: &Shortage,
) -> Result<(), FastbootError> {
    let started = Instant::now();
    loop {
        system.sync().map_err(|errno| failed("sync", &system.paths[0], errno))?;
        let free = system.free()?;
        let missing = shortage.retain(|short| Ok::<_, FastbootError>(!is_enough(short, &free)))?;
        let Some(missing) = missing else { return Ok(()) };
        if work.cancel.is_cancelled() {
            return Ok(());
        }
        if started.elapsed() >= RETURN_MAX {
            tracing::warn!("removed files have not given back enough space: {missing}");
            return Ok(());
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Returns whether a file system has what a shortage says is needed.
fn is_enough(short: &Shortage, free: &Free) -> bool {
    let available = match short.resource {
        Resource::Bytes => free.bytes,
        Resource::Inodes => free.inodes,
    };
    available.zip(short.needed).is_none_or(|(available, needed)| available >= needed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use rustix::io::Errno;
    use unsnap_pass::{CancelToken, Progress};
    use unsnap_ring::{Call, FaultPlan, Syscalls};

    use super::*;
    use crate::Request;

    /// Waits on the file system of a temporary directory, which is said to lack some of `needed`.
    fn awaited(needed: u64, calls: &Syscalls, cancel: &CancelToken) -> Result<(), FastbootError> {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_owned();
        let shortage = Shortage {
            resource: Resource::Bytes,
            file_system: path.display().to_string(),
            needed: Some(needed),
            exact: true,
            tar_bytes: None,
            announced: None,
            available: 0,
            min_free: None,
            device: path.metadata().unwrap().dev(),
            unpacking: false,
            others: Vec::new(),
        };
        let request = Request::new(Places { accounts: vec![path.clone()], ..Places::new(path) });
        let progress = Progress::default();
        let work = Work { request: &request, calls, progress: &progress, cancel };
        await_space(work, &request.places, &shortage)
    }

    #[test]
    fn it_ends_when_there_is_enough_and_when_it_is_cancelled() {
        let (calls, cancel) = (Syscalls::default(), CancelToken::default());
        awaited(1, &calls, &cancel).unwrap();
        cancel.cancel();
        awaited(u64::MAX, &calls, &cancel).unwrap();
    }

    #[test]
    fn space_counts_only_after_a_sync() {
        let plan = FaultPlan::new(0).fail_nth(Call::SyncFileSystem, 0, Errno::IO);
        let calls = Syscalls::with_faults(plan);
        let error = awaited(1, &calls, &CancelToken::default()).unwrap_err();
        assert!(error.to_string().contains("cannot sync"), "{error}");
    }
}
