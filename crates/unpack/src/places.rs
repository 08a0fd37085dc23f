//! Placement of an archive's files in the destinations.

use std::borrow::Cow;

use unsnap_create::Assembler;
use unsnap_fit::FitError;
use unsnap_layout::{Placement, Role};
use unsnap_state::{StateNames, StatePlaces, StorageFile};

use crate::Options;

/// Placement of one archive's files.
#[derive(Debug)]
pub(crate) enum Places {
    /// Paths of the archive, except that storages may be spread over directories.
    Tree(Spread),
    /// Paths of a validator's state.
    State(StatePlaces),
}

impl Places {
    /// Returns the index of a file's destination and its path there; `None` if the file is not
    /// created.
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

    /// Returns the storages of a state; none for a tree.
    pub fn storages(&self) -> &[StorageFile] {
        match self {
            Self::Tree(_) => &[],
            Self::State(places) => &places.storages,
        }
    }
}

/// Places of the first archive's files where its walk begins.
#[derive(Debug)]
pub(crate) enum BegunPlaces {
    /// Places in a tree.
    Tree(Spread),
    /// Names in a state, and its storages that exist already.
    State { names: StateNames, storages: Vec<StorageFile> },
}

impl BegunPlaces {
    /// Returns the places at the beginning of the archive.
    pub fn new(options: &Options) -> Self {
        if options.state().is_none() {
            return Self::Tree(Spread::new(options.destination().accounts().len()));
        }
        let names = match options.base() {
            Some(base) => StateNames::upon(base.next_id()),
            None => StateNames::new(0, options.archives().len()),
        };
        Self::State { names, storages: Vec::new() }
    }

    /// Places a file of an interrupted run once more. Returns the index of its destination and its
    /// path there; `None` if it is not created. `present` returns the destination of a storage by
    /// its name. Fails with the name of a storage that is nowhere.
    pub fn replay<'m>(
        &mut self,
        placement: &Placement<'m>,
        size: u64,
        present: &dyn Fn(&str) -> Option<usize>,
    ) -> Result<Option<(usize, Cow<'m, str>)>, String> {
        let (names, storages) = match self {
            Self::Tree(spread) => {
                let (destination, path) = spread.place(placement, size);
                return Ok(Some((destination, path.into())));
            }
            Self::State { names, storages } => (names, storages),
        };
        let Some((storage, name)) = names.name(placement) else { return Ok(None) };
        let destination = match storage {
            None => 0,
            Some(storage) => {
                let destination = present(name).ok_or_else(|| name.to_owned())?;
                storages.push(StorageFile::new(storage, size, destination));
                destination
            }
        };
        Ok(Some((destination, name.to_owned().into())))
    }
}

/// Distribution of storages over the accounts directories.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    /// Bytes given to each accounts directory so far. Empty if storages stay in the output.
    accounts_bytes: Vec<u64>,
}

impl Spread {
    /// Creates a distribution over `directories` accounts directories.
    pub fn new(directories: usize) -> Self {
        Self { accounts_bytes: vec![0; directories] }
    }

    /// Returns the index of a file's destination and its path there. A storage goes to the accounts
    /// directory with the fewest bytes so far, without subdirectories; without accounts
    /// directories, it keeps its path. Equal members in equal order give equal results.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(path: &str) -> Placement<'_> {
        Placement::File { role: Role::Storage { slot: 7, id: 1 }, path }
    }

    #[test]
    fn without_accounts_directories_files_keep_their_paths() {
        let mut spread = Spread::new(0);
        assert_eq!(spread.place(&storage("accounts/7.1"), 10), (0, "accounts/7.1"));
        let version = Placement::File { role: Role::Version, path: "version" };
        assert_eq!(spread.place(&version, 5), (0, "version"));
    }

    #[test]
    fn storages_go_to_the_accounts_directory_with_the_fewest_bytes() {
        let mut spread = Spread::new(2);
        let placed: Vec<(usize, &str)> =
            [("accounts/1.1", 10), ("accounts/2.2", 3), ("accounts/3.3", 5)]
                .into_iter()
                .chain([("accounts/4.4", 5), ("accounts/5.5", 1)])
                .map(|(path, size)| spread.place(&storage(path), size))
                .collect();
        assert_eq!(placed, [(1, "1.1"), (2, "2.2"), (2, "3.3"), (2, "4.4"), (1, "5.5")]);
        // Other files never leave the output.
        let bank = Placement::File { role: Role::BankFile { slot: 7 }, path: "snapshots/7/7" };
        assert_eq!(spread.place(&bank, 1000), (0, "snapshots/7/7"));
        assert_eq!(spread.place(&storage("accounts/6.6"), 1), (1, "6.6"));
    }
}
