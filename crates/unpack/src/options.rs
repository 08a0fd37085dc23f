//! Options of a run: archives, destination and settings.

use std::path::PathBuf;

use unsnap_commit::Spot;
use unsnap_create::FileSink;
use unsnap_failure::{Knob, Remedy};
use unsnap_fit::{PreflightMode, Reserve};
use unsnap_layout::{Layout, Pair};
use unsnap_pass::{Archive, Archives, LayoutKind, PassError};
use unsnap_source::{Digest, DigestKind};
use unsnap_state::State;

/// Options of a run. [`Options::new`] refuses combinations that make no sense.
#[derive(Clone, Debug)]
pub struct Options {
    source: Source,
    destination: Destination,
    digest: DigestUse,
    /// Options for reading archives, and limits on the use of the machine.
    pub pass: unsnap_pass::Options,
    /// Mode of the check for free space. Runs that write nothing are not checked.
    pub preflight: PreflightMode,
    /// Free space to leave to other processes on each destination's file system. Archives that
    /// leave less are refused, and a run ends when less is free. By default none is left.
    pub min_free: Reserve,
    /// Receiver of each file as it becomes complete. It may read the file while the run continues.
    pub files: Option<FileSink>,
}

/// The archives to unpack.
#[derive(Clone, Debug)]
pub struct Source {
    archives: Archives,
    layout: LayoutKind,
    verify: Verify,
}

/// Checks of a snapshot's content, beyond those of the archive itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// No checks. The archive's name does not matter either.
    None,
    /// The bank file matches the archive's name, and every storage is a sequence of whole account
    /// records.
    #[default]
    Structure,
    /// As `Structure`; in addition, the newest versions of all accounts add up to the hash in the
    /// archive's name and to the capitalization in its bank file.
    Accounts {
        /// Bytes of memory for 16 bytes per record; the rest goes to an unnamed temporary file.
        /// `None` for 1 GiB.
        memory_bytes: Option<u64>,
    },
}

/// Use of the archives' digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestUse {
    /// The archive is not digested.
    None,
    /// The digest appears in the report.
    Report(DigestKind),
    /// The digest appears in the report; an archive with another digest is a bad archive.
    Expect(Digest),
}

/// Destination of the files.
#[derive(Clone, Debug)]
pub enum Destination {
    /// No destination: the archives are only checked.
    Nowhere {
        /// File that receives the name, size and digest of every file, one line of JSON each.
        manifest: Option<PathBuf>,
    },
    /// A tree with the paths of the archive.
    Tree(Tree),
    /// A validator's state. The caller clears its places before it is published: see
    /// [`Unpacker::stage`](crate::Unpacker::stage).
    State(State),
}

/// A tree of files as destination.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Directory that will hold the tree. It must be absent or empty, and its parent must exist.
    pub output: PathBuf,
    /// Directories that receive the storages, without subdirectories, instead of
    /// `<output>/accounts`. They must be absent or empty.
    pub accounts: Vec<PathBuf>,
    /// Continue an interrupted run of the same archive to the same destinations, and keep the
    /// complete files of this run if it is interrupted or fails, unless the archive is bad. Without
    /// it, the files of an interrupted run are removed, and those of this run if it fails.
    pub resume: bool,
    /// Bytes of files between two checkpoints; `None` for 16 GiB. With `resume`, checkpoints are
    /// also taken early and by time. A killed run has to write the files since the last one again.
    pub checkpoint_bytes: Option<u64>,
    /// File that receives the name, size and digest of every file, one line of JSON each.
    pub manifest: Option<PathBuf>,
}

impl Tree {
    /// Returns a tree in `output` with defaults for everything else.
    pub fn new(output: impl Into<PathBuf>) -> Self {
        Self {
            output: output.into(),
            accounts: Vec::new(),
            resume: false,
            checkpoint_bytes: None,
            manifest: None,
        }
    }
}

impl Source {
    /// Returns a source of a single archive.
    ///
    /// Fails with [`PassError::Request`] if accounts are to be verified and the archive's name does
    /// not contain the hash of a full set of accounts.
    pub fn new(archive: Archive, layout: LayoutKind, verify: Verify) -> Result<Self, PassError> {
        if let Verify::Accounts { .. } = verify {
            let name = archive.snapshot_name().filter(|_| layout == LayoutKind::Snapshot);
            let Some(name) = name else {
                return Err(PassError::request(format!(
                    "the accounts of {} cannot be verified: only the name of a snapshot archive, \
                     snapshot-<SLOT>-<HASH>.tar.zst, says what their hash should be",
                    archive.display_name()
                )));
            };
            if name.base_slot().is_some() {
                return Err(PassError::request_with(
                    "the accounts of an incremental archive alone cannot be verified",
                    Remedy::Set(Knob::Incremental, "give its full archive, and this one by {}"),
                ));
            }
        }
        Ok(Self { archives: archive.into(), layout, verify })
    }

