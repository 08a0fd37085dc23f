//! Seek tables: written tables conform to the format and read back unchanged; any table is read
//! exactly as an independent implementation reads it, or both refuse it.

use proptest::prelude::*;
use unsnap_index::{Encoding, FrameTable, IndexError, SeekEntry, SeekTable};
use unsnap_testkit::compress;

use crate::support::{snapshot, zstd_table};

/// Returns an archive with frames of these lengths, without any content, and our table of them.
fn archive(table: &SeekTable) -> Vec<u8> {
    let frames = table.entries().iter().map(|entry| entry.bytes as usize).sum();
    let mut bytes = vec![1; frames];
    bytes.extend(table.encode());
    bytes
}

fn table(frames: &[(u32, u32)], checksums: bool) -> SeekTable {
    let mut table = SeekTable::new(checksums);
    for (bytes, raw_bytes) in frames {
        let checksum = checksums.then_some(bytes ^ raw_bytes ^ 0xaabb_ccdd);
        table.push(SeekEntry { bytes: *bytes, raw_bytes: *raw_bytes, checksum }).unwrap();
    }
    table
}

fn read(bytes: &[u8]) -> Result<Option<SeekTable>, IndexError> {
    SeekTable::read(&bytes, bytes.len() as u64)
}

fn frames(bytes: &[u8]) -> Result<Option<FrameTable>, IndexError> {
    FrameTable::of_seek_table(&bytes, bytes.len() as u64)
}

/// An independent reading of a table from its end, by the format's own document (zstd,
/// `contrib/seekable_format`): compressed and decoded sizes, and checksums if there are any.
#[derive(Debug, PartialEq)]
enum Reading {
    NoTable,
    Bad,
    Table(Vec<(u32, u32, Option<u32>)>),
}

fn second_reading(archive: &[u8]) -> Reading {
    let Some((rest, [0xb1, 0xea, 0x92, 0x8f])) = archive.split_last_chunk() else {
        return Reading::NoTable;
    };
    let Some((rest, [a, b, c, d, descriptor])) = rest.split_last_chunk() else {
        return Reading::NoTable;
    };
    let count = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    let words = if descriptor >> 7 == 1 { 3 } else { 2 };
    let length = count.checked_mul(words * 4).filter(|_| count <= 4 << 20);
    let Some(entries_at) = length.and_then(|length| rest.len().checked_sub(length)) else {
        return Reading::Bad;
    };
    let (front, entries) = rest.split_at(entries_at);
    let Some((frames, [0x5e, 0x2a, 0x4d, 0x18, size @ ..])) = front.split_last_chunk::<8>() else {
        return Reading::Bad;
    };
    let size_is_right = u32::from_le_bytes(*size) as usize == entries.len() + 9;
    let entries: Vec<u32> =
        entries.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let entries: Vec<_> = entries
        .chunks_exact(words)
        .map(|entry| (entry[0], entry[1], entry.get(2).copied()))
        .collect();
    let sum: usize = entries.iter().map(|entry| entry.0 as usize).sum();
    let reserved = descriptor & 0b0111_1100;
    if size_is_right && reserved == 0 && sum == frames.len() && entries.iter().all(|e| e.0 > 0) {
        Reading::Table(entries)
    } else {
        Reading::Bad
    }
}

/// Checks that both readings agree, and that an accepted table is consistent and survives
/// rewriting.
fn check(bytes: &[u8]) {
    let ours = read(bytes);
    match second_reading(bytes) {
        Reading::NoTable => assert_eq!(ours.unwrap(), None),
        Reading::Bad => assert!(matches!(ours, Err(IndexError::SeekTable(_))), "{ours:?}"),
        Reading::Table(theirs) => {
            let ours = ours.unwrap().unwrap();
            let entries: Vec<_> = ours
                .entries()
                .iter()
                .map(|entry| (entry.bytes, entry.raw_bytes, entry.checksum))
                .collect();
            assert_eq!(entries, theirs);
            assert_eq!(read(&archive(&ours)).unwrap().unwrap(), ours);
            let frames = frames(bytes).unwrap().unwrap();
            assert_eq!(frames.archive_bytes(), bytes.len() as u64);
            let raw: u64 = theirs.iter().map(|entry| u64::from(entry.1)).sum();
            assert_eq!((frames.raw_bytes(), frames.frames().len()), (raw, theirs.len() + 1));
        }
    }
}

