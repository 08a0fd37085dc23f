//! Check of destinations without creating anything.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, OFlags},
    io::Errno,
};
use unsnap_ring::Syscalls;

use super::{
    Staging, resolve_all,
    taking::{check_empty, open_holder},
};
use crate::CommitError;

impl Staging {
    /// Checks that files could be staged for these destinations and published there: each is absent
    /// or empty, and something can be created in it or beside it. Creates nothing, and leaves files
    /// of an interrupted run alone.
    ///
    /// Returns an open directory on the file system of each destination, with the destination's
    /// path. The errors are those of [`Staging::prepare`].
    pub fn check(
        calls: &Syscalls,
        destinations: &[&Path],
    ) -> Result<Vec<(OwnedFd, PathBuf)>, CommitError> {
        let checked = |path: PathBuf| Ok((check(calls, &path)?, path));
        resolve_all(calls, destinations)?.into_iter().map(checked).collect()
    }
}

fn check(calls: &Syscalls, path: &Path) -> Result<OwnedFd, CommitError> {
    let at = |step, errno| CommitError::Staging { step, path: path.to_owned(), errno };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let existing = match calls.open(path, flags) {
        Ok(directory) => {
            check_empty(calls, &directory, path)?;
            Some(directory)
        }
        Err(Errno::NOENT) => None,
        Err(Errno::NOTDIR) => {
            let reason = "exists and is not a directory";
            return Err(CommitError::NotClean { path: path.to_owned(), reason });
        }
        Err(errno) => return Err(at("open", errno)),
    };
    let holder = path.parent().map(|parent| open_holder(calls, parent)).transpose()?;
    let refused = match &holder {
        Some(holder) => can_create_in(holder).err(),
        None => Some(Errno::NOENT),
    };
    match (existing, refused) {
        (Some(directory), None) => Ok(directory),
        // Then files are staged in the destination.
        (Some(directory), Some(_)) => {
            let step = "create the staging directory of";
            can_create_in(&directory).map_err(|errno| at(step, errno))?;
            Ok(directory)
        }
        (None, Some(errno)) => Err(at("create the staging directory of", errno)),
        (None, None) => holder.ok_or_else(|| at("open", Errno::NOENT)),
    }
}

/// Asks the kernel for the effective user.
fn can_create_in(directory: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::accessat(directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use unsnap_failure::{Code, Failure};

    use super::*;

    fn code(path: &Path) -> Result<PathBuf, Code> {
        let checked = Staging::check(&Syscalls::default(), &[path]);
        checked.map(|mut found| found.remove(0).1).map_err(|error| error.code())
    }

    #[test]
    fn a_destination_is_absent_or_empty_and_nothing_is_made() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        assert_eq!(code(&root.join("absent")), Ok(root.join("absent")));
        assert!(!root.join("absent").exists());
        fs::create_dir(root.join("empty")).unwrap();
        assert_eq!(code(&root.join("empty")), Ok(root.join("empty")));
        fs::write(root.join("file"), "").unwrap();
        assert_eq!(code(&root.join("file")), Err(Code::NotClean));
        assert_eq!(code(&root), Err(Code::NotClean));
        assert_eq!(code(&root.join("no/such")), Err(Code::Request));
        let calls = Syscalls::default();
        let nested = [root.join("a"), root.join("a/b")];
        let overlap = Staging::check(&calls, &[&nested[0], &nested[1]]).unwrap_err();
        assert_eq!(overlap.code(), Code::Request);
        let names = fs::read_dir(&root).unwrap().count();
        assert_eq!(names, 2, "only what this test has made");
    }
}