    /// Returns a source of a full snapshot and the incremental one that builds on it.
    pub fn pair(pair: Pair<Archive>, verify: Verify) -> Self {
        Self { archives: pair.into(), layout: LayoutKind::Snapshot, verify }
    }

    /// Returns a source of one snapshot with [`Verify::Structure`].
    pub fn snapshot(archive: Archive) -> Self {
        let (layout, verify) = (LayoutKind::Snapshot, Verify::Structure);
        Self { archives: archive.into(), layout, verify }
    }

    /// Returns the archives, the full one first.
    pub fn archives(&self) -> &[Archive] {
        self.archives.as_slice()
    }

    /// Returns the rules for the archives' entries.
    pub fn layout(&self) -> LayoutKind {
        self.layout
    }

    /// Returns the checks of their content.
    pub fn verify(&self) -> Verify {
        self.verify
    }

    /// Returns whether bank files and storages are checked.
    pub(crate) fn checks_content(&self) -> bool {
        self.layout == LayoutKind::Snapshot && self.verify != Verify::None
    }

    /// Returns whether accounts are verified.
    pub(crate) fn verifies_accounts(&self) -> bool {
        matches!(self.verify, Verify::Accounts { .. })
    }
}

impl DigestUse {
    /// Returns the kind of digest, if there is one.
    pub fn kind(self) -> Option<DigestKind> {
        match self {
            Self::None => None,
            Self::Report(kind) => Some(kind),
            Self::Expect(digest) => Some(digest.kind()),
        }
    }

    /// Returns the digest that the archive must have.
    pub fn expected(self) -> Option<Digest> {
        match self {
            Self::Expect(digest) => Some(digest),
            Self::None | Self::Report(_) => None,
        }
    }
}

impl Options {
    /// Returns the options for unpacking `source` into `destination`, with defaults for everything
    /// else.
    ///
    /// Fails with [`PassError::Request`] for a tree of two archives, for resuming with verification
    /// of accounts, and for a state without accounts paths, from archives without a snapshot's
    /// name, or with an expected digest, since the old state is gone when the digest is known.
    pub fn new(
        source: Source,
        destination: Destination,
        digest: DigestUse,
    ) -> Result<Self, PassError> {
        let refuse = |reason: &str| Err(PassError::request(reason));
        match &destination {
            Destination::Tree(_) if source.archives().len() > 1 => {
                return refuse(
                    "a full and an incremental archive are unpacked together into a validator's \
                     state only, not into a tree",
                );
            }
            Destination::Tree(tree) if tree.resume && source.verifies_accounts() => {
                return refuse("accounts cannot be verified in a run that resumes");
            }
            Destination::Nowhere { .. } | Destination::Tree(_) => {}
            Destination::State(state) => {
                let named = |archive: &Archive| archive.snapshot_name().is_some();
                if source.layout != LayoutKind::Snapshot || !source.archives().iter().all(named) {
                    return refuse(
                        "a validator's state needs archives with a snapshot's file name",
                    );
                }
                if state.accounts.is_empty() {
                    let reason = "a validator's state needs an accounts path";
                    return Err(PassError::request_with(reason, Remedy::NameAccounts));
                }
                if digest.expected().is_some() {
                    return refuse("a validator's state cannot be made with an expected digest");
                }
            }
        }
        Ok(Self {
            source,
            destination,
            digest,
            pass: unsnap_pass::Options::default(),
            preflight: PreflightMode::default(),
            min_free: Reserve::NONE,
            files: None,
        })
    }

    /// Returns the options for checking `source` without writing anything.
    pub fn check(source: Source) -> Self {
        Self {
            source,
            destination: Destination::Nowhere { manifest: None },
            digest: DigestUse::Report(DigestKind::Xxh3),
            pass: unsnap_pass::Options::default(),
            preflight: PreflightMode::default(),
            min_free: Reserve::NONE,
            files: None,
        }
    }

    /// Replaces the options for reading.
    #[must_use]
    pub fn with_pass(mut self, pass: unsnap_pass::Options) -> Self {
        self.pass = pass;
        self
    }

    /// Returns the archives and their checks.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the destination.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Returns the use of digests.
    pub fn digest(&self) -> DigestUse {
        self.digest
    }

    /// Returns the archives, the full one first.
    pub fn archives(&self) -> &[Archive] {
        self.source.archives()
    }

    /// Returns the first archive's name in messages.
    pub fn archive_name(&self) -> String {
        self.archives()[0].display_name()
    }

    /// Returns the rules for the entries of an archive. Without verification, a tree may be unpacked
    /// from a full snapshot under the name of another. The name of an incremental snapshot always
    /// counts: nothing else tells its base slot.
    pub(crate) fn rules(&self, archive: usize) -> Layout {
        let archives = self.source.archives();
        let ignores_name =
            self.source.verify == Verify::None && self.state().is_none() && archives.len() == 1;
        let name = archives
            .get(archive)
            .and_then(Archive::snapshot_name)
            .filter(|name| !ignores_name || name.base_slot().is_some());
        self.source.layout.rules_by_name(name, &self.pass.limits)
    }

