//! An archive's tar stream as a function of the offset.

use crate::bank::{self, BankSpec};
use crate::content::{self, Content};
use crate::plan::{self, Storage};
use crate::spec::{ArchiveSpec, Error};
use crate::tar::{BLOCK_BYTES, Header, account_path, snapshot_head};
use std::ops::Range;

/// An archive's tar stream. Any thread can generate any part of it independently.
///
/// Only the entries before the account files are in memory, a few MB.
pub struct TarImage {
    content: Content,
    seed: u64,
    head: Vec<u8>,
    entries: Vec<StorageEntry>,
    length: u64,
}

/// An account file and its position in the tar stream.
#[derive(Clone, Copy, Debug)]
pub struct StorageEntry {
    /// The account file.
    pub storage: Storage,
    /// Offset of its header.
    pub header_offset: u64,
}

impl StorageEntry {
    /// Returns its path in the archive.
    pub fn path(&self) -> String {
        account_path(self.storage.slot, self.storage.id)
    }

    /// Returns its header block.
    pub fn header(&self) -> [u8; BLOCK_BYTES] {
        Header::account(&self.path(), self.storage.size).finish()
    }

    /// Returns the range of its content in the tar stream.
    pub fn contents(&self) -> Range<u64> {
        let start = self.header_offset + BLOCK_BYTES as u64;
        start..start + self.storage.size
    }

    /// Returns the range of its content with padding.
    pub fn blocks(&self) -> Range<u64> {
        let Range { start, end } = self.contents();
        start..end.next_multiple_of(BLOCK_BYTES as u64)
    }
}

/// Buffers for segments that are needed only in part. One per thread and image.
#[derive(Default)]
pub struct Scratch {
    segment: Vec<u8>,
    /// File and number of the segment in the buffer.
    holds: Option<(u32, u64)>,
}

impl TarImage {
    /// Lays out an archive. Fails if the specification is impossible.
    pub fn new(spec: &ArchiveSpec) -> Result<Self, Error> {
        let storages = plan::storages(spec)?;
        let head = head(spec, &storages)?;
        let mut end = head.len() as u64;
        let entries = storages
            .into_iter()
            .map(|storage| {
                let entry = StorageEntry { storage, header_offset: end };
                end = entry.blocks().end;
                entry
            })
            .collect();
        let length = end + END_BYTES;
        Ok(Self { content: spec.content, seed: spec.seed, head, entries, length })
    }

    /// Returns the length of the tar stream in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the whole tar entries before the account files.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the account files in order.
    pub fn entries(&self) -> &[StorageEntry] {
        &self.entries
    }

    /// Generates the part of the stream that begins at `offset` and is as long as `bytes`.
    ///
    /// # Panics
    ///
    /// If the part reaches beyond the end.
    pub fn fill(&self, offset: u64, bytes: &mut [u8], scratch: &mut Scratch) {
        assert!(offset + bytes.len() as u64 <= self.length, "beyond the end of the tar stream");
        let mut position = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (part, range) = self.part_at(position);
            let skip = crate::length(position - range.start);
            let length = rest.len().min(crate::length(range.end - position));
            let (bytes, after) = rest.split_at_mut(length);
            match part {
                Part::Head => bytes.copy_from_slice(&self.head[skip..skip + length]),
                Part::Header(entry) => {
                    bytes.copy_from_slice(&entry.header()[skip..skip + length]);
                }
                Part::Segment { file, segment } => {
                    let segment_bytes = crate::length(range.end - range.start);
                    if length == segment_bytes {
                        self.fill_segment(file, segment, bytes);
                    } else {
                        // Large segments are asked for in many parts.
                        if scratch.holds != Some((file, segment)) {
                            scratch.segment.resize(segment_bytes, 0);
                            self.fill_segment(file, segment, &mut scratch.segment);
                            scratch.holds = Some((file, segment));
                        }
                        bytes.copy_from_slice(&scratch.segment[skip..skip + length]);
                    }
                }
                Part::Zeros => bytes.fill(0),
            }
            position += length as u64;
            rest = after;
        }
    }

    fn fill_segment(&self, file: u32, segment: u64, bytes: &mut [u8]) {
        content::fill_segment(self.content, self.seed, file.into(), segment, bytes);
    }

    /// Returns the part at an offset, with its range.
    fn part_at(&self, offset: u64) -> (Part<'_>, Range<u64>) {
        let following = self.entries.partition_point(|entry| entry.header_offset <= offset);
        let Some(entry) = following.checked_sub(1).map(|index| &self.entries[index]) else {
            return (Part::Head, 0..self.head.len() as u64);
        };
        let contents = entry.contents();
        if offset < contents.start {
            return (Part::Header(entry), entry.header_offset..contents.start);
        }
        if offset < contents.end {
            let size = entry.storage.size;
            let segment = self.content.segment_at(size, offset - contents.start);
            let range = self.content.segment_range(size, segment);
            let part = Part::Segment { file: entry.storage.id, segment };
            return (part, contents.start + range.start..contents.start + range.end);
        }
        // Padding, and after the last file the end blocks too.
        let next = self.entries.get(following).map_or(self.length, |next| next.header_offset);
        (Part::Zeros, contents.end..next)
    }
}

