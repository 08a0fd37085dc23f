//! The entries of an archive and their offsets in the decoded stream.

use std::{borrow::Cow, ops::Range};

use unsnap_tarstream::{Member, MemberKind};

use crate::{IndexError, varint};

/// Limit on entries: as many as a validator accepts.
const ENTRIES_MAX: usize = 5_000_000;

/// Size of a tar block.
const BLOCK_BYTES: u64 = 512;

/// Longest path or link target: that of a PAX record, as the tar walk accepts it by default.
const PATH_BYTES_MAX: usize = 1 << 20;

/// Directory of the storages.
const STORAGES: &[u8] = b"accounts/";

/// Name of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryName {
    /// `accounts/<slot>.<id>`, in its canonical spelling.
    Storage {
        /// The slot.
        slot: u64,
        /// The storage's number.
        id: u32,
    },
    /// Any other path, as stored: untrusted bytes.
    Path(Box<[u8]>),
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: EntryName,
    /// The kind of file it describes.
    pub kind: MemberKind,
    /// Target of a link, empty for anything else.
    pub link: Box<[u8]>,
    /// Offset of its first header in the decoded stream.
    pub header_offset: u64,
    /// Offset of its content in the decoded stream.
    pub payload_offset: u64,
    /// Size of its content in bytes.
    pub size: u64,
}

impl Entry {
    /// Creates the entry for a member met by a walk.
    pub fn of(member: &Member<'_>) -> Self {
        Self {
            name: EntryName::of(member.path),
            kind: member.kind,
            link: member.link.into(),
            header_offset: member.header_offset,
            payload_offset: member.payload_offset,
            size: member.size,
        }
    }

    /// Returns its path as stored.
    pub fn path(&self) -> Cow<'_, [u8]> {
        self.name.path()
    }

    /// Returns the member as the walk met it, except mode and time. `path` must be the entry's
    /// path.
    pub fn member<'a>(&'a self, path: &'a [u8]) -> Member<'a> {
        Member {
            kind: self.kind,
            path,
            link: &self.link,
            size: self.size,
            header_offset: self.header_offset,
            payload_offset: self.payload_offset,
            mode: None,
            mtime: None,
        }
    }

    /// Returns the range of headers and content in the decoded stream, without the padding after
    /// them.
    pub fn raw_extent(&self) -> Range<u64> {
        self.header_offset..self.payload_offset + self.size
    }

    /// Returns the end of that range with padding: the earliest offset of the next entry.
    fn raw_end(&self) -> Option<u64> {
        self.payload_offset.checked_add(self.size)?.checked_next_multiple_of(BLOCK_BYTES)
    }
}

impl EntryName {
    /// Parses a path.
    pub fn of(path: &[u8]) -> Self {
        Self::storage(path).unwrap_or_else(|| Self::Path(path.into()))
    }

    fn storage(path: &[u8]) -> Option<Self> {
        let name = str::from_utf8(path.strip_prefix(STORAGES)?).ok()?;
        let (slot, id) = name.split_once('.')?;
        let (slot, id) = (slot.parse().ok()?, id.parse().ok()?);
        // Leading zeros and signs are kept as they are.
        (name == format!("{slot}.{id}")).then_some(Self::Storage { slot, id })
    }

    /// Returns the path as stored.
    pub fn path(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Storage { slot, id } => Cow::Owned(format!("accounts/{slot}.{id}").into_bytes()),
            Self::Path(path) => Cow::Borrowed(path),
        }
    }

    /// Returns the slot, if it is a storage.
    pub fn slot(&self) -> Option<u64> {
        match self {
            Self::Storage { slot, .. } => Some(*slot),
            Self::Path(_) => None,
        }
    }
}

/// All entries of an archive, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryTable {
    entries: Vec<Entry>,
    /// End of the last entry's padding.
    raw_end: u64,
}

impl EntryTable {
    /// Appends the next entry.
    pub fn push(&mut self, entry: Entry) -> Result<(), IndexError> {
        if self.entries.len() >= ENTRIES_MAX {
            return Err(IndexError::Inconsistent("it has too many entries"));
        }
        let is_placed = entry.header_offset >= self.raw_end
            && entry.payload_offset > entry.header_offset
            && [entry.header_offset, entry.payload_offset].iter().all(|at| at % BLOCK_BYTES == 0);
        let end = entry.raw_end().filter(|_| is_placed);
        self.raw_end = end.ok_or(IndexError::Inconsistent("its entries overlap"))?;
        self.entries.push(entry);
        Ok(())
    }

    /// Returns the entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the end of the last entry in the decoded stream, with its padding.
    pub fn raw_end(&self) -> u64 {
        self.raw_end
    }