    pub(crate) fn writes(&self) -> bool {
        !matches!(self.destination, Destination::Nowhere { .. })
    }

    pub(crate) fn state(&self) -> Option<&State> {
        match &self.destination {
            Destination::State(state) => Some(state),
            _ => None,
        }
    }

    pub(crate) fn resumes(&self) -> bool {
        matches!(&self.destination, Destination::Tree(tree) if tree.resume)
    }

    pub(crate) fn manifest(&self) -> Option<&PathBuf> {
        match &self.destination {
            Destination::Nowhere { manifest } | Destination::Tree(Tree { manifest, .. }) => {
                manifest.as_ref()
            }
            Destination::State(_) => None,
        }
    }
}

impl Destination {
    /// Returns the destination directories, the output first.
    pub(crate) fn paths(&self) -> Vec<&PathBuf> {
        match self {
            Self::Nowhere { .. } => Vec::new(),
            Self::Tree(tree) => std::iter::once(&tree.output).chain(&tree.accounts).collect(),
            Self::State(state) => {
                std::iter::once(&state.directory).chain(&state.accounts).collect()
            }
        }
    }

    /// Returns the directories over which storages are spread.
    pub(crate) fn accounts(&self) -> &[PathBuf] {
        match self {
            Self::Nowhere { .. } => &[],
            Self::Tree(tree) => &tree.accounts,
            Self::State(state) => &state.accounts,
        }
    }

    /// Returns the staging places: those of the destinations, then those of a state's shadows.
    pub(crate) fn spots(&self) -> Vec<Spot> {
        match self {
            Self::Nowhere { .. } => Vec::new(),
            Self::Tree(_) => self.paths().into_iter().map(|path| Spot::empty(path)).collect(),
            Self::State(state) => state.spots(),
        }
    }
}

#[cfg(test)]
mod tests {
    use unsnap_failure::{Failure, Family};

    use super::*;

    const HASH: &str = "qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU";

    fn full(slot: u64) -> Archive {
        Archive::File(format!("snapshot-{slot}-{HASH}.tar.zst").into())
    }

    fn incremental(base: u64, slot: u64) -> Archive {
        Archive::File(format!("incremental-snapshot-{base}-{slot}-{HASH}.tar.zst").into())
    }

    const ACCOUNTS: Verify = Verify::Accounts { memory_bytes: None };

    fn pair() -> Pair<Archive> {
        Pair::new(full(7), Some(incremental(7, 9))).unwrap()
    }

    #[test]
    fn accounts_are_verified_where_a_name_has_their_hash() {
        let new = |archive, layout| Source::new(archive, layout, ACCOUNTS);
        assert!(new(full(7), LayoutKind::Snapshot).is_ok());
        assert_eq!(Source::pair(pair(), ACCOUNTS).archives(), [full(7), incremental(7, 9)]);
        for (archive, layout) in [
            (Archive::Stdin, LayoutKind::Snapshot),
            (full(7), LayoutKind::Any),
            (incremental(7, 9), LayoutKind::Snapshot),
        ] {
            let error = new(archive, layout).unwrap_err();
            assert_eq!(error.family(), Family::Request, "{error}");
        }
    }

    #[test]
    fn combinations_without_a_meaning_are_refused() {
        let one = |verify| Source::new(full(7), LayoutKind::Snapshot, verify).unwrap();
        let report = DigestUse::Report(DigestKind::Xxh3);
        let new = |source, destination| Options::new(source, destination, report);
        let tree = |resume| Destination::Tree(Tree { resume, ..Tree::new("/x") });
        let state = |accounts| {
            let directory = PathBuf::from("/x/snapshots/7");
            let (format, shadow) = (unsnap_state::Format::V3, true);
            Destination::State(State { directory, accounts, format, shadow })
        };
        let pair = || Source::pair(pair(), Verify::Structure);
        assert!(new(pair(), Destination::Nowhere { manifest: None }).is_ok());
        assert!(new(pair(), state(vec!["/a".into()])).is_ok());
        assert!(new(pair(), tree(false)).is_err());
        assert!(new(pair(), state(vec![])).is_err());
        assert!(new(one(ACCOUNTS), tree(false)).is_ok());
        assert!(new(one(ACCOUNTS), tree(true)).is_err());
        let unnamed = Source::snapshot(Archive::Stdin);
        assert!(new(unnamed.clone(), tree(true)).is_ok());
        assert!(new(unnamed, state(vec!["/a".into()])).is_err());
        let expect = DigestUse::Expect(DigestKind::Xxh3.hasher().digest());
        assert!(Options::new(pair(), state(vec!["/a".into()]), expect).is_err());
    }
}
