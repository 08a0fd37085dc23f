//! Base of a state: storages of a full snapshot that an earlier state has already.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{FileType, Stat},
    io::Errno,
};
use unsnap_commit::Target;

use crate::{Origin, ShadowList, State, StateError, Storage, StorageFile};

/// Links between two looks at whether the run was cancelled. A link takes some microseconds.
const LINKS_PER_LOOK: usize = 256;

/// Time of a change to a file, in seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed(i64, i64);

impl From<&Stat> for Changed {
    fn from(stat: &Stat) -> Self {
        Self(stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(i64::MAX))
    }
}

/// The shadow of one accounts path.
#[derive(Debug)]
pub struct BaseShadow {
    /// Its directory.
    pub directory: OwnedFd,
    /// Its list.
    pub list: ShadowList,
    /// When the list was written, which was after its storages.
    pub written: Changed,
}

/// Storages of a full snapshot that an earlier state has already. A new state that builds on the same
/// full snapshot links them: a validator never writes to storages that exist when it starts, so a
/// hard link is as good as a copy.
#[derive(Debug)]
pub struct Base {
    origin: Origin,
    /// The shadow of each accounts path. Their lists have only storages of the full snapshot.
    shadows: Vec<BaseShadow>,
}

impl Base {
    /// Returns the base that shadows hold, in the order of the accounts paths. Storages with slots above that of the origin's full archive are left
    /// out: they are from an incremental archive.
    pub fn new(origin: Origin, mut shadows: Vec<BaseShadow>) -> Self {
        let slot = origin.full.slot();
        for shadow in &mut shadows {
            shadow.list.storages.retain(|(storage, _)| storage.slot <= slot);
        }
        Self { origin, shadows }
    }

    fn storages(&self) -> impl Iterator<Item = &(Storage, u64)> {
        self.shadows.iter().flat_map(|shadow| &shadow.list.storages)
    }

    /// Returns the origin of the storages.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the least id above those of all storages. Ids are unique in a state.
    pub fn next_id(&self) -> u32 {
        let above = |(storage, _): &(Storage, u64)| storage.id.saturating_add(1);
        self.storages().map(above).max().unwrap_or(0)
    }

    /// Returns the number of storages and the sum of their sizes in bytes.
    pub fn size(&self) -> (u64, u64) {
        self.storages().fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes))
    }

    /// Returns the sum of the sizes in bytes of the storages in each accounts path.
    pub fn bytes_by_path(&self) -> impl Iterator<Item = u64> {
        let sum = |shadow: &BaseShadow| shadow.list.storages.iter().map(|(_, bytes)| bytes).sum();
        self.shadows.iter().map(sum)
    }

    /// Links all storages into the staging directories of `state`, and into those of its shadow.
    /// Returns them. `cancelled` is asked now and then.
    ///
    /// Fails with [`StateError::NotLinked`] if a storage is missing, has another size, was changed
    /// after the earlier state was complete, or cannot be linked. What has been linked is removed with the staging directories.
    pub fn link(
        &self,
        state: &State,
        target: &Target,
        cancelled: impl Fn() -> bool,
    ) -> Result<Vec<StorageFile>, StateError> {
        if self.shadows.len() != state.accounts.len() {
            let reason = "the earlier state has other accounts paths".to_owned();
            return Err(StateError::NotLinked { reason });
        }
        let mut files = Vec::new();
        for (index, from) in self.shadows.iter().enumerate() {
            let destination = index + 1;
            let run = target.directories.get(destination);
            let shadow = target.directories.get(state.destinations() + index);
            let shadow = shadow.filter(|_| state.shadow);
            for (number, &(storage, bytes)) in from.list.storages.iter().enumerate() {
                if number % LINKS_PER_LOOK == 0 && cancelled() {
                    return Err(StateError::Cancelled);
                }
                let (calls, name) = (&target.calls, storage.to_string());
                let refuse =
                    |errno: Errno| StateError::NotLinked { reason: format!("{name}: {errno}") };
                for to in run.into_iter().chain(shadow) {
                    calls.linkat(&from.directory, &*name, to, &*name).map_err(refuse)?;
                }
                // The other link is to the same file.
                if let Some(run) = run {
                    let stat = calls.lstatat(run, &*name).map_err(refuse)?;
                    check(&name, &stat, bytes, from.written)?;
                }
                files.push(StorageFile::new(storage, bytes, destination));
            }
        }
        Ok(files)
    }
}

/// Refuses what is not a file of this size, or was changed after the earlier state was complete.
fn check(name: &str, stat: &Stat, bytes: u64, complete: Changed) -> Result<(), StateError> {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || u64::try_from(stat.st_size) != Ok(bytes) {
        let reason = format!("{name} has {} bytes, {bytes} expected", stat.st_size);
        return Err(StateError::NotLinked { reason });
    }
    if Changed::from(stat) > complete {
        let reason = format!("{name} was changed after the earlier state was complete");
        return Err(StateError::NotLinked { reason });
    }
    Ok(())
}
