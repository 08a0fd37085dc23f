//! Archives that proved bad, and the names under which validators ignore them.

use std::path::{Path, PathBuf};

use unsnap_ring::Syscalls;

use crate::{
    FastbootError, FileIdentity, KnownBad, SetAside,
    files::{failed, open_directory},
};

/// Suffix that is appended to the name of a bad archive. Validators ignore such names.
pub(crate) const BAD_SUFFIX: &str = ".unsnap-bad";

/// Archives that proved bad, in this run or in earlier ones.
pub(crate) struct BadArchives {
    /// Archives that still have their own names.
    named: Vec<KnownBad>,
    renamed: Vec<SetAside>,
    /// The first error of this run.
    first_error: Option<FastbootError>,
}

impl BadArchives {
    /// Starts with archives that proved bad in earlier runs.
    pub fn new(known: &[KnownBad]) -> Self {
        Self { named: known.to_vec(), renamed: Vec::new(), first_error: None }
    }

    /// Returns the paths of known bad archives that have not been replaced since.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.named.iter().filter(|bad| bad.exists()).map(|bad| &*bad.path)
    }

    /// Adds an archive. `files` holds the archives' identities from before they were read.
    pub fn add(&mut self, path: PathBuf, files: &[(PathBuf, FileIdentity)], error: FastbootError) {
        if let Some((_, file)) = files.iter().find(|(known, _)| *known == path) {
            self.named.push(KnownBad { path, file: *file, reason: error.to_string() });
        }
        self.first_error.get_or_insert(error);
    }

    /// Renames every bad archive, so that a validator ignores it, unless another file has taken its
    /// name since. Returns all archives renamed so far.
    pub fn rename(&mut self, calls: &Syscalls) -> Result<Vec<SetAside>, FastbootError> {
        while let Some(bad) = self.named.pop() {
            if bad.exists() {
                let now = rename_one(calls, &bad.path)?;
                self.renamed.push(SetAside { path: bad.path, now, reason: bad.reason });
            }
        }
        Ok(self.renamed.clone())
    }

    /// Returns the first error of this run.
    pub fn into_first_error(self) -> Option<FastbootError> {
        self.first_error
    }
}

fn rename_one(calls: &Syscalls, path: &Path) -> Result<PathBuf, FastbootError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(path.to_owned());
    };
    let mut new_name = name.to_owned();
    new_name.push(BAD_SUFFIX);
    let holder = open_directory(calls, parent)?;
    let renamed = calls.renameat(&holder, name, &holder, new_name.as_os_str());
    renamed
        .and_then(|()| calls.fsync(&holder))
        .map_err(|errno| failed("rename the bad archive", path, errno))?;
    Ok(parent.join(new_name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn bad(directory: &Path, name: &str) -> KnownBad {
        let path = directory.join(name);
        fs::write(&path, name).unwrap();
        let file = FileIdentity::of(&path).unwrap();
        KnownBad { path, file, reason: "cut".to_owned() }
    }

    #[test]
    fn a_bad_archive_is_renamed_once_and_another_file_of_its_name_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let known = [bad(scratch.path(), "a.tar.zst"), bad(scratch.path(), "b.tar.zst")];
        fs::remove_file(&known[1].path).unwrap();
        fs::write(&known[1].path, "downloaded again").unwrap();
        let mut archives = BadArchives::new(&known);
        assert_eq!(archives.paths().collect::<Vec<_>>(), [known[0].path.as_path()]);
        for _ in 0..2 {
            let renamed = archives.rename(&Syscalls::default()).unwrap();
            assert_eq!(renamed.len(), 1);
            assert_eq!(renamed[0].now, scratch.path().join("a.tar.zst.unsnap-bad"));
            assert!(renamed[0].now.exists() && !known[0].path.exists());
        }
        assert!(known[1].path.exists());
        assert!(archives.into_first_error().is_none());
    }
}