    /// Encodes the table. Each entry has its kind and name, and its position as the distance from
    /// the previous entry.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let (mut end, mut slot_before) = (0, 0);
        for entry in &self.entries {
            let (tag, flag) = tag(entry.kind);
            let plain = entry.link.is_empty() && tag == REGULAR;
            match &entry.name {
                EntryName::Storage { slot, id } if plain => {
                    bytes.push(STORAGE);
                    varint::put(&mut bytes, zigzag(*slot, slot_before));
                    varint::put(&mut bytes, u64::from(*id));
                    slot_before = *slot;
                }
                name => {
                    bytes.push(tag);
                    bytes.extend(flag);
                    for text in [&name.path()[..], &entry.link] {
                        varint::put(&mut bytes, text.len() as u64);
                        bytes.extend_from_slice(text);
                    }
                }
            }
            varint::put(&mut bytes, (entry.header_offset - end) / BLOCK_BYTES);
            let headers = entry.payload_offset - entry.header_offset;
            varint::put(&mut bytes, headers / BLOCK_BYTES);
            varint::put(&mut bytes, entry.size);
            end = entry.raw_end().unwrap_or(u64::MAX);
        }
        bytes
    }

    /// Decodes a table of `count` entries, which must fill all of `bytes`.
    pub(crate) fn decode(bytes: &[u8], count: u64) -> Result<Self, IndexError> {
        let bad = IndexError::Inconsistent;
        let mut reader = varint::Reader::new(bytes);
        let mut table = Self::default();
        let mut slot_before = 0;
        for _ in 0..count {
            let tag = reader.byte()?;
            let (name, kind, link) = if tag == STORAGE {
                let slot = unzigzag(reader.number()?, slot_before);
                let id = u32::try_from(reader.number()?)
                    .map_err(|_| bad("a storage number is out of range"))?;
                slot_before = slot;
                (EntryName::Storage { slot, id }, MemberKind::Regular, &[][..])
            } else {
                let kind = kind(tag, &mut reader)?;
                let mut text = || {
                    let length = reader.number()?;
                    if length > PATH_BYTES_MAX as u64 {
                        return Err(bad("a path is too long"));
                    }
                    reader.take(length)
                };
                let (path, link) = (text()?, text()?);
                if path.is_empty() || path.contains(&0) {
                    return Err(bad("a path is invalid"));
                }
                (EntryName::of(path), kind, link)
            };
            let far = bad("an entry's offset is out of range");
            let blocks = |count: u64| count.checked_mul(BLOCK_BYTES);
            let header_offset =
                blocks(reader.number()?).and_then(|gap| table.raw_end.checked_add(gap));
            let headers = blocks(reader.number()?);
            let offsets = header_offset.zip(headers);
            let Some((header_offset, payload_offset)) =
                offsets.and_then(|(at, headers)| Some((at, at.checked_add(headers)?)))
            else {
                return Err(far);
            };
            let size = reader.number()?;
            let link = link.into();
            table.push(Entry { name, kind, link, header_offset, payload_offset, size })?;
        }
        if reader.is_empty() { Ok(table) } else { Err(bad("there is data after its entries")) }
    }
}

/// First byte of an encoded entry: its kind. A storage has no path.
const STORAGE: u8 = 0;
const REGULAR: u8 = 1;
const DIRECTORY: u8 = 2;
const HARD_LINK: u8 = 3;
const SYMBOLIC_LINK: u8 = 4;
const CHAR_DEVICE: u8 = 5;
const BLOCK_DEVICE: u8 = 6;
const FIFO: u8 = 7;
const SPARSE: u8 = 8;
const OTHER: u8 = 9;

/// Returns the tag of a kind, with the typeflag of a kind that has no tag of its own.
fn tag(kind: MemberKind) -> (u8, Option<u8>) {
    let tag = match kind {
        MemberKind::Regular => REGULAR,
        MemberKind::Directory => DIRECTORY,
        MemberKind::HardLink => HARD_LINK,
        MemberKind::SymbolicLink => SYMBOLIC_LINK,
        MemberKind::CharDevice => CHAR_DEVICE,
        MemberKind::BlockDevice => BLOCK_DEVICE,
        MemberKind::Fifo => FIFO,
        MemberKind::Sparse => SPARSE,
        MemberKind::Other(flag) => return (OTHER, Some(flag)),
    };
    (tag, None)
}

fn kind(tag: u8, reader: &mut varint::Reader<'_>) -> Result<MemberKind, IndexError> {
    Ok(match tag {
        REGULAR => MemberKind::Regular,
        DIRECTORY => MemberKind::Directory,
        HARD_LINK => MemberKind::HardLink,
        SYMBOLIC_LINK => MemberKind::SymbolicLink,
        CHAR_DEVICE => MemberKind::CharDevice,
        BLOCK_DEVICE => MemberKind::BlockDevice,
        FIFO => MemberKind::Fifo,
        SPARSE => MemberKind::Sparse,
        OTHER => MemberKind::Other(reader.byte()?),
        _ => return Err(IndexError::Inconsistent("an entry's kind is unknown")),
    })
}

/// Encodes the difference between two slots, small in either direction.
fn zigzag(slot: u64, before: u64) -> u64 {
    let difference = slot.wrapping_sub(before).cast_signed();
    (difference << 1).cast_unsigned() ^ (difference >> 63).cast_unsigned()
}

fn unzigzag(difference: u64, before: u64) -> u64 {
    before.wrapping_add((difference >> 1) ^ (difference & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_as_they_are() {
        for path in [
            "accounts/17.4",
            "accounts/0.0",
            "accounts/017.4",
            "accounts/+1.2",
            "version",
            "accounts/17.4294967296",
            "./accounts/17.4",
            "accounts/1.2.3",
            "accounts/",
        ] {
            assert_eq!(EntryName::of(path.as_bytes()).path(), path.as_bytes());
        }
        assert_eq!(EntryName::of(b"accounts/17.4"), EntryName::Storage { slot: 17, id: 4 });
        assert_eq!(EntryName::of(b"accounts/017.4").slot(), None);
    }

    #[test]
    fn slots_go_both_ways() {
        for (slot, before) in [(5, 3), (3, 5), (0, u64::MAX), (u64::MAX, 0), (7, 7), (1 << 63, 0)] {
            assert_eq!(unzigzag(zigzag(slot, before), before), slot);
        }
        assert_eq!((zigzag(7, 7), zigzag(6, 7), zigzag(8, 7)), (0, 1, 2));
    }
}
