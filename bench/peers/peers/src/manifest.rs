//! What an archive holds, and whether a directory holds it.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::path::Path;

/// A number of regular files and the sum of their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Regular files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

impl Extent {
    /// What a manifest lists.
    pub fn of_manifest(manifest: &Path) -> Result<Self> {
        let sizes = sizes(manifest)?;
        Ok(Self { files: sizes.len() as u64, bytes: sizes.iter().sum() })
    }

    /// What is below a directory.
    pub fn of_directory(directory: &Path) -> Result<Self> {
        let mut extent = Self::default();
        for entry in fs::read_dir(directory)
            .with_context(|| format!("cannot list {}", directory.display()))?
        {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                extent += Self::of_directory(&entry.path())?;
            } else if kind.is_file() {
                extent += Self { files: 1, bytes: entry.metadata()?.len() };
            }
        }
        Ok(extent)
    }
}

impl AddAssign for Extent {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// The sizes in a manifest of lines `<hash> <size> <path>`.
pub fn sizes(manifest: &Path) -> Result<Vec<u64>> {
    let file =
        File::open(manifest).with_context(|| format!("cannot open {}", manifest.display()))?;
    BufReader::new(file)
        .lines()
        .map(|line| {
            let line = line?;
            let size = line.split(' ').nth(1).and_then(|size| size.parse().ok());
            size.with_context(|| format!("no size in {line:?} of {}", manifest.display()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_and_directories_compare() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir_all(tree.join("accounts")).unwrap();
        fs::write(tree.join("version"), "1.2.0").unwrap();
        fs::write(tree.join("accounts/1.2"), "account").unwrap();
        let manifest = directory.path().join("manifest");
        fs::write(&manifest, "ab 5 version\ncd 7 accounts/1.2\n").unwrap();
        let extent = Extent::of_manifest(&manifest).unwrap();
        assert_eq!(extent, Extent { files: 2, bytes: 12 });
        assert_eq!(Extent::of_directory(&tree).unwrap(), extent);
        fs::write(&manifest, "ab five version\n").unwrap();
        assert!(sizes(&manifest).is_err());
    }
}