#[test]
fn the_table_conforms_to_the_format() {
    let mut with = SeekTable::new(true);
    with.push(SeekEntry { bytes: 3, raw_bytes: 0x0102, checksum: Some(0xaabb_ccdd) }).unwrap();
    with.push(SeekEntry { bytes: 4, raw_bytes: 5, checksum: Some(6) }).unwrap();
    let frame = with.encode();
    assert_eq!(frame[..8], [0x5e, 0x2a, 0x4d, 0x18, 2 * 12 + 9, 0, 0, 0]);
    assert_eq!(frame[8..20], [3, 0, 0, 0, 2, 1, 0, 0, 0xdd, 0xcc, 0xbb, 0xaa]);
    assert_eq!(frame[32..], [2, 0, 0, 0, 0x80, 0xb1, 0xea, 0x92, 0x8f]);

    let frame = table(&[(3, 7)], false).encode();
    assert_eq!(frame[4..8], [8 + 9, 0, 0, 0]);
    assert_eq!(frame[8..], [3, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0xb1, 0xea, 0x92, 0x8f]);
}

#[test]
fn entries_that_a_table_cannot_hold_are_refused() {
    let entry = |bytes, checksum| SeekEntry { bytes, raw_bytes: 7, checksum };
    assert!(SeekTable::new(true).push(entry(3, None)).is_err(), "no checksum");
    assert!(SeekTable::new(false).push(entry(3, Some(1))).is_err(), "a checksum");
    assert!(SeekTable::new(false).push(entry(0, None)).is_err(), "no frame");
}

#[test]
fn frames_are_where_the_table_says() {
    for checksums in [false, true] {
        let bytes = archive(&table(&[(10, 100), (20, 0), (30, 7)], checksums));
        let frames = frames(&bytes).unwrap().unwrap();
        assert_eq!((frames.frames().len(), frames.raw_bytes()), (4, 107));
        assert_eq!(frames.frames()[2].extent(), 30..60);
        assert!(frames.frames()[3].skippable);
    }
    // More than are read at a time.
    check(&archive(&table(&vec![(1, 2); 10_000], true)));
}

#[test]
fn no_table_is_no_error() {
    for bytes in [&b""[..], b"12345678", b"1234567890", &[0; 100]] {
        assert_eq!(read(bytes).unwrap(), None);
        check(bytes);
    }
}

#[test]
fn tables_that_lie_are_refused() {
    let good = archive(&table(&[(10, 100), (20, 50)], false));
    let footer = good.len() - 9;
    for (at, value) in [
        (footer, 3),        // more entries
        (footer, 1),        // fewer
        (footer + 3, 0xff), // far too many
        (footer + 4, 0x04), // a reserved flag
        (footer + 4, 0x80), // missing checksums
        (30, 0),            // not a skippable frame
        (34, 0),            // wrong length
        (38, 9),            // a shorter frame
        (38, 11),           // a longer one
        (38, 0),            // an empty one
        (41, 0xff),         // or longer than the archive
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        let result = read(&bytes);
        assert!(matches!(result, Err(IndexError::SeekTable(_))), "{at} {value}: {result:?}");
        check(&bytes);
    }
    // Bits without meaning may have any value.
    let mut bytes = good.clone();
    bytes[footer + 4] = 0x03;
    check(&bytes);
    assert_eq!(read(&bytes).unwrap(), read(&good).unwrap());
}

