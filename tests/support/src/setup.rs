//! A run of the library, put together field by field.

use std::path::{Path, PathBuf};

use unsnap_pass::{Archive, LayoutKind, PassError};
use unsnap_source::DigestKind;
use unsnap_unpack::{
    Destination, DigestUse, FileSink, Options, Pair, PreflightMode, Reserve, Source, State, Tree,
    UnpackError, Unpacker, Verify,
};

/// A run of the library, put together field by field. The library's own options refuse combinations
/// that make no sense when they are built, which is tested there; tests change one field at a time.
#[allow(missing_docs, reason = "the fields are those of the library's options")]
#[derive(Clone, Debug)]
pub struct Setup {
    pub archive: Archive,
    pub incremental: Option<Archive>,
    pub layout: LayoutKind,
    pub verify: Verify,
    pub output: PathBuf,
    pub accounts: Vec<PathBuf>,
    pub state: Option<State>,
    pub dry_run: bool,
    pub resume: bool,
    pub checkpoint_bytes: Option<u64>,
    pub manifest: Option<PathBuf>,
    pub digest: DigestUse,
    pub preflight: PreflightMode,
    pub min_free: Reserve,
    pub files: Option<FileSink>,
    pub pass: unsnap_pass::Options,
}

impl Setup {
    /// Unpacks `archive` into `output`, with the defaults for everything else.
    pub fn new(archive: Archive, output: impl Into<PathBuf>) -> Self {
        Self {
            archive,
            incremental: None,
            layout: LayoutKind::default(),
            verify: Verify::default(),
            output: output.into(),
            accounts: Vec::new(),
            state: None,
            dry_run: false,
            resume: false,
            checkpoint_bytes: None,
            manifest: None,
            digest: DigestUse::Report(DigestKind::Xxh3),
            preflight: PreflightMode::default(),
            min_free: Reserve::NONE,
            files: None,
            pass: unsnap_pass::Options::default(),
        }
    }

    /// Returns the archive's path.
    ///
    /// # Panics
    ///
    /// If the archive is standard input.
    pub fn archive_path(&self) -> &Path {
        match &self.archive {
            Archive::File(path) | Archive::Unpublished { path, .. } => path,
            Archive::Stdin => panic!("this reads standard input"),
        }
    }

    /// Returns the library's options.
    pub fn options(&self) -> Result<Options, UnpackError> {
        let Self { archive, incremental, layout, verify, .. } = self.clone();
        let source = if incremental.is_some() {
            let pair = Pair::new(archive, incremental).map_err(PassError::from)?;
            Source::pair(pair, verify)
        } else {
            Source::new(archive, layout, verify)?
        };
        let destination = match (&self.state, self.dry_run) {
            (Some(state), _) => Destination::State(state.clone()),
            (None, true) => Destination::Nowhere { manifest: self.manifest.clone() },
            (None, false) => Destination::Tree(Tree {
                output: self.output.clone(),
                accounts: self.accounts.clone(),
                resume: self.resume,
                checkpoint_bytes: self.checkpoint_bytes,
                manifest: self.manifest.clone(),
            }),
        };
        let mut options = Options::new(source, destination, self.digest)?;
        (options.preflight, options.min_free) = (self.preflight, self.min_free);
        options.files.clone_from(&self.files);
        Ok(options.with_pass(self.pass.clone()))
    }

    /// Returns an unpacker with these options.
    pub fn unpacker(&self) -> Result<Unpacker, UnpackError> {
        self.options().map(Unpacker::new)
    }
}
