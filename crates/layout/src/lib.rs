//! What an archive may contain, and where each entry goes.
//!
//! The principal type is [`Layout`]. It is asked about every member of an archive, in the stream's
//! order, and either says where the member goes ([`Placement`]) or refuses the archive
//! ([`LayoutError`]). At the end [`Layout::finish`] says whether anything is missing. There are two
//! layouts:
//!
//! | layout | admits | for |
//! |---|---|---|
//! | [`SnapshotLayout`] | exactly the files of a snapshot | everything that feeds a validator |
//! | [`AnyLayout`] | files and directories under safe relative paths | tars of other origin |
//!
//! Both refuse duplicates, links, devices and sparse files, and count entries and bytes against
//! [`Limits`]. What they remember is 8 bytes an entry ([`U64Set`]).
//!
//! The crate also knows the names of archives ([`ArchiveName`]) and the content of the `version`
//! file ([`check_version`]), and reads what a bank file says ([`BankReader`]).
//! The crate also knows the names of archives ([`ArchiveName`]), the content of the `version`
//! file ([`check_version`]) and the records of account storages ([`append_vec`]).
//!
//! What is left to others: the framing of the stream (crate `tarstream`), making directories and
//! files, and what is in them. No path is ever resolved here; a [`Placement`] is a name below the
//! destination, without `..`, `.` or empty components, and it is up to the creator that no link on
//! the way leads elsewhere.
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
mod placement;
mod set;
mod snapshot;

pub use any::{AnyLayout, AnySummary};
pub use bank::{
    BankError, BankFacts, BankHash, BankProof, BankReader, EpochSchedule, LATTICE_HASH_BYTES,
};
pub use error::{LayoutError, PathProblem};
pub use error::VERSION as SNAPSHOT_VERSION;
pub use limits::Limits;
pub use name::{ArchiveHash, ArchiveName, Compression, NameError};
pub use placement::{Placement, Role};
pub use set::U64Set;
pub use snapshot::{SnapshotLayout, SnapshotSummary, check_version};

use unsnap_tarstream::Member;

/// The rules an archive is held to.
#[derive(Debug)]
pub enum Layout {
    /// The archive is a validator's snapshot.
    Snapshot(SnapshotLayout),
    /// The archive may hold any files.
    Any(AnyLayout),
}

impl Layout {
    /// Says where a member goes. Members must come in the stream's order; after an error the layout
    /// is of no more use.
    pub fn admit<'m>(&mut self, member: &Member<'m>) -> Result<Placement<'m>, LayoutError> {
        match self {
            Self::Snapshot(layout) => layout.admit(member),
            Self::Any(layout) => layout.admit(member),
        }
    }

    /// Says what the archive held, or what is missing. To be called after the last member.
    pub fn finish(&self) -> Result<Summary, LayoutError> {
        match self {
            Self::Snapshot(layout) => layout.finish().map(Summary::Snapshot),
            Self::Any(layout) => Ok(Summary::Any(layout.finish())),
        }
    }
}

/// What an archive held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summary {
    /// A complete snapshot.
    Snapshot(SnapshotSummary),
    /// Files of any kind.
    Any(AnySummary),
}

impl Summary {
    /// Slot of the snapshot; `None` for an archive of any files.
    pub fn slot(&self) -> Option<u64> {
        match self {
            Self::Snapshot(summary) => Some(summary.slot),
            Self::Any(_) => None,
        }
    }

    /// Bytes of all files together.
    pub fn file_bytes(&self) -> u64 {
        match self {
            Self::Snapshot(summary) => summary.file_bytes,
            Self::Any(summary) => summary.file_bytes,
        }
    }
}
