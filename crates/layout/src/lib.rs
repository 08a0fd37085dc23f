//! Rules for the content of an archive and the place of each entry.
//!
//! [`Layout`] is the main type. The caller passes it every member of an archive, in the stream's
//! order. For each one it returns a place ([`Placement`]) or refuses the archive ([`LayoutError`]).
//! At the end [`Layout::finish`] reports whether anything is missing. There are two layouts:
//!
//! | layout | admits | for |
//! |---|---|---|
//! | [`SnapshotLayout`] | exactly the files of a snapshot | everything that feeds a validator |
//! | [`AnyLayout`] | files and directories under safe relative paths | tars of other origin |
//!
//! Both refuse duplicates, links, devices and sparse files, and count entries and bytes against
//! [`Limits`]. They remember 8 bytes per entry ([`U64Set`]).
//!
//! The crate also parses the names of archives ([`ArchiveName`]), pairs archives by them ([`Pair`]),
//! and parses the `version` file ([`check_version`]), bank files ([`BankReader`]), the records of account storages
//! ([`append_vec`]) and the data of a few programs' accounts ([`programs`]).
//!
//! Other crates parse the stream's framing (`tarstream`), create directories and files, and check
//! file contents. This crate never resolves a path: a [`Placement`] is a name below the
//! destination, without `..`, `.` or empty components. The creator of the file must ensure that no
//! link on the way leads elsewhere.
//!
//! ```
//! use unsnap_layout::{ArchiveName, Layout, Limits, Placement, Role, SnapshotLayout};
//! use unsnap_tarstream::{Member, MemberKind};
//!
//! let name = "snapshot-39-qRmx7H5bhnHnLyshywAs657dcASiffHXvkJ2iNf9oTU.tar.zst";
//! let name = ArchiveName::parse(name)?;
//! let mut layout = Layout::Snapshot(SnapshotLayout::new(Limits::default(), Some(name)));
//! let member = Member {
//!     kind: MemberKind::Regular,
//!     path: b"accounts/17.4",
//!     link: b"",
//!     size: 31_104,
//!     header_offset: 0,
//!     payload_offset: 512,
//!     mode: None,
//!     mtime: None,
//! };
//! let placement = layout.admit(&member)?;
//! let role = Role::Storage { slot: 17, id: 4 };
//! assert_eq!(placement, Placement::File { role, path: "accounts/17.4" });
//! assert_eq!(placement.file_name(), Some("17.4"));
//! assert!(layout.finish().is_err(), "version, bank file and status cache are missing");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod any;
pub mod append_vec;
mod bank;
mod error;
mod failure;
mod limits;
mod name;
mod pair;
mod placement;
pub mod programs;
mod set;
mod snapshot;

pub use any::{AnyLayout, AnySummary};
pub use bank::{
    BankError, BankFacts, BankHash, BankProof, BankReader, EpochSchedule, HARD_FORKS_MAX, HardFork,
    LATTICE_HASH_BYTES,
};
pub use error::VERSION as SNAPSHOT_VERSION;
pub use error::{LayoutError, PathProblem};
pub use limits::Limits;
pub use name::{ArchiveHash, ArchiveName, Compression, NameError};
pub use pair::{Named, Pair, PairError};
pub use placement::{Placement, Role};
pub use set::U64Set;
pub use snapshot::{SnapshotLayout, SnapshotSummary, check_version};

use unsnap_tarstream::Member;

/// The rules that an archive is checked against.
#[derive(Debug)]
pub enum Layout {
    /// The archive is a validator's snapshot.
    Snapshot(SnapshotLayout),
    /// An archive of arbitrary files.
    Any(AnyLayout),
}

impl Layout {
    /// Returns the place of a member. Members must come in the stream's order. The layout is
    /// unusable after an error.
    pub fn admit<'m>(&mut self, member: &Member<'m>) -> Result<Placement<'m>, LayoutError> {
        match self {
            Self::Snapshot(layout) => layout.admit(member),
            Self::Any(layout) => layout.admit(member),
        }
    }

    /// Returns the totals of the archive, or the entry that is missing. Call it after the last
    /// member.
    pub fn finish(&self) -> Result<Summary, LayoutError> {
        match self {
            Self::Snapshot(layout) => layout.finish().map(Summary::Snapshot),
            Self::Any(layout) => Ok(Summary::Any(layout.finish())),
        }
    }
}

/// Totals of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summary {
    /// A complete snapshot.
    Snapshot(SnapshotSummary),
    /// An archive of arbitrary files.
    Any(AnySummary),
}

impl Summary {
    /// Returns the slot of the snapshot, or `None` for an archive of arbitrary files.
    pub fn slot(&self) -> Option<u64> {
        match self {
            Self::Snapshot(summary) => Some(summary.slot),
            Self::Any(_) => None,
        }
    }

    /// Returns the total size of all files in bytes.
    pub fn file_bytes(&self) -> u64 {
        match self {
            Self::Snapshot(summary) => summary.file_bytes,
            Self::Any(summary) => summary.file_bytes,
        }
    }
}
