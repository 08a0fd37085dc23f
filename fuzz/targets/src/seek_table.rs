//! Target for seek tables at the ends of archives.

use std::io;

use unsnap_decode::ReadAt;
use unsnap_index::{FrameTable, IndexError, SEEK_ENTRIES_MAX, SeekEntry, SeekTable};

use crate::{INPUT_BYTES_MAX, tables::assert_adjoin, text::assert_safe};

/// Takes an archive, used as it is; also takes flags and entries, from which it makes an archive
/// whose frames have the lengths in the entries. The table equals that of an independent parser, or
/// both refuse. Its frames are contiguous up to the archive's end. It survives a round trip.
pub fn seek_table(data: &[u8]) {
    if data.len() > INPUT_BYTES_MAX {
        return;
    }
    check(&Archive { zeros: 0, rest: data.to_vec() });
    if let Some((&flags, entries)) = data.split_first() {
        check(&Archive::of_entries(flags, entries));
    }
}

/// An archive that begins with this many zeros, which take no memory.
struct Archive {
    zeros: u64,
    rest: Vec<u8>,
}

impl Archive {
    fn of_entries(flags: u8, entries: &[u8]) -> Self {
        let entry_bytes = if flags & 0x80 == 0 { 8 } else { 12 };
        let entries = entries.chunks_exact(entry_bytes);
        let count = u32::try_from(entries.len()).expect("few entries");
        let length = count * u32::try_from(entry_bytes).expect("8 or 12") + 9;
        let zeros = entries
            .clone()
            .map(|entry| u64::from(u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]])))
            .sum();
        let entries: Vec<u8> = entries.flatten().copied().collect();
        let footer = [&count.to_le_bytes()[..], &[flags], &[0xb1, 0xea, 0x92, 0x8f]].concat();
        let header = [&[0x5e, 0x2a, 0x4d, 0x18][..], &length.to_le_bytes()].concat();
        Self { zeros, rest: [header, entries, footer].concat() }
    }

    fn bytes(&self) -> u64 {
        self.zeros + self.rest.len() as u64
    }

    fn byte(&self, at: u64) -> u8 {
        let rest = at.checked_sub(self.zeros).and_then(|at| usize::try_from(at).ok());
        rest.map_or(0, |at| self.rest[at])
    }

    fn number(&self, at: u64) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(|byte| self.byte(at + byte)))
    }
}

impl ReadAt for Archive {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = self.bytes().min(offset.saturating_add(buffer.len() as u64));
        let places = offset..end;
        let count = usize::try_from(end.saturating_sub(offset)).expect("as long as the buffer");
        buffer[..count].iter_mut().zip(places).for_each(|(byte, at)| *byte = self.byte(at));
        Ok(count)
    }
}

/// Parses the table by the format's own document (zstd, `contrib/seekable_format`). Returns `None`
/// if there is none, and an error if it is invalid.
fn second_reading(archive: &Archive) -> Option<Result<Vec<SeekEntry>, ()>> {
    let end = archive.bytes();
    if end < 9 || archive.number(end - 4) != 0x8f92_eab1 {
        return None;
    }
    let descriptor = archive.byte(end - 5);
    let has_checksums = descriptor & 1 << 7 != 0;
    let entry_bytes = if has_checksums { 12 } else { 8 };
    let count = u64::from(archive.number(end - 9));
    let content_bytes = count * entry_bytes + 9;
    if descriptor & 0x7c != 0 || count > SEEK_ENTRIES_MAX || content_bytes + 8 > end {
        return Some(Err(()));
    }
    let begin = end - content_bytes - 8;
    let length = u64::from(archive.number(begin + 4));
    if archive.number(begin) != 0x184d_2a5e || length != content_bytes {
        return Some(Err(()));
    }
    let entry = |index: u64| {
        let at = begin + 8 + index * entry_bytes;
        let checksum = has_checksums.then(|| archive.number(at + 8));
        SeekEntry { bytes: archive.number(at), raw_bytes: archive.number(at + 4), checksum }
    };
    let entries: Vec<_> = (0..count).map(entry).collect();
    let frames: u64 = entries.iter().map(|entry| u64::from(entry.bytes)).sum();
    let is_consistent = frames == begin && entries.iter().all(|entry| entry.bytes > 0);
    Some(if is_consistent { Ok(entries) } else { Err(()) })
}

fn check(archive: &Archive) {
    let table = match (second_reading(archive), SeekTable::read(archive, archive.bytes())) {
        (None, Ok(None)) => return,
        (Some(Err(())), Err(error)) => {
            assert!(matches!(error, IndexError::SeekTable(_)), "{error:?}");
            assert_safe(&error.to_string());
            return;
        }
        (Some(Ok(entries)), Ok(Some(table))) => {
            assert_eq!(table.entries(), entries);
            table
        }
        (theirs, ours) => panic!("{ours:?}, but the independent parser returns {theirs:?}"),
    };
    // Inputs this short cannot exceed the limit on decoded bytes.
    let frames = FrameTable::of_seek_table(archive, archive.bytes());
    let frames = frames.expect("readable").expect("a table");
    assert_adjoin(&frames);
    assert_eq!(frames.archive_bytes(), archive.bytes());
    assert_eq!(frames.frames().len(), table.entries().len() + 1);
    for (frame, entry) in frames.frames().iter().zip(table.entries()) {
        assert_eq!((frame.bytes, frame.raw_bytes), (entry.bytes.into(), entry.raw_bytes.into()));
    }
    // Frames match their entries or do not; there is no other result.
    let checked = frames.check_samples(archive);
    assert!(matches!(checked, Ok(()) | Err(IndexError::SeekTable(_))), "{checked:?}");

    let zeros = archive.bytes() - frames.frames().last().map_or(0, |table| table.bytes);
    let again = Archive { zeros, rest: table.encode() };
    assert_eq!(SeekTable::read(&again, again.bytes()).ok().flatten(), Some(table));
}
