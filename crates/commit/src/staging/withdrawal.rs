//! Taking a publication back.

use std::{ffi::CStr, os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use unsnap_ring::Syscalls;

use super::{
    files::{empty, names_directory},
    names::{DIRECTORY_MODE, MARKS},
    place::{Place, Publication},
};

impl Place {
    /// Takes a publication back, as far as it went. The files are then staged again, and `remove`
    /// removes them.
    pub fn withdraw(&mut self) {
        let calls = &self.calls;
        let from = self.stage_in.as_ref().unwrap_or(&self.holder);
        let result = match &mut self.publication {
            Publication::Rename { name, replaces_empty }
            | Publication::RenameWhenCleared { name, replaced_empty: replaces_empty } => {
                // If the staging directory still has its name, nothing was renamed.
                match calls.lstatat(from, &*self.staging_name) {
                    Ok(_) => Ok(()),
                    // What has the final name may be another's.
                    Err(_) => names_directory(calls, &self.holder, name, &self.staging)
                        .and_then(|is_ours| if is_ours { Ok(()) } else { Err(Errno::NOENT) })
                        .and_then(|()| {
                            calls.renameat(&self.holder, &**name, from, &*self.staging_name)
                        })
                        .inspect_err(|_| strip(calls, &self.staging, &self.path))
                        .and_then(|()| {
                            let mode = Mode::from_raw_mode(DIRECTORY_MODE);
                            if *replaces_empty {
                                calls.mkdirat(&self.holder, &**name, mode)
                            } else {
                                Ok(())
                            }
                        }),
                }
            }
            Publication::MoveEntries { moved } => {
                // The last entry moves back first, so that the destination no longer looks
                // complete. If every entry had been moved, the staging directory is gone.
                let mode = Mode::from_raw_mode(DIRECTORY_MODE);
                match calls.mkdirat(&self.holder, &*self.staging_name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => {
                        tracing::error!(%errno, "cannot recreate the staging directory");
                    }
                }
                let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let staging = calls.openat(&self.holder, &*self.staging_name, flags, Mode::empty());
                let back = |name: &CStr| {
                    let staging = staging.as_ref().map_err(|errno| *errno)?;
                    calls.renameat(&self.holder, name, staging, name)
                };
                let mut all = Ok(());
                for name in moved.drain(..).rev() {
                    let moved = back(&name);
                    if moved.is_err() && MARKS.contains(&&*name) {
                        remove_mark(calls, &self.holder, &name, &self.path);
                    }
                    all = all.and(moved);
                }
                all
            }
        };
        let result = result.and_then(|()| calls.fsync(&self.holder));
        if let Err(errno) = result {
            tracing::error!(%errno, path = %self.path.display(), "cannot take back a publication");
        }
    }
}

/// Removes the files of a destination that keeps its name because it cannot be renamed back. It must
/// not look complete: the other destinations are about to be removed.
fn strip(calls: &Syscalls, directory: &OwnedFd, path: &Path) {
    for mark in MARKS {
        remove_mark(calls, directory, mark, path);
    }
    if let Err(errno) = empty(calls, directory) {
        tracing::error!(%errno, path = %path.display(), "cannot remove files");
    }
}

fn remove_mark(calls: &Syscalls, directory: &OwnedFd, mark: &CStr, path: &Path) {
    match calls.unlinkat(directory, mark, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => {
            tracing::error!(%errno, path = %path.display(), ?mark, "cannot remove a mark");
        }
    }
}
