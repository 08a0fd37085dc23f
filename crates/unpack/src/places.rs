//! Where the files of an archive go.

use unsnap_create::Assembler;
use unsnap_fit::FitError;
use unsnap_layout::{Placement, Role};
use unsnap_state::{StatePlaces, StorageFile};

/// Where the files of one archive go.
#[derive(Debug)]
pub(crate) enum Places {
    /// Where the archive says, but for storages, which may be spread.
    Tree(Spread),
    /// To where a validator looks for them.
    State(StatePlaces),
}

impl Places {
    /// Index of the destination of a file, and its path there; `None` if it is not to be created.
    pub fn place<'p>(
        &'p mut self,
        placement: &Placement<'p>,
        size: u64,
        files: &Assembler,
    ) -> Result<Option<(usize, &'p str)>, FitError> {
        match self {
            Self::Tree(spread) => Ok(Some(spread.place(placement, size))),
            Self::State(places) => places.place(placement, size, files),
        }
    }

    /// Returns the storages of a state; none of a tree.
    pub fn storages(&self) -> &[StorageFile] {
        match self {
            Self::Tree(_) => &[],
            Self::State(places) => &places.storages,
        }
    }
}

/// How storages are spread over the accounts directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    /// Bytes given to each accounts directory so far; empty if storages stay in the output.
    accounts_bytes: Vec<u64>,
}

impl Spread {
    /// Nothing has been spread over `directories` accounts directories yet.
    pub fn new(directories: usize) -> Self {
        Self { accounts_bytes: vec![0; directories] }
    }

    /// Index of the destination of a file, and its path there. The accounts directory that has been
    /// given least takes the next storage, flat; without accounts directories it goes where the
    /// archive says. The same members give the same answers.
    pub fn place<'m>(&mut self, placement: &Placement<'m>, size: u64) -> (usize, &'m str) {
        let Placement::File { role: Role::Storage { .. }, path } = *placement else {
            return (0, placement.path());
        };
        let least = self.accounts_bytes.iter_mut().enumerate().min_by_key(|(_, bytes)| **bytes);
        match (least, placement.file_name()) {
            (Some((index, bytes)), Some(name)) => {
                *bytes += size;
                (index + 1, name)
            }
            _ => (0, path),
        }
    }
}
