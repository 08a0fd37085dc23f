//! Layout of a validator's snapshot archive.

use crate::error::{LayoutError, VERSION};
use crate::limits::{Limits, Totals};
use crate::name::ArchiveName;
use crate::placement::{Placement, Role};
use crate::set::U64Set;
use std::collections::BTreeSet;
use std::str;
use unsnap_tarstream::{Member, MemberKind, printable};

/// Admits exactly the files of a snapshot archive, in any order:
///
/// ```text
///   version
///   snapshots/                     directory; its entry may be missing
///   snapshots/status_cache
///   snapshots/<slot>               directory; its entry may be missing
///   snapshots/<slot>/<slot>        the bank file
///   accounts/                      directory; its entry is usually missing
///   accounts/<slot>.<id>           one storage for each slot, none newer than the bank
/// ```
///
/// Real archives have `version` first, then the two groups below `snapshots` in either order, then
/// the accounts in no particular order. The layout relies on none of this.
///
/// The layout is deliberately stricter than Agave's unpacker. It refuses links, sparse files,
/// duplicates and numbers with leading zeros, and the bank file must be named like its directory.
/// It also refuses, hours earlier, what Agave would refuse only when it loads the snapshot: two
/// storages of one slot, and empty storages.
#[derive(Debug)]
pub struct SnapshotLayout {
    limits: Limits,
    base_slot: Option<u64>,
    /// The slot of the snapshot, once known: from the archive's name, or from the first bank entry.
    slot: Option<u64>,
    totals: Totals,
    /// Entries seen so far, of those that may occur only once.
    unique: BTreeSet<Unique>,
    storage_slots: U64Set,
    storage_slot_max: Option<u64>,
    storage_bytes: u64,
}

/// Totals of a complete snapshot archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// The slot of the bank.
    pub slot: u64,
    /// Number of account storages.
    pub storages: u64,
    /// Total size of all storages in bytes.
    pub storage_bytes: u64,
    /// Entries of the archive, directories included.
    pub entries: u64,
    /// Total size of all files in bytes.
    pub file_bytes: u64,
}

/// Entries that may occur only once in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unique {
    Version,
    Accounts,
    Snapshots,
    StatusCache,
    BankDirectory,
    BankFile,
}

impl SnapshotLayout {
    /// Creates a layout for an archive of which nothing has been seen yet.
    ///
    /// If the archive's name is given, its slots are checked against the entries. Otherwise the
    /// bank entry determines the slot of the snapshot.
    pub fn new(limits: Limits, expected: Option<ArchiveName>) -> Self {
        Self {
            limits,
            base_slot: expected.and_then(|name| name.base_slot()),
            slot: expected.map(|name| name.slot()),
            totals: Totals::default(),
            unique: BTreeSet::new(),
            storage_slots: U64Set::new(),
            storage_slot_max: None,
            storage_bytes: 0,
        }
    }