/// Returns an archive of genuine frames, with its own table at the end.
fn seekable(frames: &[u8]) -> Vec<u8> {
    let mut table = SeekTable::new(false);
    for frame in zstd_table(frames).frames() {
        let bytes = u32::try_from(frame.bytes).unwrap();
        let raw_bytes = u32::try_from(frame.raw_bytes).unwrap();
        table.push(SeekEntry { bytes, raw_bytes, checksum: None }).unwrap();
    }
    [frames, &table.encode()].concat()
}

#[test]
fn genuine_frames_match_their_table() {
    let tar = snapshot();
    for frames in [
        compress::zstd_frames(&tar, 700, 1),
        compress::zstd_frames(&tar, 90_000, 1),
        compress::zstd_frames_unsized(&tar, 5000, 1),
        [compress::skippable_frame(b"x"), compress::zstd_frames(&tar, 9000, 1)].concat(),
    ] {
        let archive = seekable(&frames);
        let archive = archive.as_slice();
        let table = FrameTable::of_seek_table(&archive, archive.len() as u64).unwrap().unwrap();
        assert_eq!(table.raw_bytes(), tar.len() as u64);
        table.check_samples(&archive).unwrap();
    }
    FrameTable::new(Encoding::Zstd).check_samples(&&b""[..]).unwrap();
}

#[test]
fn a_table_of_other_frames_is_noticed() {
    let frames = compress::zstd_frames(&snapshot(), 9000, 1);
    let honest: Vec<(u64, u64)> =
        zstd_table(&frames).frames().iter().map(|frame| (frame.bytes, frame.raw_bytes)).collect();
    let lie_about_size: fn(&mut [(u64, u64)]) = |sizes| sizes[2].1 += 512;
    let lie_about_border: fn(&mut [(u64, u64)]) = |sizes| {
        sizes[2].0 += 1;
        sizes[3].0 -= 1;
    };
    for lie in [lie_about_size, lie_about_border] {
        let mut sizes = honest.clone();
        lie(&mut sizes);
        let mut table = FrameTable::new(Encoding::Zstd);
        for (bytes, raw_bytes) in sizes {
            table.push(bytes, Some(raw_bytes)).unwrap();
        }
        let checked = table.check_samples(&frames.as_slice());
        assert!(matches!(checked, Err(IndexError::SeekTable(_))), "{checked:?}");
    }
}

proptest! {
    #[test]
    fn tables_survive_a_round_trip(
        frames in prop::collection::vec((1..300_u32, any::<u32>()), 0..60),
        checksums in any::<bool>(),
    ) {
        let written = table(&frames, checksums);
        let bytes = archive(&written);
        prop_assert_eq!(read(&bytes).unwrap().unwrap(), written);
        check(&bytes);
    }

    /// Valid tables with a few bytes changed, and truncated at either end.
    #[test]
    fn hostile_tables_are_read_as_the_format_says_or_refused(
        frames in prop::collection::vec((1..20_u32, any::<u32>()), 0..20),
        checksums in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in 0..3_usize,
    ) {
        let mut bytes = archive(&table(&frames, checksums));
        for (at, value) in changes {
            // Near the end, where the table is.
            let at = bytes.len() - 1 - at.index(bytes.len().min(60));
            bytes[at] = value;
        }
        check(&bytes[cut.min(bytes.len())..]);
        check(&bytes[..bytes.len() - cut.min(bytes.len())]);
    }

    /// Arbitrary bytes that end like a table.
    #[test]
    fn noise_is_read_as_the_format_says_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        count in 0..40_u32,
        flags in prop_oneof![Just(0_u8), Just(0x80), any::<u8>()],
    ) {
        bytes.extend(count.to_le_bytes());
        bytes.push(flags);
        bytes.extend([0xb1, 0xea, 0x92, 0x8f]);
        check(&bytes);
    }
}
