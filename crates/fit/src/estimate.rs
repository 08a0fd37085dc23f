//! Estimate of the disk space for an archive's files, from the entries in samples of the archive.

use std::collections::HashSet;

use unsnap_decode::{Basis, Place, Samples};
use unsnap_index::Entry;
use unsnap_tarstream::{Event, Limits, Member, MemberKind, Walker};

/// A tar block.
const BLOCK_BYTES: usize = 512;

/// Logarithm of the smallest allocation unit, and the number of units: from 512 bytes to 64 KiB.
const UNIT_LOG_MIN: u32 = 9;
const UNITS: usize = 8;

/// Least number of files for a mean. A guess.
const FILES_MIN: u64 = 8;

/// Most directories remembered, so that none is counted twice. Bounds the memory; snapshots have
/// three. A guess.
const DIRECTORIES_MAX: usize = 65_536;

/// Space for the files in a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    files: u64,
    /// Bytes of headers and padded payloads in the tar stream.
    tar_bytes: u64,
    /// Bytes on a disk, for each allocation unit.
    disk_bytes: [u64; UNITS],
}

impl Tally {
    fn add(&mut self, size: u64) {
        self.files += 1;
        let padded = size.checked_next_multiple_of(BLOCK_BYTES as u64).unwrap_or(u64::MAX);
        self.tar_bytes = self.tar_bytes.saturating_add(padded).saturating_add(BLOCK_BYTES as u64);
        for (index, bytes) in self.disk_bytes.iter_mut().enumerate() {
            let rounded = size.checked_next_multiple_of(unit(index)).unwrap_or(u64::MAX);
            *bytes = bytes.saturating_add(rounded);
        }
    }

    fn plus(mut self, other: Self) -> Self {
        self.files += other.files;
        self.tar_bytes = self.tar_bytes.saturating_add(other.tar_bytes);
        for (bytes, more) in self.disk_bytes.iter_mut().zip(other.disk_bytes) {
            *bytes = bytes.saturating_add(more);
        }
        self
    }
}

fn unit(index: usize) -> u64 {
    1 << (index + UNIT_LOG_MIN as usize)
}

/// Returns the index of an allocation unit. Other values (network file systems report the size of a
/// transfer) count as the smallest unit, so that the estimate is low.
fn unit_index(bytes: u64) -> usize {
    (0..UNITS).find(|index| unit(*index) == bytes).unwrap_or(0)
}

/// Space for all files of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Storages.
    pub storages: Part,
    /// All other files.
    pub others: Part,
    /// Number of directories; `None` if unknown.
    pub directories: Option<u64>,
}

/// Space for a part of an archive's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    disk_bytes: [u64; UNITS],
    /// Number of files; `None` if unknown.
    pub files: Option<u64>,
}

impl Need {
    /// Returns the space for a full snapshot together with an incremental one. Storages of both are
    /// unpacked, and all other files of the incremental one only.
    pub fn with_incremental(&self, other: &Self) -> Self {
        Self { storages: self.storages.plus(&other.storages), ..*other }
    }
}

/// Returns the space for all entries of an archive. For `split_accounts` see [`Members::need`].
pub(crate) fn need_of(entries: &[Entry], split_accounts: bool) -> Need {
    let mut head = Head::default();
    for entry in entries {
        head.add(&entry.member(&entry.path()));
    }
    head.need(split_accounts)
}

impl Part {
    fn plus(&self, other: &Self) -> Self {
        let mut disk_bytes = self.disk_bytes;
        for (bytes, more) in disk_bytes.iter_mut().zip(other.disk_bytes) {
            *bytes = bytes.saturating_add(more);
        }
        let files = self.files.zip(other.files).map(|(one, two)| one.saturating_add(two));
        Self { disk_bytes, files }
    }

    /// Returns the bytes on a file system with this allocation unit.
    pub fn bytes(&self, unit_bytes: u64) -> u64 {
        self.disk_bytes[unit_index(unit_bytes)]
    }

    fn of(tally: Tally) -> Self {
        Self { disk_bytes: tally.disk_bytes, files: Some(tally.files) }
    }

    /// Returns the fraction `part` of `whole`, rounded up.
    pub fn part(&self, part: u64, whole: u64) -> Self {
        let of = |number: u64| {
            let product = u128::from(number) * u128::from(part);
            u64::try_from(product.div_ceil(u128::from(whole.max(1)))).unwrap_or(u64::MAX)
        };
        Self { disk_bytes: self.disk_bytes.map(of), files: self.files.map(of) }
    }

    /// Returns one of `count` equal parts, rounded up.
    pub fn share(&self, count: u64) -> Self {
        Self {
            disk_bytes: self.disk_bytes.map(|bytes| bytes.div_ceil(count)),
            files: self.files.map(|files| files.div_ceil(count)),
        }
    }
}

