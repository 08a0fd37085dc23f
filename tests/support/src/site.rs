//! Directories for single tests.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use unsnap_testkit::{
    archive::write_archive,
    spec::ArchiveSpec,
    tree::{Tree, read_tree},
};

/// Returns the directory for scratch files in cargo's target directory, on the disk that the tests
/// are built on: the `CARGO_TARGET_TMPDIR` of the test programs, which libraries do not know when
/// they are compiled.
pub fn scratch_directory() -> PathBuf {
    // <target>/<profile>/deps/e2e-<hash>
    let test = std::env::current_exe().unwrap();
    let directory = test.ancestors().nth(3).unwrap().join("tmp");
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// A directory for one test. Nothing but a destination may appear in its [`place`](Self::place).
#[derive(Debug)]
pub struct Site {
    directory: TempDir,
}

impl Default for Site {
    fn default() -> Self {
        Self::new()
    }
}

impl Site {
    /// Creates one in the [`scratch_directory`].
    pub fn new() -> Self {
        Self::new_in(&scratch_directory())
    }

    /// Creates one in a directory.
    pub fn new_in(directory: &Path) -> Self {
        let directory = TempDir::new_in(directory).unwrap();
        let site = Self { directory };
        fs::create_dir(site.place()).unwrap();
        // Whatever happens, this must not be touched.
        fs::write(site.place().join("neighbour"), "mind your own business").unwrap();
        site
    }

    /// Returns the path of an archive or another file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the directory that destinations are created in.
    pub fn place(&self) -> PathBuf {
        self.path("place")
    }

    /// Returns the destination, which does not exist yet.
    pub fn output(&self) -> PathBuf {
        self.place().join("output")
    }

    /// Writes a file of the test, and returns its path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes an archive under its genuine name, unless it exists, and returns its path.
    pub fn archive(&self, spec: &ArchiveSpec) -> PathBuf {
        let path = self.path(&spec.name());
        if !path.exists() {
            let mut file = io::BufWriter::new(fs::File::create(&path).unwrap());
            write_archive(spec, &mut file).unwrap();
        }
        path
    }

    /// Removes a destination, and creates it again if it is to be empty.
    pub fn reset(&self, empty: bool) {
        let output = self.output();
        if output.exists() {
            fs::remove_dir_all(&output).unwrap();
        }
        if empty {
            fs::create_dir(&output).unwrap();
        }
    }

    /// Reads everything in the [`place`](Self::place), to be compared with its state later.
    pub fn state(&self) -> Tree {
        read_tree(&self.place()).unwrap()
    }

    /// Panics if anything has changed in the [`place`](Self::place): a file, a mode, a leftover.
    #[track_caller]
    pub fn assert_untouched(&self, before: &Tree, what: impl std::fmt::Display) {
        let after = self.state();
        assert!(after == *before, "{what}: was {before:?}, is {after:?}");
    }
}
