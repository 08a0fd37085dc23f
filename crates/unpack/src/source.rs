//! Sources: archives, and the checks of what they hold.

use std::sync::Arc;

use unsnap_failure::{Knob, Remedy};
use unsnap_layout::Pair;
use unsnap_pass::{Archive, Archives, LayoutKind, PassError};
use unsnap_state::Base;

/// The archives to read, and the checks of what they hold.
#[derive(Clone, Debug)]
pub struct Source {
    archives: Archives,
    layout: LayoutKind,
    verify: Verify,
}

/// A single archive of any name, and the checks of what it holds.
#[derive(Clone, Debug)]
pub struct Single(Source);

/// A single archive of which each file is checked by itself. A run that reads it can be resumed:
/// the files of the earlier run need not be read again.
#[derive(Clone, Debug)]
pub struct FileByFile(Source);

/// An incremental archive upon the storages of its full one, which an earlier state has already and
/// which are not read again.
#[derive(Clone, Debug)]
pub struct Upon {
    pub(crate) source: Source,
    pub(crate) base: Arc<Base>,
}

/// Checks that each file of an archive passes or fails by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChecks {
    /// As [`Verify::None`].
    None,
    /// As [`Verify::Structure`].
    Structure,
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

impl Verify {
    /// Returns the checks if each file passes or fails them by itself.
    pub fn file_by_file(self) -> Option<FileChecks> {
        match self {
            Self::None => Some(FileChecks::None),
            Self::Structure => Some(FileChecks::Structure),
            Self::Accounts { .. } => None,
        }
    }
}

impl From<FileChecks> for Verify {
    fn from(checks: FileChecks) -> Self {
        match checks {
            FileChecks::None => Self::None,
            FileChecks::Structure => Self::Structure,
        }
    }
}

impl Single {
    /// Returns an archive with the rules for its entries and the checks of their content.
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
        Ok(Self(Source { archives: archive.into(), layout, verify }))
    }

    /// Returns a snapshot with [`Verify::Structure`].
    pub fn snapshot(archive: Archive) -> Self {
        FileByFile::new(archive, LayoutKind::Snapshot, FileChecks::Structure).into()
    }
}

impl FileByFile {
    /// Returns an archive with the rules for its entries and the checks of their content.
    pub fn new(archive: Archive, layout: LayoutKind, checks: FileChecks) -> Self {
        Self(Source { archives: archive.into(), layout, verify: checks.into() })
    }
}

impl Upon {
    /// Returns the incremental archive of `pair` upon the storages of its full one. `None` if the
    /// pair has no incremental archive, if `base` is of another full archive, or if its storages
    /// were not checked and are to be.
    pub fn new(pair: &Pair<Archive>, base: Arc<Base>, checks: FileChecks) -> Option<Self> {
        let origin = base.origin();
        let is_base = pair.full().snapshot_name() == Some(origin.full);
        let is_checked = origin.checked || checks == FileChecks::None;
        let (Some(incremental), true, true) = (pair.incremental(), is_base, is_checked) else {
            return None;
        };
        let source = FileByFile::new(incremental.clone(), LayoutKind::Snapshot, checks).into();
        Some(Self { source, base })
    }
}

impl From<FileByFile> for Single {
    fn from(FileByFile(source): FileByFile) -> Self {
        Self(source)
    }
}

impl From<FileByFile> for Source {
    fn from(FileByFile(source): FileByFile) -> Self {
        source
    }
}

impl From<Single> for Source {
    fn from(Single(source): Single) -> Self {
        source
    }
}

impl Source {
    /// Returns a full snapshot and, if the pair has one, the incremental one that builds on it.
    pub fn pair(pair: Pair<Archive>, verify: Verify) -> Self {
        Self { archives: pair.into(), layout: LayoutKind::Snapshot, verify }
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

    #[test]
    fn accounts_are_verified_where_a_name_has_their_hash() {
        let new = |archive, layout| Single::new(archive, layout, ACCOUNTS);
        assert!(new(full(7), LayoutKind::Snapshot).is_ok());
        let pair = Pair::new(full(7), Some(incremental(7, 9))).unwrap();
        assert_eq!(Source::pair(pair, ACCOUNTS).archives(), [full(7), incremental(7, 9)]);
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
    fn accounts_are_not_verified_file_by_file() {
        for verify in [Verify::None, Verify::Structure] {
            assert_eq!(verify.file_by_file().map(Verify::from), Some(verify));
        }
        assert_eq!(ACCOUNTS.file_by_file(), None);
    }
}
