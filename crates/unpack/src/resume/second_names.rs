//! Storages of an interrupted state, and their second names in the shadows.

use std::{
    collections::{HashMap, HashSet},
    os::fd::OwnedFd,
};

use rustix::{fs::AtFlags, io::Errno};
use unsnap_ring::Syscalls;

use super::unusable::{Unusable, failed};

/// Returns the names of all files in the accounts paths, each with the index of its destination.
/// `directories` holds the state's own directory and those of the accounts paths.
pub(super) fn storages_in(
    calls: &Syscalls,
    directories: &[OwnedFd],
) -> Result<HashMap<String, usize>, Unusable> {
    let mut found = HashMap::new();
    for (index, directory) in directories.iter().enumerate().skip(1) {
        for (name, _) in calls.entries(directory).map_err(failed)? {
            found.extend(name.into_string().ok().map(|name| (name, index)));
        }
    }
    Ok(found)
}

/// Gives each of `storages`, which are in `run`, its second name in `shadow`, and removes everything
/// else from there. The interrupted run linked storages a moment after they were complete, so some
/// that its journal lists may have no second name.
pub(super) fn complete<'s>(
    calls: &Syscalls,
    run: &OwnedFd,
    shadow: &OwnedFd,
    storages: impl Iterator<Item = &'s str>,
) -> Result<(), Unusable> {
    let mut missing: HashSet<&str> = storages.collect();
    let inode = |directory, name: &str| calls.lstatat(directory, name).map(|stat| stat.st_ino);
    for (name, _) in calls.entries(shadow).map_err(failed)? {
        if let Some(storage) = name.to_str().ok().filter(|storage| missing.contains(storage))
            && inode(shadow, storage).map_err(failed)? == inode(run, storage).map_err(failed)?
        {
            missing.remove(storage);
        } else {
            calls.unlinkat(shadow, &*name, AtFlags::empty()).map_err(failed)?;
        }
    }
    for name in missing {
        // Where there are no hard links, a state is not resumed.
        calls.linkat(run, name, shadow, name).map_err(|errno| match errno {
            Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP => {
                Unusable::Because(format!("cannot link {name}: {errno}"))
            }
            errno => failed(errno),
        })?;
    }
    Ok(())
}