enum Part<'a> {
    Head,
    Header(&'a StorageEntry),
    Segment { file: u32, segment: u64 },
    Zeros,
}

/// Generates everything before the account files, of a plausible size: about 1/1000 of the whole
/// for the stakes, and a status cache that grows with the archive too.
fn head(spec: &ArchiveSpec, storages: &[Storage]) -> Result<Vec<u8>, Error> {
    let totals = spec.totals()?;
    let total_bytes: u64 = storages.iter().map(|storage| storage.size).sum();
    let listed: Vec<_> = storages.iter().map(|s| (s.slot, s.id, s.size)).collect();
    let bank_file = bank::bank_file(&BankSpec {
        slot: spec.slot,
        lattice_hash: &totals.lattice_hash,
        capitalization: totals.capitalization,
        storages: &listed,
        vote_accounts: (total_bytes / BYTES_PER_VOTE_ACCOUNT).clamp(1, VOTE_ACCOUNTS_MAX),
        seed: spec.seed,
    });
    let transactions = (total_bytes / BYTES_PER_TRANSACTION).min(TRANSACTIONS_MAX);
    let status_cache = bank::status_cache(spec.slot, transactions, spec.seed);
    Ok(snapshot_head(spec.slot, &bank_file, &status_cache).into_bytes())
}

const END_BYTES: u64 = 2 * BLOCK_BYTES as u64;
const BYTES_PER_VOTE_ACCOUNT: u64 = 5_000_000;
const VOTE_ACCOUNTS_MAX: u64 = 2_000;
const BYTES_PER_TRANSACTION: u64 = 20_000_000;
const TRANSACTIONS_MAX: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::spec::FileSizes;

    fn whole(image: &TarImage) -> Vec<u8> {
        let mut bytes = vec![0xFF; crate::length(image.length())];
        image.fill(0, &mut bytes, &mut Scratch::default());
        bytes
    }

    #[test]
    fn any_part_equals_that_part_of_the_whole() {
        for file_sizes in [FileSizes::Mainnet, FileSizes::Fixed(1000), FileSizes::Fixed(700_000)] {
            let spec = ArchiveSpec { total_bytes: 3_000_000, file_sizes, ..ArchiveSpec::default() };
            let image = TarImage::new(&spec).unwrap();
            let whole = whole(&image);
            let mut random = Random::new(1);
            let mut scratch = Scratch::default();
            for _ in 0..300 {
                let start = random.index(whole.len());
                let end = (start + 1 + crate::length(random.log_uniform(20))).min(whole.len());
                let mut part = vec![0xFF; end - start];
                image.fill(start as u64, &mut part, &mut scratch);
                assert!(part == whole[start..end], "{start}..{end}");
            }
        }
    }

    #[test]
    fn streams_end_in_two_zero_blocks_and_nothing_else() {
        let image = TarImage::new(&ArchiveSpec::default()).unwrap();
        let whole = whole(&image);
        let last = image.entries().last().unwrap().blocks().end;
        assert_eq!(last + 1024, image.length());
        assert!(whole[crate::length(last)..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn heads_hold_about_a_thousandth() {
        let spec = ArchiveSpec { total_bytes: 1_000_000_000, ..ArchiveSpec::default() };
        let head = TarImage::new(&spec).unwrap().head().len();
        assert!((500_000..10_000_000).contains(&head), "{head}");
    }
}
