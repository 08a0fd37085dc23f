//! Hostile archives: one function for each construct that has broken some archive reader, with the
//! result expected of unsnap.
//!
//! Everything else in such an archive is correct, so that it can only be refused for its own
//! reason. Constructs that look hostile but must be accepted are here too.
//!
//! The archives are meant to be unpacked into a directory `place/output` below the program's
//! working directory, with [`CANARY`] beside `place`. Then [`RELATIVE`] and [`ABSOLUTE`] lead to
//! it, both from the destination and from a staging directory beside it.
//!
//! A construct that is missing from its file's `ALL` is dead code, which the compiler reports.
//!
//! ```
//! use unsnap_testkit::hostile::{THEMES, Verdict};
//!
//! for (theme, constructs) in THEMES {
//!     for (name, make) in *constructs {
//!         let construct = make();
//!         if let Verdict::Refused { reason, .. } = construct.any {
//!             println!("{theme}/{name}: {reason}");
//!         }
//!     }
//! }
//! ```

mod ends;
mod extensions;
mod kinds;
mod links;
mod lz4;
mod numbers;
mod paths;
mod pax;
mod solana;
mod sparse;
mod zstd;

use crate::spec::{ArchiveSpec, Compression};
use crate::tar::{BLOCK_BYTES, TarBuilder, snapshot_head};

/// A file that must never change, relative to the working directory of a run.
pub const CANARY: &str = "outside/canary";

/// The directory of [`CANARY`], relative to the root of the unpacked tree.
pub const RELATIVE: &str = "../../outside";

/// The same directory as an absolute path, through a magic link.
pub const ABSOLUTE: &str = "/proc/self/cwd/outside";

/// The slot of every snapshot here.
pub const SLOT: u64 = 100;

/// A construct with its name.
pub type Named = (&'static str, fn() -> Construct);

/// All constructs.
pub const THEMES: &[(&str, &[Named])] = &[
    ("paths", paths::ALL),
    ("links", links::ALL),
    ("pax", pax::ALL),
    ("extensions", extensions::ALL),
    ("numbers", numbers::ALL),
    ("sparse", sparse::ALL),
    ("ends", ends::ALL),
    ("kinds", kinds::ALL),
    ("zstd", zstd::ALL),
    ("lz4", lz4::ALL),
    ("solana", solana::ALL),
];

/// An archive and the expected results.
#[derive(Clone, Debug)]
pub struct Construct {
    /// The name that the archive must have. It determines the slot of the snapshot.
    pub file_name: String,
    /// Its bytes.
    pub archive: Vec<u8>,
    /// Limits to pass by `--config` in place of the defaults.
    pub limits: Option<&'static str>,
    /// Path of the offending entry, as messages must show it.
    pub entry: Option<String>,
    /// Directories of the unpacked tree that hold no files.
    pub directories: Vec<&'static str>,
    /// Expected result of unpacking it as a snapshot.
    pub snapshot: Verdict,
    /// Expected result of unpacking it as any tar.
    pub any: Verdict,
}

/// The expected result for an archive.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is refused.
    Refused {
        /// Part of the message.
        reason: &'static str,
        /// The position that the message must name, if it is fixed: in the decoded stream for a
        /// defect of the tar, in the archive for a defect of the compression.
        at: Option<usize>,
    },
    /// It is unpacked.
    Accepted {
        /// Exactly these files, by path.
        files: Vec<(String, Vec<u8>)>,
    },
}

/// Lists the functions of a file with their names.
macro_rules! constructs {
    ($($name:ident),* $(,)?) => {
        /// Every construct of this file.
        pub(super) const ALL: &[super::Named] = &[$((stringify!($name), $name)),*];
    };
}
use constructs;

impl Construct {
    /// Creates a construct from these bytes, with no verdict yet: both layouts accept it, with no
    /// files.
    ///
    /// The name is a canonical one, and includes a compression even if there is none: archives are
    /// identified by their first bytes.
    fn of(archive: Vec<u8>, compression: Compression) -> Self {
        let spec = ArchiveSpec { slot: SLOT, compression, ..ArchiveSpec::default() };
        let accepted = Verdict::Accepted { files: Vec::new() };
        Self {
            file_name: spec.name(),
            archive,
            limits: None,
            entry: None,
            directories: Vec::new(),
            snapshot: accepted.clone(),
            any: accepted,
        }
    }

