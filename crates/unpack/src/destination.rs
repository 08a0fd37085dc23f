//! Destinations: nowhere, a tree, or a validator's state.

use std::path::PathBuf;

use unsnap_commit::Spot;
use unsnap_state::State;

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
    /// File that receives the name, size and digest of every file, one line of JSON each.
    pub manifest: Option<PathBuf>,
}

impl Tree {
    /// Returns a tree in `output` with defaults for everything else.
    pub fn new(output: impl Into<PathBuf>) -> Self {
        Self { output: output.into(), accounts: Vec::new(), manifest: None }
    }
}

impl Destination {
    /// Returns the destination directories, the output first.
    pub(crate) fn paths(&self) -> Vec<&PathBuf> {
        match self {
            Self::Nowhere { .. } => Vec::new(),
            Self::Tree(tree) => std::iter::once(&tree.output).chain(&tree.accounts).collect(),
            Self::State(state) => {
                std::iter::once(&state.directory).chain(state.accounts.iter()).collect()
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
