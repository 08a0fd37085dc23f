//! Hostile archives: one function for each construct that has broken a reader of archives somewhere,
//! and what must become of it here.
//!
//! Everything else about such an archive is right, so that it can only be refused for its own
//! reason. Constructs that look hostile and must be accepted all the same are here too.
//!
//! Archives are meant to be unpacked into a directory `place/output` below the program's working
//! directory, with [`CANARY`] beside `place`. Then [`RELATIVE`] and [`ABSOLUTE`] lead to it, both
//! from the destination and from a staging directory beside it.
//!
//! A construct that is written and not listed in its file's `ALL` is dead code, which the compiler
//! reports.
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

/// A file that must never change, as seen from the working directory of a run.
pub const CANARY: &str = "outside/canary";

/// The directory of [`CANARY`] as links in the root of the unpacked tree reach it.
pub const RELATIVE: &str = "../../outside";

/// The same by an absolute path, which is a magic link as well.
pub const ABSOLUTE: &str = "/proc/self/cwd/outside";

/// The slot of every snapshot here.
pub const SLOT: u64 = 100;

/// A construct by its name.
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

/// An archive, and what must become of it.
#[derive(Clone, Debug)]
pub struct Construct {
    /// The name the archive must have: it says which slot the snapshot is of.
    pub file_name: String,
    /// Its bytes.
    pub archive: Vec<u8>,
    /// Limits to be given by `--config`, in place of the defaults.
    pub limits: Option<&'static str>,
    /// The path of the entry to blame, as messages must show it.
    pub entry: Option<String>,
    /// Directories that an unpacked tree has beyond those its files lie in.
    pub directories: Vec<&'static str>,
    /// What unpacking it as a snapshot must come to.
    pub snapshot: Verdict,
    /// What unpacking it as any tar must come to.
    pub any: Verdict,
}

/// What must become of an archive.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is refused.
    Refused {
        /// Part of the message.
        reason: &'static str,
        /// The position that the message must name, if it is always the same: of the decoded stream
        /// for what is wrong with the tar, of the archive for what is wrong with its compression.
        at: Option<usize>,
    },
    /// It is unpacked.
    Accepted {
        /// Exactly these files, by path.
        files: Vec<(String, Vec<u8>)>,
    },
}

/// Lists the functions of a file under their names.
macro_rules! constructs {
    ($($name:ident),* $(,)?) => {
        /// Every construct of this file.
        pub(super) const ALL: &[super::Named] = &[$((stringify!($name), $name)),*];
    };
}
use constructs;

impl Construct {
    /// An archive of these bytes, judged as yet by nobody: both layouts accept it, as holding no
    /// files.
    ///
    /// The name is a genuine one, and names a compression even if there is none: archives are told
    /// by their first bytes.
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

    /// A plain tar.
    fn tar(archive: Vec<u8>) -> Self {
        Self::of(archive, Compression::Zstd)
    }

    /// The entry that messages must name.
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

    /// Both layouts unpack [`good_files`] and these.
    fn accepted(self, files: &[(&str, &[u8])]) -> Self {
        let mut accepted = self.accepted_as_any(files);
        accepted.snapshot = accepted.any.clone();
        accepted
    }

    /// As any tar it becomes [`good_files`] and these.
    fn accepted_as_any(self, files: &[(&str, &[u8])]) -> Self {
        let more = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec()));
        self.accepted_as_any_with(good_files().into_iter().chain(more).collect())
    }

    /// As any tar it becomes these files and no others.
    fn accepted_as_any_with(mut self, files: Vec<(String, Vec<u8>)>) -> Self {
        self.any = Verdict::Accepted { files };
        self
    }
}

/// What precedes the storages of a good snapshot.
fn head() -> TarBuilder {
    snapshot_head(SLOT, b"the bank", b"the status cache")
}

/// A snapshot that is good so far.
fn good_beginning() -> TarBuilder {
    head().account("accounts/90.7", &[7; 600])
}

/// Where what comes behind [`good_beginning`] begins.
fn behind() -> usize {
    good_beginning().len()
}

/// The last entry of a good snapshot. It shows where a reader thinks that entries begin.
fn good_end(tar: TarBuilder) -> Vec<u8> {
    tar.account("accounts/99.9", b"the last").finish()
}

/// A plain tar with something between its good beginning and its good end.
fn between(append: impl FnOnce(TarBuilder) -> TarBuilder) -> Construct {
    Construct::tar(good_end(append(good_beginning())))
}

/// A whole good snapshot.
fn good_tar() -> Vec<u8> {
    good_end(good_beginning())
}

/// The files of a good snapshot.
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

/// Bytes of so many blocks.
const fn blocks(count: usize) -> usize {
    count * BLOCK_BYTES
}

/// What the snapshot layout says of names that it does not know.
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
                assert!(names.insert((*theme, *name)), "{theme}/{name} is there twice");
                let Construct { file_name, archive, limits, .. } = make();
                let hash = blake3::hash(&archive).to_hex();
                let unique = archives.insert((file_name, hash, limits));
                assert!(unique, "{theme}/{name} has an archive that was there before");
            }
        }
    }
}