    /// Returns the place of a member. The layout is unusable after an error.
    pub fn admit<'m>(&mut self, member: &Member<'m>) -> Result<Placement<'m>, LayoutError> {
        let bytes_max = self.limits.actual_bytes_max.min(self.limits.apparent_bytes_max);
        self.totals.add(member, self.limits.entries_max, bytes_max)?;

        let listed = member.path;
        let (bytes, slash) =
            listed.strip_suffix(b"/").map_or((listed, false), |stripped| (stripped, true));
        // Admitted names are ASCII. Anything else fails to match.
        let path = str::from_utf8(bytes).map_err(|_| unexpected(member))?;
        match parse(path, member)? {
            Known::Directory(unique, slot) => {
                expect_kind(member, MemberKind::Directory, "directory")?;
                self.admit_unique(unique, slot, member)?;
                Ok(Placement::Directory { path })
            }
            // A slash after a file's name.
            Known::File(..) if slash => Err(unexpected(member)),
            Known::File(role) => {
                expect_kind(member, MemberKind::Regular, "regular file")?;
                self.admit_file(role, member)?;
                Ok(Placement::File { role, path })
            }
        }
    }

    /// Returns the totals of the archive, or the entry that is missing.
    pub fn finish(&self) -> Result<SnapshotSummary, LayoutError> {
        for (unique, entry) in [
            (Unique::Version, "version"),
            (Unique::StatusCache, "snapshots/status_cache"),
            (Unique::BankFile, "snapshots/<slot>/<slot>"),
        ] {
            if !self.unique.contains(&unique) {
                return Err(LayoutError::MissingEntry { entry });
            }
        }
        Ok(SnapshotSummary {
            slot: self.slot.expect("the bank file has set it"),
            storages: self.storage_slots.len() as u64,
            storage_bytes: self.storage_bytes,
            entries: self.totals.entries,
            file_bytes: self.totals.bytes,
        })
    }

    fn admit_file(&mut self, role: Role, member: &Member<'_>) -> Result<(), LayoutError> {
        let limits = &self.limits;
        let (unique, slot, limit) = match role {
            Role::Version => (Some(Unique::Version), None, limits.version_bytes_max),
            Role::StatusCache => (Some(Unique::StatusCache), None, limits.status_cache_bytes_max),
            Role::BankFile { slot } => {
                (Some(Unique::BankFile), Some(slot), limits.bank_file_bytes_max)
            }
            Role::Storage { slot, .. } => (None, Some(slot), limits.storage_bytes_max),
            Role::Other => return Err(unexpected(member)),
        };
        let (offset, found) = (member.header_offset, member.size);
        if found == 0 {
            return Err(LayoutError::EmptyFile { offset, entry: printable(member.path) });
        }
        if found > limit {
            let entry = printable(member.path);
            return Err(LayoutError::FileTooLarge { offset, entry, found, limit });
        }
        match (unique, slot) {
            (Some(unique), slot) => self.admit_unique(unique, slot, member),
            (None, Some(slot)) => self.admit_storage(slot, member),
            (None, None) => Ok(()),
        }
    }

    /// Admits an entry that may occur once. `slot` is that of the bank's directory or file.
    fn admit_unique(
        &mut self,
        unique: Unique,
        slot: Option<u64>,
        member: &Member<'_>,
    ) -> Result<(), LayoutError> {
        if let Some(slot) = slot {
            self.admit_bank_slot(slot, member)?;
        }
        if self.unique.insert(unique) {
            return Ok(());
        }
        Err(LayoutError::Duplicate { offset: member.header_offset, entry: printable(member.path) })
    }

    fn admit_bank_slot(&mut self, slot: u64, member: &Member<'_>) -> Result<(), LayoutError> {
        let offset = member.header_offset;
        let expected = *self.slot.get_or_insert(slot);
        if slot != expected {
            let entry = printable(member.path);
            return Err(LayoutError::WrongSlot { offset, entry, found: slot, expected });
        }
        match self.storage_slot_max {
            Some(found) if found > slot => {
                let entry = printable(member.path);
                Err(LayoutError::StorageTooNew { offset, entry, found, limit: slot })
            }
            _ => Ok(()),
        }
    }

    fn admit_storage(&mut self, slot: u64, member: &Member<'_>) -> Result<(), LayoutError> {
        let (offset, found) = (member.header_offset, slot);
        let entry = || printable(member.path);
        if let Some(limit) = self.slot.filter(|&limit| slot > limit) {
            return Err(LayoutError::StorageTooNew { offset, entry: entry(), found, limit });
        }
        if let Some(base_slot) = self.base_slot.filter(|&base_slot| slot <= base_slot) {
            return Err(LayoutError::StorageTooOld { offset, entry: entry(), found, base_slot });
        }
        if !self.storage_slots.insert(slot) {
            return Err(LayoutError::DuplicateSlot { offset, entry: entry(), slot });
        }
        self.storage_slot_max = self.storage_slot_max.max(Some(slot));
        // Part of the total, which has been checked.
        self.storage_bytes += member.size;
        Ok(())
    }
}

