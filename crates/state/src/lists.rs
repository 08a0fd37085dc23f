//! Lists of a state and of its shadows, which no archive contains.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use unsnap_commit::{CommitError, Target};
use unsnap_failure::Remedy;
use unsnap_ring::Syscalls;

use crate::{
    ORIGIN_FILE, Origin, SHADOW_LIST, ShadowList, State, StorageFile,
    format::{FASTBOOT_VERSION, NO_OBSOLETE_ACCOUNTS, OBSOLETE_ACCOUNTS, STORAGES_LIST, Storage},
};

impl State {
    /// Writes the lists of a state whose storages have been created. `slot` is the slot of the
    /// snapshot; `origin` is written beside the lists of the shadow; `linked` tells whether every
    /// storage has its second name.
    pub fn write_lists(
        &self,
        target: &Target,
        slot: u64,
        files: &[StorageFile],
        origin: Option<&Origin>,
        linked: bool,
    ) -> Result<(), CommitError> {
        let storages: Vec<Storage> = files.iter().map(StorageFile::storage).collect();
        let list =
            self.format.encode_storages(&storages).map_err(|error| CommitError::Request {
                reason: format!("a validator's state cannot hold these storages: {error}"),
                remedy: Remedy::advice("use another archive"),
            })?;
        let at = |step, errno| CommitError::Staging { step, path: self.directory.clone(), errno };
        let calls = &target.calls;
        if let Some(state) = target.directories.first() {
            for (name, bytes) in [
                (STORAGES_LIST, &list[..]),
                (OBSOLETE_ACCOUNTS, &NO_OBSOLETE_ACCOUNTS),
                // The order does not matter: one rename publishes all files once they are durable.
                (FASTBOOT_VERSION, self.format.version().as_bytes()),
            ] {
                write_new(calls, state, name, bytes)
                    .map_err(|errno| at("write the lists of", errno))?;
            }
        }
        if linked {
            let shadows = target.directories.iter().skip(self.destinations());
            for (index, shadow) in shadows.enumerate() {
                let here = files.iter().filter(|file| file.destination == index + 1);
                let storages = here.map(|file| (file.storage(), file.bytes)).collect();
                let list = ShadowList { slot, storages }.encode();
                let origin = origin.map(|origin| (ORIGIN_FILE, origin.encode().into_bytes()));
                for (name, bytes) in origin.into_iter().chain([(SHADOW_LIST, list)]) {
                    write_new(calls, shadow, name, &bytes)
                        .map_err(|errno| at("write the shadow's list of", errno))?;
                }
            }
        }
        Ok(())
    }
}

/// Writes a small file that must not exist.
fn write_new(calls: &Syscalls, directory: &OwnedFd, name: &str, bytes: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = calls.openat(directory, name, flags, Mode::from_raw_mode(0o644))?;
    // Overrides the umask.
    calls.fchmod(&file, Mode::from_raw_mode(0o644))?;
    let mut written = 0;
    while written < bytes.len() {
        written += match calls.write(&file, &bytes[written..])? {
            0 => return Err(Errno::NOSPC),
            count => count,
        };
    }
    Ok(())
}
