//! A run of the library, put together field by field.

use std::path::{Path, PathBuf};

use unsnap_pass::{Archive, LayoutKind, PassError};
use unsnap_source::DigestKind;
use unsnap_unpack::{
    CheckOutputs, DigestUse, FileByFile, FileSink, Options, Pair, PreflightMode, Reserve, Single,
    Source, State, Tree, UnpackError, Unpacker, Verify,
};

/// A run of the library, put together field by field: tests change one at a time. The types of the
/// library's own options have no combinations without a meaning; here they panic.
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
            Archive::Stdin | Archive::Remote(_) => panic!("this reads no file"),
        }
    }

    /// Returns the library's options.
    pub fn options(&self) -> Result<Options, UnpackError> {
        let Self { archive, incremental, layout, verify, .. } = self.clone();
        let pair = |archive, incremental| Pair::new(archive, incremental).map_err(PassError::from);
        let (manifest, digest) = (self.manifest.clone(), self.digest);
        let tree = Tree {
            output: self.output.clone(),
            accounts: self.accounts.clone(),
            manifest: manifest.clone(),
        };
        let mut options = match (self.state.clone(), self.dry_run, &incremental) {
            (Some(state), ..) if self.resume => {
                let checks = verify.file_by_file().expect("accounts are not verified");
                let pair = pair(archive, incremental)?;
                Options::for_resumable_state(pair, checks, state, digest.kind())
            }
            (Some(state), ..) => {
                Options::for_state(pair(archive, incremental)?, verify, state, digest.kind())
            }
            (None, true, Some(_)) => {
                let source = Source::pair(pair(archive, incremental)?, verify);
                Options::check(source, CheckOutputs { digest, manifest })
            }
            (None, true, None) => {
                let source = Single::new(archive, layout, verify)?;
                Options::check(source, CheckOutputs { digest, manifest })
            }
            (None, false, Some(_)) => panic!("a pair does not become a tree"),
            (None, false, None) if self.resume => {
                let checks = verify.file_by_file().expect("accounts are not verified");
                Options::for_resumable_tree(FileByFile::new(archive, layout, checks), tree, digest)
            }
            (None, false, None) => {
                Options::for_tree(Single::new(archive, layout, verify)?, tree, digest)
            }
        };
        (options.preflight, options.min_free) = (self.preflight, self.min_free);
        options.files.clone_from(&self.files);
        Ok(options.with_pass(self.pass.clone()))
    }

    /// Returns an unpacker with these options.
    pub fn unpacker(&self) -> Result<Unpacker, UnpackError> {
        self.options().map(Unpacker::new)
    }
}
