//! Options of a run: archives, destination and settings.

use std::{path::PathBuf, sync::Arc};

use unsnap_create::FileSink;
use unsnap_fit::{PreflightMode, Reserve};
use unsnap_layout::{Layout, Pair};
use unsnap_pass::Archive;
use unsnap_source::{Digest, DigestKind};
use unsnap_state::{Base, Origin, State};

use crate::{Destination, FileByFile, FileChecks, Single, Source, Tree, Upon, Verify};

/// Options of a run. There is one constructor for each destination. It takes only sources, checks
/// and digests that make sense with it.
#[derive(Clone, Debug)]
pub struct Options {
    source: Source,
    destination: Destination,
    resumes: bool,
    base: Option<Arc<Base>>,
    digest: DigestUse,
    /// Options for reading archives, and limits on the use of the machine.
    pub pass: unsnap_pass::Options,
    /// Mode of the check for free space. Runs that write nothing are not checked.
    pub preflight: PreflightMode,
    /// Free space to leave to other processes on each destination's file system. Archives that
    /// leave less are refused, and a run ends when less is free. By default none is left.
    pub min_free: Reserve,
    /// Where archives from the network are kept as files, under their names.
    pub tee: Option<TeeTo>,
    /// Receiver of each file as it becomes complete. It may read the file while the run continues.
    pub files: Option<FileSink>,
}

/// Directories that keep archives from the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeeTo {
    /// That of the first archive.
    pub first: PathBuf,
    /// That of the incremental archive that is unpacked together with a full one.
    pub second: PathBuf,
    /// Whether the run fails, as soon as it is known, if an archive cannot be kept. Otherwise the file
    /// is given up, and the report says why. If so, the file has its name before the destination has
    /// its own: a validator does not start from a state without the archive.
    pub is_required: bool,
}

impl TeeTo {
    /// Returns one directory, in which archives are kept if that is possible.
    pub fn directory(path: PathBuf) -> Self {
        Self { second: path.clone(), first: path, is_required: false }
    }
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

/// What comes of a check besides its report.
#[derive(Clone, Debug)]
pub struct CheckOutputs {
    /// Use of the archives' digests.
    pub digest: DigestUse,
    /// File that receives the name, size and digest of every file, one line of JSON each.
    pub manifest: Option<PathBuf>,
}

impl Default for CheckOutputs {
    /// Returns a digest in the report, and no manifest.
    fn default() -> Self {
        Self { digest: DigestUse::Report(DigestKind::Xxh3), manifest: None }
    }
}

impl Options {
    /// Returns the options for checking archives without writing their files.
    pub fn check(source: impl Into<Source>, outputs: CheckOutputs) -> Self {
        let CheckOutputs { digest, manifest } = outputs;
        Self::new(source.into(), Destination::Nowhere { manifest }, digest)
    }

    /// Returns the options for unpacking an archive into a tree. If the run fails, its files are
    /// removed, and before it those of an interrupted run.
    pub fn for_tree(source: Single, tree: Tree, digest: DigestUse) -> Self {
        Self::new(source.into(), Destination::Tree(tree), digest)
    }

    /// Returns the options for unpacking an archive into a tree, from where an interrupted run of
    /// the same archive to the same destinations ended. If this run is interrupted or fails, its
    /// complete files stay, unless the archive is bad.
    pub fn for_resumable_tree(source: FileByFile, tree: Tree, digest: DigestUse) -> Self {
        let options = Self::new(source.into(), Destination::Tree(tree), digest);
        Self { resumes: true, ..options }
    }

    /// Returns the options for making a validator's state of a snapshot. The digest, if there is
    /// one, can only be reported: when it is known, the old state is gone.
    pub fn for_state(
        pair: Pair<Archive>,
        verify: Verify,
        state: State,
        digest: Option<DigestKind>,
    ) -> Self {
        let digest = digest.map_or(DigestUse::None, DigestUse::Report);
        Self::new(Source::pair(pair, verify), Destination::State(state), digest)
    }

    /// Returns the options for making a validator's state like [`for_state`](Self::for_state), from
    /// where an interrupted run with the same full archive and destinations ended. If this run is
    /// interrupted or fails, the complete storages of its full archive stay, unless an archive is bad.
    pub fn for_resumable_state(
        pair: Pair<Archive>,
        checks: FileChecks,
        state: State,
        digest: Option<DigestKind>,
    ) -> Self {
        Self { resumes: true, ..Self::for_state(pair, checks.into(), state, digest) }
    }

    /// Returns the options for making a validator's state of an incremental archive and the storages
    /// that an earlier state has of its full one. The report covers the incremental archive.
    pub fn for_state_upon(upon: Upon, state: State, digest: Option<DigestKind>) -> Self {
        let digest = digest.map_or(DigestUse::None, DigestUse::Report);
        let Upon { source, base } = upon;
        let options = Self::new(source, Destination::State(state), digest);
        Self { base: Some(base), ..options }
    }

    fn new(source: Source, destination: Destination, digest: DigestUse) -> Self {
        Self {
            base: None,
            source,
            destination,
            resumes: false,
            digest,
            pass: unsnap_pass::Options::default(),
            preflight: PreflightMode::default(),
            min_free: Reserve::NONE,
            tee: None,
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
            self.source.verify() == Verify::None && self.state().is_none() && archives.len() == 1;
        let name = archives
            .get(archive)
            .and_then(Archive::snapshot_name)
            .filter(|name| !ignores_name || name.base_slot().is_some());
        self.source.layout().rules_by_name(name, &self.pass.limits)
    }

    /// Returns the storages that are linked instead of being unpacked.
    pub(crate) fn base(&self) -> Option<&Arc<Base>> {
        self.base.as_ref()
    }

    /// Returns the origin of the state that is made: its full archive.
    pub(crate) fn origin(&self) -> Option<Origin> {
        if let Some(base) = &self.base {
            return Some(base.origin().clone());
        }
        let full = self.archives()[0].snapshot_name().filter(|name| name.base_slot().is_none())?;
        Some(Origin { full, checked: self.source.checks_content() })
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

    /// Returns whether the run continues an interrupted one, and keeps its complete files if it fails.
    pub(crate) fn resumes(&self) -> bool {
        self.resumes
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