impl SnapshotSummary {
    /// Returns the directories of an unpacked snapshot, parents first, whether or not the archive
    /// listed them.
    pub fn directories(&self) -> [String; 3] {
        ["accounts".to_owned(), "snapshots".to_owned(), format!("snapshots/{}", self.slot)]
    }
}

/// Checks that the `version` file holds exactly `1.2.0`, after an optional `v` or `V`.
pub fn check_version(bytes: &[u8]) -> Result<(), LayoutError> {
    let number = bytes.strip_prefix(b"v").or_else(|| bytes.strip_prefix(b"V")).unwrap_or(bytes);
    if number == VERSION.as_bytes() {
        return Ok(());
    }
    Err(LayoutError::UnknownVersion { found: printable(bytes) })
}

/// An entry with a name from the snapshot layout.
enum Known {
    /// A directory, with its slot if it has one.
    Directory(Unique, Option<u64>),
    File(Role),
}

/// Matches a name against the snapshot layout. `path` is the member's path without a trailing
/// slash.
fn parse(path: &str, member: &Member<'_>) -> Result<Known, LayoutError> {
    let slot = |digits| decimal(digits, u64::MAX, member);
    Ok(match path.split_once('/') {
        None => match path {
            "version" => Known::File(Role::Version),
            "accounts" => Known::Directory(Unique::Accounts, None),
            "snapshots" => Known::Directory(Unique::Snapshots, None),
            _ => return Err(unexpected(member)),
        },
        Some(("accounts", name)) => {
            let (digits, id) = name.split_once('.').ok_or_else(|| unexpected(member))?;
            let (slot, id) = (slot(digits)?, decimal(id, STORAGE_ID_MAX.into(), member)?);
            let id = u32::try_from(id).expect("the limit is one of u32");
            Known::File(Role::Storage { slot, id })
        }
        Some(("snapshots", "status_cache")) => Known::File(Role::StatusCache),
        Some(("snapshots", rest)) => match rest.split_once('/') {
            None => Known::Directory(Unique::BankDirectory, Some(slot(rest)?)),
            Some((directory, file)) if directory == file => {
                Known::File(Role::BankFile { slot: slot(file)? })
            }
            // Agave accepts it here but does not find it later.
            Some(_) => return Err(unexpected(member)),
        },
        Some(_) => return Err(unexpected(member)),
    })
}

/// Parses ASCII digits, at most `limit`.
///
/// Agave's unpacker allows leading zeros. They are refused here: `07.1` and `7.1` would be two
/// files for one storage. No writer produces them.
fn decimal(digits: &str, limit: u64, member: &Member<'_>) -> Result<u64, LayoutError> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(unexpected(member));
    }
    let offset = member.header_offset;
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(LayoutError::LeadingZeros { offset, entry: printable(member.path) });
    }
    // Only overflow can still fail.
    digits.parse().ok().filter(|&number| number <= limit).ok_or_else(|| {
        LayoutError::NumberTooLarge {
            offset,
            entry: printable(member.path),
            found: digits.to_owned(),
            limit,
        }
    })
}

fn expect_kind(
    member: &Member<'_>,
    kind: MemberKind,
    expected: &'static str,
) -> Result<(), LayoutError> {
    if member.kind == kind {
        return Ok(());
    }
    Err(LayoutError::WrongKind {
        offset: member.header_offset,
        entry: printable(member.path),
        found: member.kind,
        expected,
    })
}

fn unexpected(member: &Member<'_>) -> LayoutError {
    LayoutError::UnexpectedEntry {
        offset: member.header_offset,
        entry: printable(member.path),
        kind: member.kind,
    }
}

/// `solana-accounts-db` reserves the other half of the range.
const STORAGE_ID_MAX: u32 = u32::MAX / 2;