/// Finds entries in the samples of a survey.
pub(crate) struct Members {
    limits: Limits,
    place: Place,
    /// Walker at the beginning or, in the middle, from the first header on.
    walker: Option<Walker>,
    /// Incomplete tar block in the middle.
    block: Vec<u8>,
    head: Head,
    middle: Tally,
    /// Number of bytes seen in the middle.
    middle_bytes: u64,
}

/// Entries at the beginning of the stream.
#[derive(Default)]
struct Head {
    storages: Tally,
    others: Tally,
    directories: HashSet<Box<[u8]>>,
    /// Whether storages imply the directory `accounts`, which may be elsewhere.
    accounts_implied: bool,
    /// Offset behind the payload of the last entry.
    covered_bytes: u64,
    refused: bool,
}

impl Members {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            place: Place::Beginning,
            walker: None,
            block: Vec::with_capacity(BLOCK_BYTES),
            head: Head::default(),
            middle: Tally::default(),
            middle_bytes: 0,
        }
    }

    /// Returns the space for the whole archive, of `raw_bytes` decoded bytes on this `basis`.
    /// `split_accounts` tells that storages go to directories outside of the output. Returns `None`
    /// if the samples are no tar stream or contradict the length.
    pub fn need(&self, raw_bytes: u64, basis: Basis, split_accounts: bool) -> Option<Need> {
        let head = &self.head;
        if head.refused {
            return None;
        }
        let seen = head.need(split_accounts);
        if basis == Basis::Decoded {
            self.walker.as_ref()?.finish().ok()?;
            return Some(seen);
        }
        let Need { storages, others, directories } = seen;
        // An estimate may be less than the entries say, but not by much.
        if head.covered_bytes / 5 * 4 > raw_bytes {
            return None;
        }
        let rest = raw_bytes.saturating_sub(head.covered_bytes);
        let seen = head.storages.plus(head.others).plus(self.middle);
        let scale = |part: u64, whole: u64| {
            let scaled = u128::from(rest) * u128::from(part) / u128::from(whole.max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        // The rest of the stream takes as much space in proportion as the entries seen.
        let on_disk = |index: usize| match seen.tar_bytes {
            0 => rest,
            all => scale(seen.disk_bytes[index], all),
        };
        let files = if self.middle.files >= FILES_MIN {
            Some(scale(self.middle.files, self.middle_bytes))
        } else if head.storages.plus(head.others).files >= FILES_MIN {
            Some(scale(head.storages.plus(head.others).files, head.covered_bytes))
        } else {
            None
        };
        // Only storages follow the beginning of a snapshot.
        let storages = Part {
            disk_bytes: std::array::from_fn(|index| {
                storages.disk_bytes[index].saturating_add(on_disk(index))
            }),
            files: files.map(|files| files.saturating_add(head.storages.files)),
        };
        Some(Need { storages, others, directories })
    }

    /// Walks the bytes at the beginning of the stream.
    fn beginning(&mut self, mut bytes: &[u8]) {
        let walker = self.walker.get_or_insert_with(|| Walker::new(self.limits));
        while !bytes.is_empty() && !self.head.refused {
            match walker.step(bytes) {
                Ok(step) => {
                    if let Event::Member(member) = step.event {
                        self.head.add(&member);
                    }
                    bytes = &bytes[step.consumed..];
                }
                Err(_) => self.head.refused = true,
            }
        }
    }

    /// Processes one tar block in the middle.
    fn middle(&mut self) {
        self.middle_bytes += BLOCK_BYTES as u64;
        if self.walker.is_none() {
            // Account data that looks like a header with a valid checksum is unlikely.
            if self.block.get(257..262) != Some(b"ustar") {
                return;
            }
            self.walker = Some(Walker::new(self.limits));
        }
        let mut at = 0;
        while let Some(walker) = &mut self.walker
            && at < BLOCK_BYTES
        {
            match walker.step(&self.block[at..]) {
                Ok(step) => {
                    if let Event::Member(member) = step.event
                        && member.kind != MemberKind::Directory
                    {
                        self.middle.add(member.size);
                    }
                    at += step.consumed;
                }
                // This was no header, or the sample has a gap. Search for another header.
                Err(_) => self.walker = None,
            }
        }
    }
}

impl Samples for Members {
    fn begin(&mut self, place: Place) {
        self.place = place;
        self.walker = None;
        self.block.clear();
    }

    fn bytes(&mut self, mut bytes: &[u8]) {
        if self.place == Place::Beginning {
            return self.beginning(bytes);
        }
        while !bytes.is_empty() {
            let count = bytes.len().min(BLOCK_BYTES - self.block.len());
            self.block.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            if self.block.len() == BLOCK_BYTES {
                self.middle();
                self.block.clear();
            }
        }
    }
}

impl Head {
    /// Returns the space for the entries seen.
    fn need(&self, split_accounts: bool) -> Need {
        let implied = usize::from(self.accounts_implied && !split_accounts);
        let directories = (self.directories.len() < DIRECTORIES_MAX)
            .then_some((self.directories.len() + implied) as u64);
        let (storages, others) = (Part::of(self.storages), Part::of(self.others));
        Need { storages, others, directories }
    }

    fn add(&mut self, member: &Member<'_>) {
        let padded = member.size.checked_next_multiple_of(BLOCK_BYTES as u64).unwrap_or(u64::MAX);
        self.covered_bytes = member.payload_offset.saturating_add(padded);
        let path = member.path.strip_prefix(b"./").unwrap_or(member.path);
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let storage = path.starts_with(b"accounts/");
        if member.kind == MemberKind::Directory {
            self.directory(path);
            return;
        }
        if storage {
            self.storages.add(member.size);
            self.accounts_implied = !self.directories.contains(&b"accounts"[..]);
        } else {
            self.others.add(member.size);
            for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                self.directory(&path[..end]);
            }
        }
    }

    fn directory(&mut self, path: &[u8]) {
        if !path.is_empty() && path != b"." && self.directories.len() < DIRECTORIES_MAX {
            self.directories.insert(path.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use unsnap_testkit::tar::{TarBuilder, account_path, snapshot_head};

    use super::*;

    fn members(pieces: &[(Place, &[u8])]) -> Members {
        let mut members = Members::new(Limits::default());
        for (place, bytes) in pieces {
            members.begin(*place);
            bytes.chunks(1000).for_each(|piece| members.bytes(piece));
        }
        members
    }

    #[test]
    fn all_entries_give_an_exact_need() {
        let tar = snapshot_head(100, &[1; 900], &[2; 5000])
            .account(&account_path(90, 1), &[3; 4097])
            .account(&account_path(91, 2), &[4; 700])
            .finish();
        let members = members(&[(Place::Beginning, &tar)]);
        let need = members.need(tar.len() as u64, Basis::Decoded, false).unwrap();
        assert_eq!(need.storages.bytes(4096), 3 * 4096);
        assert_eq!(need.storages.bytes(1024), 5 * 1024 + 1024);
        assert_eq!(need.storages.bytes(1 << 20), 9 * 512 + 2 * 512, "an unknown unit");
        assert_eq!(need.storages.files, Some(2));
        // version, bank file, status cache
        assert_eq!(need.others.files, Some(3));
        assert_eq!(need.others.bytes(4096), (1 + 1 + 2) * 4096);
        // snapshots, snapshots/100, accounts
        assert_eq!(need.directories, Some(3));
        let split = members.need(tar.len() as u64, Basis::Decoded, true).unwrap();
        assert_eq!(split.directories, Some(2));
        assert_eq!(need.storages.share(2).files, Some(1));
    }

    #[test]
    fn unseen_entries_are_extrapolated_from_seen_ones() {
        let one = |bytes: usize| {
            let files = (0..20).fold(TarBuilder::new(), |tar, n| {
                tar.account(&account_path(n, 1), &vec![7; bytes])
            });
            files.into_bytes()
        };
        let head = one(100);
        // A file of 100 bytes takes a header and a block of the stream, and a block of the disk.
        let raw = head.len() as u64 * 1000;
        let need = members(&[(Place::Beginning, &head)]).need(raw, Basis::Sampled, false).unwrap();
        assert_eq!(need.storages.files, Some(20 * 1000));
        assert_eq!(need.storages.bytes(4096), 20 * 1000 * 4096);
        // The middle represents the rest better than the beginning. It may begin inside a file.
        let middle = &one(10_000)[5120..];
        let need = members(&[(Place::Beginning, &head), (Place::Middle, middle)])
            .need(raw, Basis::Sampled, false)
            .unwrap();
        let files = need.storages.files.unwrap();
        let expected = raw / (10_240 + 512);
        assert!(files.abs_diff(expected) < expected / 5, "{files}, {expected}");
    }

    #[test]
    fn contradictions_give_no_need() {
        let tar = snapshot_head(100, &[1; 900], &[2; 5000]).finish();
        let cut = members(&[(Place::Beginning, &tar[..tar.len() - 1024])]);
        assert_eq!(cut.need(tar.len() as u64, Basis::Decoded, false), None);
        let garbage = members(&[(Place::Beginning, &[7; 5000])]);
        assert_eq!(garbage.need(5000, Basis::Sampled, false), None);
        // An entry that is longer than the whole stream.
        let long = TarBuilder::new().file("long", &vec![0; 100_000]).into_bytes();
        let long = members(&[(Place::Beginning, &long[..2048])]);
        assert_eq!(long.need(2048, Basis::Declared, false), None);
        assert!(long.need(100_000, Basis::Declared, false).is_some());
    }

    #[test]
    fn too_few_entries_give_no_number_of_inodes() {
        let tar = snapshot_head(100, &[1; 900], &vec![2; 50_000]).into_bytes();
        let members = members(&[(Place::Beginning, &tar[..20_000])]);
        let need = members.need(1 << 30, Basis::Sampled, false).unwrap();
        assert_eq!(need.storages.files, None);
        assert!(need.storages.bytes(4096) > 900 << 20);
    }
}