    /// Creates a construct from a plain tar.
    fn tar(archive: Vec<u8>) -> Self {
        Self::of(archive, Compression::Zstd)
    }

    /// Sets the entry that messages must name.
    fn entry(mut self, entry: impl Into<String>) -> Self {
        self.entry = Some(entry.into());
        self
    }

    fn limits(mut self, toml: &'static str) -> Self {
        self.limits = Some(toml);
        self
    }

    /// Both layouts refuse it, at the same position.
    fn refused(self, at: impl Into<Option<usize>>, reason: &'static str) -> Self {
        let at = at.into();
        self.refused_as_snapshot(at, reason).refused_as_any(at, reason)
    }

    fn refused_as_snapshot(mut self, at: impl Into<Option<usize>>, reason: &'static str) -> Self {
        self.snapshot = Verdict::Refused { reason, at: at.into() };
        self
    }

    fn refused_as_any(mut self, at: impl Into<Option<usize>>, reason: &'static str) -> Self {
        self.any = Verdict::Refused { reason, at: at.into() };
        self
    }

    /// Both layouts unpack [`good_files`] and these files.
    fn accepted(self, files: &[(&str, &[u8])]) -> Self {
        let mut accepted = self.accepted_as_any(files);
        accepted.snapshot = accepted.any.clone();
        accepted
    }

    /// As any tar it unpacks to [`good_files`] and these files.
    fn accepted_as_any(self, files: &[(&str, &[u8])]) -> Self {
        let more = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec()));
        self.accepted_as_any_with(good_files().into_iter().chain(more).collect())
    }

    /// As any tar it unpacks to exactly these files.
    fn accepted_as_any_with(mut self, files: Vec<(String, Vec<u8>)>) -> Self {
        self.any = Verdict::Accepted { files };
        self
    }
}

/// Returns the entries of a good snapshot before the storages.
fn head() -> TarBuilder {
    snapshot_head(SLOT, b"the bank", b"the status cache")
}

/// Returns the beginning of a good snapshot.
fn good_beginning() -> TarBuilder {
    head().account("accounts/90.7", &[7; 600])
}

/// Returns the offset of the first entry after [`good_beginning`].
fn behind() -> usize {
    good_beginning().len()
}

/// Appends the last entry of a good snapshot. It reveals where a reader thinks that entries begin.
fn good_end(tar: TarBuilder) -> Vec<u8> {
    tar.account("accounts/99.9", b"the last").finish()
}

/// Returns a plain tar with something between its good beginning and its good end.
fn between(append: impl FnOnce(TarBuilder) -> TarBuilder) -> Construct {
    Construct::tar(good_end(append(good_beginning())))
}

/// Returns a whole good snapshot.
fn good_tar() -> Vec<u8> {
    good_end(good_beginning())
}

/// Returns the files of a good snapshot.
fn good_files() -> Vec<(String, Vec<u8>)> {
    let files: [(&str, &[u8]); 5] = [
        ("version", b"1.2.0"),
        ("snapshots/status_cache", b"the status cache"),
        ("snapshots/100/100", b"the bank"),
        ("accounts/90.7", &[7; 600]),
        ("accounts/99.9", b"the last"),
    ];
    files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect()
}

/// Returns the length of this many blocks in bytes.
const fn blocks(count: usize) -> usize {
    count * BLOCK_BYTES
}

/// The snapshot layout's message for unknown names.
const FOREIGN: &str = "does not belong in a snapshot archive";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_good_parts_are_good() {
        let read = crate::tree::files(crate::tree::reference_entries(&good_tar()).unwrap());
        assert_eq!(read, good_files().into_iter().collect());
    }

    #[test]
    fn names_are_unique_and_no_two_archives_are_equal() {
        let mut names = BTreeSet::new();
        let mut archives = BTreeSet::new();
        for (theme, constructs) in THEMES {
            assert!(!constructs.is_empty(), "{theme}");
            for (name, make) in *constructs {
                assert!(names.insert((*theme, *name)), "{theme}/{name} occurs twice");
                let Construct { file_name, archive, limits, .. } = make();
                let hash = blake3::hash(&archive).to_hex();
                let unique = archives.insert((file_name, hash, limits));
                assert!(unique, "{theme}/{name} has the same archive as an earlier construct");
            }
        }
    }
}
