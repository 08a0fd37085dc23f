//! Pairs of archives that belong together.

use thiserror::Error;

use crate::ArchiveName;

/// An archive that has a name.
pub trait Named {
    /// Returns the parsed file name, if it is that of a snapshot archive.
    fn snapshot_name(&self) -> Option<ArchiveName>;

    /// Returns the name for messages.
    fn display_name(&self) -> String;
}

/// A full archive and, if there is one, the incremental archive that builds on it.
///
/// The names decide. [`new`](Self::new) refuses archives that do not belong together, so code that
/// receives a pair need not check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair<A> {
    full: A,
    incremental: Option<A>,
    /// Slot of the newest archive.
    slot: u64,
}

/// Two archives do not belong together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PairError {
    /// The first archive is not a full one.
    #[error("{archive} does not have the name of a full archive")]
    NotFull {
        /// The archive.
        archive: String,
    },
    /// The second archive is not an incremental one.
    #[error("{archive} does not have the name of an incremental archive")]
    NotIncremental {
        /// The archive.
        archive: String,
    },
    /// The incremental archive builds on another full one.
    #[error("{archive} builds on slot {base_slot}, but {full} has slot {slot}")]
    OtherBase {
        /// The incremental archive.
        archive: String,
        /// The slot that it builds on.
        base_slot: u64,
        /// The full archive.
        full: String,
        /// Its slot.
        slot: u64,
    },
}

impl<A: Named> Pair<A> {
    /// Pairs a full archive with the incremental one that builds on it, or with none.
    pub fn new(full: A, incremental: Option<A>) -> Result<Self, PairError> {
        let Some(ArchiveName::Full { slot, .. }) = full.snapshot_name() else {
            return Err(PairError::NotFull { archive: full.display_name() });
        };
        let Some(upon) = incremental else {
            return Ok(Self { full, incremental: None, slot });
        };
        match upon.snapshot_name() {
            Some(ArchiveName::Incremental { base_slot, slot: newest, .. }) if base_slot == slot => {
                Ok(Self { full, incremental: Some(upon), slot: newest })
            }
            Some(ArchiveName::Incremental { base_slot, .. }) => {
                let (archive, full) = (upon.display_name(), full.display_name());
                Err(PairError::OtherBase { archive, base_slot, full, slot })
            }
            _ => Err(PairError::NotIncremental { archive: upon.display_name() }),
        }
    }
}

impl<A> Pair<A> {
    /// Returns the full archive.
    pub fn full(&self) -> &A {
        &self.full
    }

    /// Returns the incremental archive that builds on it.
    pub fn incremental(&self) -> Option<&A> {
        self.incremental.as_ref()
    }

    /// Returns the slot of the incremental archive or, if there is none, of the full one.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Returns the full archive, then the incremental one.
    pub fn archives(&self) -> impl Iterator<Item = &A> {
        std::iter::once(&self.full).chain(&self.incremental)
    }
}

impl<A> IntoIterator for Pair<A> {
    type Item = A;
    type IntoIter = std::iter::Chain<std::iter::Once<A>, std::option::IntoIter<A>>;

    /// Yields the full archive, then the incremental one.
    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.full).chain(self.incremental)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU";

    #[derive(Clone, Debug, PartialEq)]
    struct File(String);

    impl Named for File {
        fn snapshot_name(&self) -> Option<ArchiveName> {
            ArchiveName::parse(&self.0).ok()
        }

        fn display_name(&self) -> String {
            self.0.clone()
        }
    }

    fn full(slot: u64) -> File {
        File(format!("snapshot-{slot}-{HASH}.tar.zst"))
    }

    fn incremental(base: u64, slot: u64) -> File {
        File(format!("incremental-snapshot-{base}-{slot}-{HASH}.tar.zst"))
    }

    #[test]
    fn archives_that_belong_together_are_a_pair() {
        let alone = Pair::new(full(7), None).unwrap();
        assert_eq!((alone.slot(), alone.incremental()), (7, None));
        let both = Pair::new(full(7), Some(incremental(7, 9))).unwrap();
        assert_eq!((both.slot(), both.full()), (9, &full(7)));
        let order = [full(7), incremental(7, 9)];
        assert!(both.archives().eq(&order) && both.into_iter().eq(order));
    }

    #[test]
    fn other_archives_are_refused_with_the_reason() {
        let refused = |full: &File, upon: Option<File>| Pair::new(full.clone(), upon).unwrap_err();
        let unnamed = File("standard input".to_owned());
        for first in [incremental(7, 9), unnamed.clone()] {
            let expected = PairError::NotFull { archive: first.0.clone() };
            for second in [None, Some(incremental(7, 9))] {
                assert_eq!(refused(&first, second), expected);
            }
        }
        for second in [full(9), unnamed] {
            let expected = PairError::NotIncremental { archive: second.0.clone() };
            assert_eq!(refused(&full(7), Some(second)), expected);
        }
        let error = refused(&full(7), Some(incremental(8, 9)));
        let (archive, on) = (incremental(8, 9).0, full(7).0);
        assert_eq!(error.to_string(), format!("{archive} builds on slot 8, but {on} has slot 7"));
    }
}
