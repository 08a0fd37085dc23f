//! Archives that proved bad, and the names under which validators ignore them.

use std::path::{Path, PathBuf};

use unsnap_ring::Syscalls;

use crate::{
    FastbootError, FileIdentity, KnownBad, SearchDirs, SetAside,
    files::{failed, open_directory},
    open_files::writer_of,
};

/// Suffix that is appended to the name of a bad archive. Validators ignore such names.
pub(crate) const BAD_SUFFIX: &str = ".unsnap-bad";

/// Archives that proved bad, in this run or in earlier ones.
///
/// They are renamed, so that a validator does not choose them over a state that is ready. That is a
/// help and no condition: what cannot be renamed keeps its name, with a warning.
pub(crate) struct BadArchives {
    /// The only directories in which archives are renamed.
    dirs: SearchDirs,
    /// Archives that still have their own names.
    named: Vec<KnownBad>,
    renamed: Vec<SetAside>,
    /// The first error of this run.
    first_error: Option<FastbootError>,
}

impl BadArchives {
    /// Starts with archives that proved bad in earlier runs.
    pub fn new(known: &[KnownBad], dirs: SearchDirs) -> Self {
        Self { dirs, named: known.to_vec(), renamed: Vec::new(), first_error: None }
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
    /// name since, it has changed, or is being written. Returns all archives renamed so far.
    pub fn rename(&mut self, calls: &Syscalls) -> Vec<SetAside> {
        while let Some(bad) = self.named.pop() {
            let path = bad.path.display();
            if !bad.exists() {
                tracing::info!(%path, "a bad archive has changed since, and keeps its name");
                continue;
            }
            let Some(true_path) = self.dirs.holding(&bad.path) else {
                tracing::info!(%path, "a bad archive elsewhere keeps its name");
                continue;
            };
            if let Some(writer) = writer_of(&true_path) {
                tracing::warn!(%path, writer, "a bad archive is being written, and keeps its name");
                continue;
            }
            match rename_one(calls, &bad.path) {
                Ok(now) => {
                    self.renamed.push(SetAside { path: bad.path, now, reason: bad.reason });
                }
                Err(error) => {
                    tracing::warn!(%error, "a bad archive keeps its name: a validator may choose it");
                }
            }
        }
        self.renamed.clone()
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
    use std::{fs, process::Command};

    use rustix::io::Errno;
    use unsnap_ring::FaultPlan;

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
        let mut archives = BadArchives::new(&known, SearchDirs::new(scratch.path()));
        assert_eq!(archives.paths().collect::<Vec<_>>(), [known[0].path.as_path()]);
        for _ in 0..2 {
            let renamed = archives.rename(&Syscalls::default());
            assert_eq!(renamed.len(), 1);
            assert_eq!(renamed[0].now, scratch.path().join("a.tar.zst.unsnap-bad"));
            assert!(renamed[0].now.exists() && !known[0].path.exists());
        }
        assert!(known[1].path.exists());
        assert!(archives.into_first_error().is_none());
    }

    #[test]
    fn only_archives_in_the_search_directories_are_renamed() {
        let scratch = tempfile::tempdir().unwrap();
        let places = ["full", "full/remote", "incremental", "full/deep", "elsewhere"]
            .map(|name| scratch.path().join(name));
        let known = places.each_ref().map(|place| {
            fs::create_dir(place).unwrap();
            bad(place, "a.tar.zst")
        });
        // By a link to one of them.
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&places[2], &link).unwrap();
        let dirs = SearchDirs { full: places[0].clone(), incremental: link };
        let renamed = BadArchives::new(&known, dirs).rename(&Syscalls::default());
        let mut renamed: Vec<_> = renamed.into_iter().map(|one| one.path).collect();
        renamed.sort();
        assert_eq!(renamed, [0, 1, 2].map(|index| known[index].path.clone()));
        assert!(known[3].path.exists() && known[4].path.exists());
    }

    #[test]
    fn an_archive_that_cannot_be_renamed_or_is_being_written_keeps_its_name() {
        let scratch = tempfile::tempdir().unwrap();
        let known = [bad(scratch.path(), "a.tar.zst"), bad(scratch.path(), "b.tar.zst")];
        let written = fs::File::options().append(true).open(&known[1].path).unwrap();
        let mut writer = Command::new("sleep").arg("600").stdin(written).spawn().unwrap();
        let plan = FaultPlan::new(0).fail_from(0, Errno::ROFS);
        let mut archives = BadArchives::new(&known, SearchDirs::new(scratch.path()));
        let renamed = archives.rename(&Syscalls::with_faults(plan));
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(renamed, []);
        assert!(known.iter().all(|bad| bad.path.exists()));
    }
}
